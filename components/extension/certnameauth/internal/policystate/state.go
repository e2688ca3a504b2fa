// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package policystate

import (
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/signedpolicy"
)

// serialMemory is how long a denied serial is remembered: no leaf lives longer.
const serialMemory = 30 * 24 * time.Hour

var (
	// ErrRegressed says that a policy is older than the one in force.
	ErrRegressed = errors.New("the policy is older than the one in force")
	// ErrOperator says that a policy is signed by our CA for another operator.
	ErrOperator = errors.New("the policy is that of another operator")
)

// Denial is a name that was denied in an epoch that has passed.
type Denial struct {
	State controlapi.SenderState `json:"state"`
	Epoch int64                  `json:"epoch"`
}

// memory is the third line of the file.
type memory struct {
	Names map[string]Denial `json:"names"`
	// Serials and when they were first remembered.
	Serials map[string]time.Time `json:"serials"`
	// Previous are the last policies of earlier epochs, as signed, the newest
	// first: a sender that they allowed and the restored server has not heard of
	// stays allowed.
	Previous []string `json:"previous,omitempty"`
}

// written has no null where there is nothing.
func (m memory) written() memory {
	if m.Names == nil {
		m.Names = map[string]Denial{}
	}
	if m.Serials == nil {
		m.Serials = map[string]time.Time{}
	}
	return m
}

// State is a policy in force with what is remembered. It is not changed once it
// is made. A nil State is that of an operator without a policy.
type State struct {
	JWS    string
	Policy *controlapi.Policy
	// Contact is when the server last answered with this policy, or that there
	// is none newer.
	Contact time.Time

	memory   memory
	previous []*controlapi.Policy // of memory.Previous
}

// Verifier checks a signed policy against the operator's CA certificates.
type Verifier struct {
	CAs        []*x509.Certificate
	OperatorID string
}

// Verify returns the policy in jws when one of the CAs signed it for this
// operator.
func (v Verifier) Verify(jws string) (*controlapi.Policy, error) {
	err := signedpolicy.ErrSignature
	for _, ca := range v.CAs {
		var p *controlapi.Policy
		if p, err = signedpolicy.Verify(jws, ca); err == nil {
			if p.OperatorID != v.OperatorID {
				return nil, ErrOperator
			}
			return p, nil
		}
		if errors.Is(err, signedpolicy.ErrPayload) {
			break
		}
	}
	return nil, err
}

// Next is the state after the server answered with a verified policy: of the
// same version (changed is false), or a newer one. A lower version is
// ErrRegressed.
func (s *State) Next(jws string, p *controlapi.Policy, now time.Time) (next *State, changed bool, err error) {
	switch {
	case s == nil:
		return &State{JWS: jws, Policy: p, Contact: now}, true, nil
	case p.Version == s.Policy.Version:
		return s.Touched(now), false, nil
	case p.Less(s.Policy.Version):
		return nil, false, fmt.Errorf("%w: epoch %d number %d after epoch %d number %d",
			ErrRegressed, p.Epoch, p.Number, s.Policy.Epoch, s.Policy.Number)
	}
	next = s.copy()
	next.JWS, next.Policy, next.Contact = jws, p, now
	if p.Epoch > s.Policy.Epoch {
		next.rememberEpoch(s, now)
	}
	next.prune(now)
	return next, true, nil
}

// Touched is the state with a later contact.
func (s *State) Touched(now time.Time) *State {
	next := *s
	next.Contact = now
	return &next
}

// Denying is the state with more serials remembered.
func (s *State) Denying(serials []string, now time.Time) *State {
	next := s.copy()
	next.denySerials(serials, now)
	return next
}

func (s *State) copy() *State {
	next := *s
	next.memory.Names = maps.Clone(s.memory.Names)
	next.memory.Serials = maps.Clone(s.memory.Serials)
	return &next
}

