// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/ikhnos/continuum/control/operators"
)

// keepAlive is how often a stream of events that has nothing to say sends a
// comment, so that proxies keep it open.
const keepAlive = 15 * time.Second

// streamLife is how long one stream of events lasts: a client connects again, and
// its token is checked again.
const streamLife = 10 * time.Minute

// events streams "something changed" as server-sent events, at once when it
// begins. What changed is for the reader to fetch: an event carries only the
// server's change number.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.authorize(r, operators.RoleViewer); err != nil {
		return err
	}
	if err := checkQuery(r.URL.RawQuery, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), streamLife)
	defer cancel()
	w.Header().Set("Content-Type", eventMedia)
	w.Header().Set("Cache-Control", "no-store")
	changes, stop := s.cfg.Store.Changes()
	defer stop()
	comment := time.NewTicker(keepAlive)
	defer comment.Stop()
	control := http.NewResponseController(w)
	for {
		reported := s.cfg.Policy.ReportsChanged()
		if err := s.sendChange(ctx, w, control); err != nil {
			return nil // the header is out: the client sees the stream end
		}
		for quiet := true; quiet; {
			select {
			case <-changes:
				quiet = false
			case <-reported:
				quiet = false
			case <-comment.C:
				if _, err := fmt.Fprint(w, ": still here\n\n"); err != nil || control.Flush() != nil {
					return nil
				}
			case <-s.cfg.Policy.Stopped():
				return nil
			case <-ctx.Done():
				return nil
			}
		}
	}
}

func (s *Server) sendChange(ctx context.Context, w http.ResponseWriter, control *http.ResponseController) error {
	version, err := s.version(ctx)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "event: change\ndata: {\"epoch\":%d,\"number\":%d}\n\n", version.Epoch, version.Number); err != nil {
		return err
	}
	return control.Flush()
}
