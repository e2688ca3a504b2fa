// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ikhnosrenew

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/ikhnos/continuum/components/extension/ikhnosrenew/internal/metadata"
	"github.com/ikhnos/continuum/internal/certfile"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/holder"
)

// longestTry is the longest time between two tries while the collector starts.
const longestTry = 5 * time.Second

// keeper keeps one certificate: with obtain while the collector starts, and with
// Holder.Keep, which calls look, from Ready on; never both.
type keeper struct {
	label     string
	cfg       CertificateConfig
	holder    *holder.Holder
	server    server // nil when nothing calls it
	frozen    func(dir string) []string
	telemetry *metadata.TelemetryBuilder
	logger    *zap.Logger
	changed   func() // tells the extension that the standing changed

	seen      string // the standing that was logged and reported last
	serial    string // the leaf that was reported last
	startedCA []byte // ca.crt when the collector started; set before look is called
}

// obtain gets a first pair, trying until ctx ends. Its error is the last answer.
func (k *keeper) obtain(ctx context.Context) error {
	var last error
	for try := 1; ; try++ {
		err := k.tryOnce(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err // and not that we gave up
		}
		pause := time.Second + time.Duration(rand.Float64()*float64(min(time.Duration(try)*time.Second, longestTry-time.Second)))
		if !holder.Sleep(ctx, pause) {
			return last
		}
	}
}

var errNothingToFollow = errors.New("nobody has put a certificate there yet")

func (k *keeper) tryOnce(ctx context.Context) error {
	if !k.cfg.follows() {
		result, err := k.holder.Attempt(ctx)
		if ctx.Err() == nil {
			k.count(result, err)
		}
		return err
	}
	if _, err := k.holder.Refresh(ctx); err != nil {
		return err
	}
	if !k.holder.Status().Present {
		return errNothingToFollow
	}
	return nil
}

// begin notes how the certificate stands when the collector starts, and says
// what a person should know.
func (k *keeper) begin() {
	status := k.holder.Status()
	k.startedCA = status.CA
	k.seen, k.serial = k.standing(status), status.Serial
	fields := []zap.Field{zap.String("serial", status.Serial), zap.Time("not_after", status.NotAfter), zap.Time("renew_after", status.RenewAfter)}
	if status.State == controlapi.CertificateExpired {
		k.logger.Warn("certificate has ended; the collector starts with it and goes on trying", fields...)
	} else {
		k.logger.Info("certificate is in place", fields...)
	}
	k.checkMount()
	k.record(status)
}

// checkMount warns of a directory in which a new certificate never shows, or in
// which its parts may show one by one.
func (k *keeper) checkMount() {
	mounts := k.frozen(k.cfg.Directory)
	switch {
	case len(mounts) > 0:
		k.logger.Warn("certificate is mounted with subPath and never changes: mount the directory", zap.Strings("mounts", mounts))
	case k.cfg.follows() && !k.cfg.KubernetesSecret.HasValue() && !certfile.Swapped(k.cfg.Directory):
		k.logger.Warn("directory to follow is not swapped as one: a Secret mounted with subPath never changes, mount the directory")
	}
}

// look counts and logs what one look at the certificate brought.
func (k *keeper) look(l holder.Look) {
	if l.ReadErr != nil {
		k.logger.Debug("stored certificate could not be read", zap.Error(l.ReadErr))
	}
	if l.Adopted {
		k.logIssued("certificate of somebody else was taken up", holder.Result{Outcome: holder.OutcomeAdopted})
	}
	if l.Attempted {
		k.count(l.Result, l.Err)
	}
	if l.ByToken && l.Err != nil {
		k.logger.Warn("new enrolment token could not be used; the certificate stays", zap.Error(l.Err))
	}
	k.observe()
}

// count counts an attempt; failures show in the standing.
func (k *keeper) count(result holder.Result, err error) {
	k.telemetry.ExtensionIkhnosrenewAttempts.Add(context.Background(), 1, metric.WithAttributes(
		attribute.String("certificate", k.label),
		attribute.String("operation", string(result.Operation)),
		attribute.String("outcome", string(result.Outcome))))
	if err == nil {
		k.logIssued("certificate was issued", result)
	}
}

func (k *keeper) logIssued(message string, result holder.Result) {
	status := k.holder.Status()
	k.logger.Info(message,
		zap.String("operation", string(result.Operation)), zap.String("outcome", string(result.Outcome)),
		zap.String("serial", status.Serial), zap.Time("not_after", status.NotAfter), zap.Time("renew_after", status.RenewAfter))
}

// observe records the metrics, tells the extension of a new leaf or standing, and
// logs a new standing; a new leaf has its own line already.
func (k *keeper) observe() {
	status := k.holder.Status()
	k.record(status)
	standing := k.standing(status)
	if standing == k.seen && status.Serial == k.serial {
		return
	}
	same := standing == k.seen
	k.seen, k.serial = standing, status.Serial
	k.changed()
	switch {
	case same:
	case status.Failure != nil:
		k.logger.Warn("certificate could not be renewed", zap.String("reason", status.Failure.Reason),
			zap.Bool("needs_a_person", status.Failure.Person), zap.String("state", string(status.State)), zap.Error(status.Failure))
	default:
		k.logger.Info("certificate state changed", zap.String("state", string(status.State)), zap.Bool("restart_required", k.restartRequired(status)))
	}
}

// standing is everything but the leaf whose change is worth a line.
func (k *keeper) standing(status holder.Status) string {
	reason := ""
	if status.Failure != nil {
		reason = status.Failure.Reason
	}
	return fmt.Sprint(status.State, " ", reason, " ", k.restartRequired(status))
}

func (k *keeper) restartRequired(status holder.Status) bool {
	return k.startedCA != nil && !bytes.Equal(k.startedCA, status.CA)
}

// fault is what the component status says of the certificate, nil when it is
// usable, in time, and its CA is the one that exporters read at start.
func (k *keeper) fault(status holder.Status) error {
	switch {
	case status.State != controlapi.CertificateUsable && status.Failure != nil:
		return fmt.Errorf("certificate %q is %s (reason: %s): %w", k.label, status.State, status.Failure.Reason, status.Failure)
	case status.State != controlapi.CertificateUsable:
		return fmt.Errorf("certificate %q is %s", k.label, status.State)
	case k.restartRequired(status):
		return fmt.Errorf("certificate %q: ca.crt changed; restart the collector, exporters read it once", k.label)
	}
	return nil
}

// record sets the gauges.
func (k *keeper) record(status holder.Status) {
	ctx, label := context.Background(), metric.WithAttributes(attribute.String("certificate", k.label))
	restart := int64(0)
	if k.restartRequired(status) {
		restart = 1
	}
	k.telemetry.ExtensionIkhnosrenewRestartRequired.Record(ctx, restart, label)
	if status.Present {
		k.telemetry.ExtensionIkhnosrenewCertificateExpiry.Record(ctx, status.NotAfter.Unix(), label)
		k.telemetry.ExtensionIkhnosrenewNextRenewal.Record(ctx, status.RenewAfter.Unix(), label)
	}
	if k.server != nil && !k.cfg.follows() {
		k.telemetry.ExtensionIkhnosrenewClockOffset.Record(ctx, int64(k.server.ClockOffset()/time.Second), label)
	}
}
