// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
)

const (
	// readyWriteEvery is how often /readyz writes at most, whoever asks.
	readyWriteEvery = 10 * time.Second
	// readyTimeout is how long the database may take.
	readyTimeout = 5 * time.Second
	// settingReady is the setting that is written: the time in Unix seconds.
	settingReady = "ready_at"
)

// readiness remembers when the database last took a write of /readyz.
type readiness struct {
	mu      sync.Mutex
	written time.Time // zero after a failure, guarded by mu
}

// readyz answers whether the database can be read and written: a full disk or a
// database in recovery answers reads, and nobody could enrol.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	err := s.cfg.Store.View(ctx, func(tx *ledger.Tx) error {
		_, err := tx.Version()
		return err
	})
	if err == nil {
		err = s.writable(ctx)
	}
	if err != nil {
		s.log.WarnContext(ctx, "the database cannot be used", slog.Any("error", err))
		return controlapi.NewProblem(controlapi.ReasonUnavailable, "")
	}
	return writeStatus(w, "ready")
}

func (s *Server) writable(ctx context.Context) error {
	s.ready.mu.Lock()
	defer s.ready.mu.Unlock()
	now := s.now()
	if age := now.Sub(s.ready.written); age >= 0 && age < readyWriteEvery {
		return nil
	}
	s.ready.written = time.Time{}
	err := s.cfg.Store.Update(ctx, func(tx *ledger.Tx) error {
		return tx.SetSetting(settingReady, strconv.AppendInt(nil, now.Unix(), 10))
	})
	if err == nil {
		s.ready.written = now
	}
	return err
}
