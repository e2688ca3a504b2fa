// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/senders"
)

const crlEvery = 10 * time.Second

var errCRLRegressed = errors.New("its number is lower than that of the list in force")

// crlWatch keeps the revocation list as new as its file. A list that is broken or
// older than the one in force changes nothing.
type crlWatch struct {
	cfg    CRLConfig
	health *health
	logger *zap.Logger
	apply  func(*senders.CRL)

	// Both belong to one goroutine: that of start, then that of run.
	content []byte // of both files, as last read
	current *senders.CRL
}

// run looks at the files until ctx ends.
func (w *crlWatch) run(ctx context.Context) {
	ticker := time.NewTicker(crlEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := w.look()
		if err != nil {
			err = fmt.Errorf("crl: %w", err)
		}
		if w.health.set(faultCRL, err) && err != nil {
			w.logger.Warn("Revocation list cannot be used, the last good one stays in force", zap.Error(err))
		}
	}
}

// look reads the files and applies their list when it is another one.
func (w *crlWatch) look() error {
	list, err := os.ReadFile(w.cfg.File)
	if err != nil {
		return fmt.Errorf("reading the revocation list: %w", err)
	}
	ca, err := os.ReadFile(w.cfg.CAFile)
	if err != nil {
		return fmt.Errorf("reading the CA of the revocation list: %w", err)
	}
	content := append(append([]byte{}, list...), ca...)
	if w.current != nil && bytes.Equal(content, w.content) {
		return nil
	}
	next, err := senders.ParseCRL(list, ca)
	if err != nil {
		return fmt.Errorf("reading the revocation list: %w", err)
	}
	if w.current.Regresses(next) {
		return errCRLRegressed
	}
	w.content, w.current = content, next
	w.apply(next)
	w.logger.Info("Revocation list in force", zap.Stringer("crl_number", next.Number), zap.Int("revoked", next.Len()),
		zap.Time("next_update", next.NextUpdate))
	return nil
}