// rememberEpoch keeps what old denied and whom it allowed.
func (s *State) rememberEpoch(old *State, now time.Time) {
	if s.memory.Names == nil {
		s.memory.Names = map[string]Denial{}
	}
	for _, sender := range old.Senders() {
		state := sender.State
		if old.Policy.Mode == controlapi.PolicyDenyAll {
			state = controlapi.SenderRevoked
		}
		if state != controlapi.SenderAllowed {
			s.memory.Names[sender.Name] = Denial{State: state, Epoch: old.Policy.Epoch}
		}
	}
	s.denySerials(old.Policy.RevokedSerials, now)
	s.memory.Previous = append([]string{old.JWS}, s.memory.Previous...)
	s.previous = append([]*controlapi.Policy{old.Policy}, s.previous...)
}

func (s *State) denySerials(serials []string, now time.Time) {
	if s.memory.Serials == nil {
		s.memory.Serials = map[string]time.Time{}
	}
	for _, serial := range serials {
		if _, known := s.memory.Serials[serial]; !known {
			s.memory.Serials[serial] = controlapi.Seconds(now)
		}
	}
}

// prune forgets what has no effect any more.
func (s *State) prune(now time.Time) {
	maps.DeleteFunc(s.memory.Serials, func(_ string, since time.Time) bool { return now.Sub(since) > serialMemory })
	seen := map[string]bool{}
	for _, sender := range s.Policy.Senders {
		seen[sender.Name] = true
		if denial, ok := s.memory.Names[sender.Name]; ok && lifts(&sender, denial) {
			delete(s.memory.Names, sender.Name)
		}
	}
	var texts []string
	var policies []*controlapi.Policy
	for i, old := range s.previous {
		needed := false
		for _, sender := range old.Senders {
			needed = needed || !seen[sender.Name]
			seen[sender.Name] = true
		}
		if needed {
			texts, policies = append(texts, s.memory.Previous[i]), append(policies, old)
		}
	}
	s.memory.Previous, s.previous = texts, policies
}

// lifts: only a restore in a newer epoch ends a remembered denial.
func lifts(sender *controlapi.PolicySender, denial Denial) bool {
	return sender.State == controlapi.SenderAllowed && sender.Since.Epoch > denial.Epoch
}

// Senders are the senders of the policy with remembered denials applied, and
// those of earlier epochs that the policy does not mention.
func (s *State) Senders() []controlapi.PolicySender {
	all := slices.Clone(s.Policy.Senders)
	seen := make(map[string]bool, len(all))
	for i := range all {
		seen[all[i].Name] = true
		if denial, ok := s.memory.Names[all[i].Name]; ok && all[i].State == controlapi.SenderAllowed && !lifts(&all[i], denial) {
			all[i].State = denial.State
		}
	}
	for _, old := range s.previous {
		for _, sender := range old.Senders {
			if seen[sender.Name] {
				continue
			}
			seen[sender.Name] = true
			if denial, ok := s.memory.Names[sender.Name]; ok {
				sender.State = denial.State
			}
			all = append(all, sender)
		}
	}
	return all
}

// DeniedSerials are the serials that are denied beside those of the policy.
func (s *State) DeniedSerials() []string {
	return slices.Sorted(maps.Keys(s.memory.Serials))
}

// Denied is what the server may have forgotten: what is denied here and not by
// its policy. Its lists are never nil.
func (s *State) Denied() *controlapi.ReportDenied {
	denied := &controlapi.ReportDenied{Names: []string{}, Serials: []string{}}
	byPolicy := map[string]bool{}
	for _, sender := range s.Policy.Senders {
		if sender.State != controlapi.SenderAllowed {
			byPolicy[sender.Name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.memory.Names)) {
		if !byPolicy[name] {
			denied.Names = append(denied.Names, name)
		}
	}
	revoked := make(map[string]bool, len(s.Policy.RevokedSerials))
	for _, serial := range s.Policy.RevokedSerials {
		revoked[serial] = true
	}
	for _, serial := range s.DeniedSerials() {
		if !revoked[serial] {
			denied.Serials = append(denied.Serials, serial)
		}
	}
	return denied
}
