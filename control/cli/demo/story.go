// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
	"github.com/ikhnos/continuum/internal/process"
)

// Options of the demo.
type Options struct {
	Ikhnos, Collector string // programs
	PortBase          int
	Once              bool // stop after the story, with an error if a check failed
	Keep              bool // leave the state folder
	Out               io.Writer
	Now               func() time.Time
}

// leafLifetime is short enough to watch a renewal, a third into it.
const leafLifetime = 60 * time.Second

// chapterTimeout bounds each step of the story; a renewal is due 22 s after the
// enrolment at the latest.
const chapterTimeout = 60 * time.Second

// Run tells the story. It returns when ctx ends, or with Once when it is told.
func Run(ctx context.Context, o Options) (err error) {
	dir, err := os.MkdirTemp("", "ikhnos-demo-")
	if err != nil {
		return fmt.Errorf("making the demo's folder: %w", err)
	}
	s := &story{o: o, start: o.Now(), told: map[string]bool{}}
	s.say("state", "in %s, removed at the end", dir)
	defer func() {
		if o.Keep {
			s.say("state", "kept in %s", dir)
			return
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()

	s.fleet, err = Start(ctx, Config{
		Ikhnos: o.Ikhnos, Collector: o.Collector, Dir: dir, PortBase: o.PortBase,
		LeafLifetime: leafLifetime, Now: o.Now, OnRecord: s.record,
	})
	if err != nil {
		return unlessAsked(ctx, o, err)
	}
	defer func() {
		s.say("stopping", "the collectors hand over what they hold")
		s.fleet.Stop()
	}()
	asked := ctx // ends when a person asks for it, ctx also when a process fails
	ctx, stopWatching := s.fleet.watch(ctx)
	defer stopWatching()

	for _, chapter := range []func(context.Context) error{
		s.enrolled, s.arriving, s.forged, s.renewed, s.cutOff, s.closing,
	} {
		if err := s.chapter(ctx, chapter); err != nil {
			return unlessAsked(asked, o, err)
		}
	}
	if o.Once {
		s.say("done", "every check passed")
		return nil
	}
	s.say("running", "Ctrl-C ends it")
	<-ctx.Done()
	return unlessAsked(asked, o, context.Cause(ctx))
}

// unlessAsked is nil where a person ended the demo; with Once that is a failure
// too, because not every check was made.
func unlessAsked(asked context.Context, o Options, err error) error {
	if asked.Err() != nil && !o.Once {
		return nil
	}
	return err
}

// watch returns a context that ends when a process of the fleet does, with that
// as its cause.
func (f *Fleet) watch(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	for _, p := range f.processes() {
		go func() {
			select {
			case <-p.Done():
				cancel(p.Ended())
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}

type story struct {
	o     Options
	start time.Time
	fleet *Fleet

	mu   sync.Mutex // guards told and the order of lines
	told map[string]bool
}

func (s *story) chapter(ctx context.Context, tell func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, chapterTimeout)
	defer cancel()
	return tell(ctx)
}

func (s *story) say(what, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line(what, format, args...)
}

func (s *story) line(what, format string, args ...any) {
	elapsed := s.o.Now().Sub(s.start).Seconds()
	_, _ = fmt.Fprintf(s.o.Out, "%6.1fs  %-9s %s\n", elapsed, what, fmt.Sprintf(format, args...))
}

// record tells the first record of each sender and signal as it arrives.
func (s *story) record(r Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := r.Sender() + " " + r.Signal
	if s.told[key] {
		return
	}
	s.told[key] = true
	s.line("record", "%-7s %s: %s", r.Signal, origin(r), shorten(r.Summary))
}

// origin says whose record it is and which way it came, by what was stamped.
func origin(r Record) string {
	operator := r.Attribute(identity.KeyOperatorID)
	switch cluster := r.Attribute(identity.KeyClusterID); {
	case cluster != "":
		return fmt.Sprintf("from %s (organisation %s), through %s", cluster, r.Attribute(identity.KeyOrgID), operator)
	case operator != "":
		return "of " + operator + " itself"
	}
	return "of the central operator itself"
}

func shorten(text string) string {
	const limit = 60
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	return string(runes[:limit]) + "…"
}

func (s *story) enrolled(ctx context.Context) error {
	s.say("server", "%s (%s)", s.fleet.URL, s.fleet.Pin)
	entries, err := s.entries(ctx)
	if err != nil {
		return err
	}
	want := map[string]bool{
		CentralID: true, RegionalID: true,
		identity.SenderName(CentralID, RegionalID): true,
		identity.SenderName(RegionalID, ClusterID): true,
		identity.SenderName(RegionalID, ForgerID):  true,
	}
	for _, e := range entries {
		if want[e.Holder] {
			delete(want, e.Holder)
			s.say("enrolled", "%s (%s), serial %s, ends %s", e.Holder, e.Role, short(e.Serial), e.NotAfter.Format(time.TimeOnly))
		}
	}
	if len(want) > 0 {
		return fmt.Errorf("not enrolled: %v", want)
	}
	return nil
}

func (s *story) entries(ctx context.Context) ([]ledger.Entry, error) {
	var all []ledger.Entry
	for _, operator := range []string{CentralID, RegionalID} {
		entries, err := s.fleet.API.Certificates(ctx, apiclient.CertificateFilter{Operator: operator})
		if err != nil {
			return nil, fmt.Errorf("reading the ledger of %s: %w", operator, err)
		}
		all = append(all, entries...)
	}
	return all, nil
}

func short(serial string) string { return serial[:min(8, len(serial))] + "…" }

// arriving waits for real telemetry of every kind: metrics and logs of this host
// from both clusters, and the control server's own traces.
func (s *story) arriving(ctx context.Context) error {
	for _, want := range []struct{ sender, signal string }{
		{ClusterID, SignalMetrics}, {ClusterID, SignalLogs}, {ClusterID, SignalTraces},
		{ForgerID, SignalMetrics}, {ForgerID, SignalLogs},
	} {
		r, err := s.fleet.Sink.Wait(ctx, func(r Record) bool { return r.Sender() == want.sender && r.Signal == want.signal })
		if err != nil {
			return fmt.Errorf("no %s of %s arrived: %w", want.signal, want.sender, err)
		}
		if err := Stamped(r, want.sender); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) forged(ctx context.Context) error {
	const marker = "a forged record"
	if err := s.fleet.SendLog(ctx, ForgerID, marker, Forgery); err != nil {
		return err
	}
	r, err := s.fleet.Sink.Wait(ctx, func(r Record) bool { return r.Summary == marker })
	if err != nil {
		return fmt.Errorf("the forged record did not arrive: %w", err)
	}
	if err := Stamped(r, ForgerID); err != nil {
		return err
	}
	if err := Clean(r); err != nil {
		return err
	}
	s.say("forged", "%s sent a record in the name of %s; what it claimed, and what arrived:", ForgerID, ClusterID)
	for _, c := range claims {
		s.say("", "  %-8s  %-24s  %-8s  %s", c.place, c.key, c.value, c.fate(r))
	}
	return nil
}

func (s *story) renewed(ctx context.Context) error {
	holder := identity.SenderName(RegionalID, ClusterID)
	s.say("renewal", "due a third into the life of %s, a few seconds from now", holder)
	var old, renewed ledger.Entry
	err := process.Poll(ctx, "a renewal of "+holder, s.fleet.processes(), func(ctx context.Context) error {
		entries, err := s.fleet.API.Certificates(ctx, apiclient.CertificateFilter{Operator: RegionalID, Holder: holder})
		if err != nil {
			return err
		}
		bySerial := map[string]ledger.Entry{}
		for _, e := range entries {
			bySerial[e.Serial] = e
		}
		for _, e := range entries {
			if parent, ok := bySerial[e.Parent]; ok {
				old, renewed = parent, e
				return nil
			}
		}
		return errors.New("no entry with a parent yet")
	})
	if err != nil {
		return err
	}
	s.say("renewed", "%s: serial %s replaced by %s, new key, no restart", holder, short(old.Serial), short(renewed.Serial))
	marker := "after the renewal"
	if err := s.fleet.SendLog(ctx, ClusterID, marker, nil); err != nil {
		return err
	}
	if _, err := s.fleet.Sink.Wait(ctx, func(r Record) bool { return r.Summary == marker && r.Sender() == ClusterID }); err != nil {
		return fmt.Errorf("nothing arrived after the renewal: %w", err)
	}
	return nil
}

func (s *story) cutOff(ctx context.Context) error {
	name := identity.SenderName(RegionalID, ForgerID)
	receipt, err := s.fleet.API.RevokeSender(ctx, RegionalID, ForgerID, operators.RevokeCompromised, "shown in the demo", 0)
	if err != nil {
		return fmt.Errorf("cutting off %s: %w", name, err)
	}
	s.say("cut off", "%s: committed, receipt %s", name, receipt.ReceiptID)
	var bitten controlapi.ReceiptInstance
	err = process.Poll(ctx, "the cut-off to bite", s.fleet.processes(), func(ctx context.Context) error {
		r, err := s.fleet.API.Receipt(ctx, receipt.ReceiptID)
		if err != nil {
			return err
		}
		for _, i := range r.Instances {
			if i.State == controlapi.ReceiptConfirmed && i.FirstRefusedAtMs != 0 {
				bitten = i
				return nil
			}
		}
		return errors.New("not refused yet")
	})
	if err != nil {
		return err
	}
	seconds := func(ms int64) float64 { return float64(ms-receipt.CommittedAtMs) / 1000 }
	s.say("cut off", "%s enforced it %+.3f s after the commit; last accepted %+.3f s, first refused %+.3f s",
		bitten.Operator, seconds(bitten.AppliedAtMs), seconds(bitten.LastAcceptedAtMs), seconds(bitten.FirstRefusedAtMs))
	if bitten.LastAcceptedAtMs > bitten.FirstRefusedAtMs {
		return errors.New("a request was accepted after the first refusal")
	}
	return s.neighbourGoesOn(ctx)
}

// neighbourGoesOn proves that the cut-off hit one sender alone: of two records
// sent now, the neighbour's arrives and the other's does not.
func (s *story) neighbourGoesOn(ctx context.Context) error {
	const marker = "after the cut-off"
	for _, id := range []string{ForgerID, ClusterID} {
		if err := s.fleet.SendLog(ctx, id, marker, nil); err != nil {
			return err
		}
	}
	r, err := s.fleet.Sink.Wait(ctx, func(r Record) bool { return r.Summary == marker })
	if err != nil {
		return fmt.Errorf("the neighbour of the sender that was cut off is silent: %w", err)
	}
	if r.Sender() != ClusterID {
		return fmt.Errorf("a record of %s arrived after the cut-off", r.Sender())
	}
	s.say("cut off", "%s goes on, %s does not arrive any more", ClusterID, ForgerID)
	return nil
}

func (s *story) closing(context.Context) error {
	if s.o.Once {
		return nil // nothing stays up to be looked at
	}
	s.say("web page", "%s  (sign in with the token in %s)", s.fleet.URL, s.fleet.TokenFile)
	s.say("sink", "%s  (what arrived: stamped beside sent)", s.fleet.SinkURL)
	s.say("yours", "a collector of your own joins with:")
	_, err := fmt.Fprintf(s.o.Out, `
  export IKHNOS_SERVER=%s IKHNOS_CA_PIN=%s
  %q --token-file %q cluster add mine --approve
  %q --token-file %q sender connect mine --operator %s   # it listens on 127.0.0.1:%d

`, s.fleet.URL, s.fleet.Pin, s.o.Ikhnos, s.fleet.TokenFile, s.o.Ikhnos, s.fleet.TokenFile, RegionalID, s.fleet.Collector(RegionalID).GRPCPort)
	return err
}
