// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configmiddleware"
	"go.opentelemetry.io/collector/extension/extensionmiddleware"
	"go.opentelemetry.io/collector/extension/extensiontest"

	"github.com/ikhnos/continuum/components/extension/heartbeat"
)

// TestNoFalseOffline: with one request of a hundred lost on its way there or back,
// and up to half a second on it, no operator that beats is ever called offline (HS-3,
// HB-24, A-16). The heartbeat extension itself beats, over a network without wires and
// a clock that jumps; the tracker's own rules decide. CONTINUUM_SOAK=1 takes a million
// beats at each interval.
func TestNoFalseOffline(t *testing.T) {
	beats := 2_000
	if os.Getenv("CONTINUUM_SOAK") != "" {
		beats = 1_000_000
	}
	for _, interval := range []time.Duration{10 * time.Second, 60 * time.Second} {
		t.Run(interval.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const fleet = 100
				w := &wires{tracker: New(nil, nil, nil), seen: map[string]time.Time{}}
				for i := range fleet {
					time.Sleep(rand.N(interval / fleet))
					defer w.beating(t, operatorOf(i), interval)()
				}
				time.Sleep(time.Duration(beats/fleet) * interval)
				for i := range fleet {
					w.judge(operatorOf(i))
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				assert.Zero(t, w.offline, "times that an operator that beats was called offline")
				assert.GreaterOrEqual(t, w.arrived, beats, "beats")
				assert.Len(t, w.seen, fleet)
				t.Logf("%d beats arrived at intervals of %s, %d attempts were lost: offline %d times; oldest beat seen %s",
					w.arrived, interval, w.lost, w.offline, w.oldest)
			})
		})
	}
}

func operatorOf(i int) string { return fmt.Sprintf("op-%d", i) }

// wires are a network in which requests get lost, with the server's rules at its end.
type wires struct {
	component.StartFunc
	component.ShutdownFunc

	tracker *Tracker
	mu      sync.Mutex
	seen    map[string]time.Time // what the database has; this and what follows guarded by mu
	oldest  time.Duration
	arrived int
	lost    int
	offline int
}

var _ extensionmiddleware.HTTPClient = (*wires)(nil)

// beating is an operator whose heartbeat extension beats until stop.
func (w *wires) beating(t *testing.T, id string, interval time.Duration) (stop func()) {
	t.Helper()
	factory := heartbeat.NewFactory()
	cfg := factory.CreateDefaultConfig().(*heartbeat.Config)
	cfg.Server.Endpoint = "https://" + id
	cfg.Server.Middlewares = []configmiddleware.Config{{ID: component.MustNewID("wires")}}
	cfg.Secret, cfg.Interval = "ikhb_example", interval
	e, err := factory.Create(t.Context(), extensiontest.NewNopSettings(factory.Type()), cfg)
	require.NoError(t, err)
	require.NoError(t, e.Start(t.Context(), wired{componenttest.NewNopHost(), w}))
	require.NoError(t, e.(interface{ Ready() error }).Ready())
	return func() { assert.NoError(t, e.Shutdown(context.Background())) }
}

// wired is a host with the network as its one extension.
type wired struct {
	component.Host
	network *wires
}

func (h wired) GetExtensions() map[component.ID]component.Component {
	return map[component.ID]component.Component{component.MustNewID("wires"): h.network}
}

func (w *wires) GetHTTPRoundTripper(context.Context) (extensionmiddleware.WrapHTTPRoundTripperFunc, error) {
	return func(context.Context, http.RoundTripper) (http.RoundTripper, error) { return w, nil }, nil
}

var errLost = errors.New("lost")

// RoundTrip loses one request of a hundred: a quarter before it arrives and with an
// error at once, a quarter without a word, half on the way back.
func (w *wires) RoundTrip(r *http.Request) (*http.Response, error) {
	fate := rand.IntN(400)
	select {
	case <-time.After(rand.N(500 * time.Millisecond)):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if fate >= 2 {
		w.arrive(r.URL.Hostname())
	}
	if fate < 4 {
		w.mu.Lock()
		w.lost++
		w.mu.Unlock()
		if fate%2 == 0 {
			return nil, errLost
		}
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// arrive does what Beat does with a right secret; the clock is the store's, in whole
// seconds.
func (w *wires) arrive(id string) {
	w.judge(id)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.arrived++
	if now := time.Now().Truncate(time.Second); w.tracker.due(id, now) {
		w.seen[id] = now
	}
}

// judge looks at an operator at the worst moment: just before its next beat counts.
func (w *wires) judge(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen, ok := w.seen[id]
	if !ok {
		return
	}
	now := time.Now().Truncate(time.Second)
	w.oldest = max(w.oldest, now.Sub(seen))
	if healthOf(true, false, &seen, now).State != StateOnline {
		w.offline++
	}
}
