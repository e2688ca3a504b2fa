// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/ikhnos/continuum/components/extension/heartbeat/internal/metadata"
	"github.com/ikhnos/continuum/components/extension/heartbeat/internal/metadatatest"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
)

// sent is one beat that reached the fake server.
type sent struct {
	at     time.Duration // since the first beat was possible
	secret string
	status controlapi.HealthStatus
}

// fakeClient answers each beat with answer, which may block.
type fakeClient struct {
	begin  time.Time
	answer func(ctx context.Context, n int) error

	mu    sync.Mutex
	beats []sent // guarded by mu
}

func (c *fakeClient) Heartbeat(ctx context.Context, secret string, hb *controlapi.Heartbeat) error {
	c.mu.Lock()
	c.beats = append(c.beats, sent{time.Since(c.begin), secret, hb.Status})
	n := len(c.beats)
	c.mu.Unlock()
	return c.answer(ctx, n)
}

func (c *fakeClient) CloseIdleConnections() {}

func (c *fakeClient) sent() []sent {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.beats)
}

// recordingHost keeps the statuses that a component reports of itself.
type recordingHost struct {
	component.Host
	mu     sync.Mutex
	events []*componentstatus.Event // guarded by mu
}

func (h *recordingHost) Report(ev *componentstatus.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, ev)
}

func (h *recordingHost) statuses() []componentstatus.Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []componentstatus.Status
	for _, ev := range h.events {
		all = append(all, ev.Status())
	}
	return all
}

func (h *recordingHost) lastError() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.events[len(h.events)-1].Err()
}

// started is a heartbeat whose client is the fake one.
func started(t *testing.T, edit func(*Config), answer func(ctx context.Context, n int) error) (*heartbeat, *fakeClient, *recordingHost, *componenttest.Telemetry) {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	cfg.Secret = "ikhb_example"
	if edit != nil {
		edit(cfg)
	}
	telemetry := componenttest.NewTelemetry()
	set := extensiontest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = telemetry.NewTelemetrySettings()
	h, err := newHeartbeat(cfg, set)
	require.NoError(t, err)
	client := &fakeClient{begin: time.Now(), answer: answer}
	host := &recordingHost{Host: componenttest.NewNopHost()}
	h.client, h.host, h.startedAt = client, host, time.Now()
	return h, client, host, telemetry
}

func stop(t *testing.T, h *heartbeat, telemetry *componenttest.Telemetry) {
	t.Helper()
	require.NoError(t, h.Shutdown(context.Background()))
	require.NoError(t, h.Shutdown(context.Background()), "a second time does nothing")
	require.NoError(t, telemetry.Shutdown(context.Background()))
}

func always(err error) func(context.Context, int) error {
	return func(context.Context, int) error { return err }
}

// HB-3: first beat in Ready, then one per interval, one last in NotReady.
func TestBeatsAtInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, client, host, telemetry := started(t, func(c *Config) { c.Interval = 20 * time.Second }, always(nil))
		synctest.Wait()
		require.Empty(t, client.sent(), "none before Ready")
		require.NoError(t, h.Ready())
		time.Sleep(45 * time.Second)
		require.NoError(t, h.NotReady())
		synctest.Wait()
		ok := func(at time.Duration) sent { return sent{at, "ikhb_example", controlapi.HealthOK} }
		require.Equal(t, []sent{ok(0), ok(20 * time.Second), ok(40 * time.Second), ok(45 * time.Second)}, client.sent())
		require.Empty(t, host.statuses())
		assertBeats(t, telemetry, map[outcome]int64{accepted: 4})
		stop(t, h, telemetry)
		require.Len(t, client.sent(), 4, "none after NotReady")
	})
}

func TestNoLastBeatWithoutReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, client, _, telemetry := started(t, nil, always(nil))
		require.NoError(t, h.NotReady())
		stop(t, h, telemetry)
		require.Empty(t, client.sent())
	})
}

// Component status changes after three failures in a row and after recovery only.
func TestStatusAfterThreeFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := controlapi.NewProblem(controlapi.ReasonHeartbeatUnauthorized, "")
		h, client, host, telemetry := started(t, func(c *Config) { c.Interval = 10 * time.Second }, func(_ context.Context, n int) error {
			switch {
			case n <= 2*attemptsPerBeat: // beats 1 and 2
				return errors.New("connection refused")
			case n == 7, n >= 13:
				return nil
			case n < 10: // a server of another make says no more than 401
				return &controlclient.UnexplainedError{Status: 401}
			default:
				return refused
			}
		})
		require.NoError(t, h.Ready())
		time.Sleep(55 * time.Second) // beats 1 to 6: two failures, a success, three failures
		require.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError}, host.statuses())
		require.ErrorIs(t, host.lastError(), refused)
		require.NotContains(t, host.lastError().Error(), "ikhb_example")
		time.Sleep(20 * time.Second) // 7 and 8 fail too: no change
		require.Len(t, host.statuses(), 1)
		time.Sleep(20 * time.Second) // 9 and 10 succeed
		require.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError, componentstatus.StatusOK}, host.statuses())
		require.Len(t, client.sent(), 14, "what was refused is not sent again")
		assertBeats(t, telemetry, map[outcome]int64{unreachable: 2, rejected: 5, accepted: 3})
		stop(t, h, telemetry)
	})
}

// A beat that did not arrive is sent again soon, and counts once; the beats after it
// keep their times.
func TestLostBeatIsSentAgain(t *testing.T) {
	unavailable := controlapi.NewProblem(controlapi.ReasonUnavailable, "")
	for name, lost := range map[string]error{"no answer": errors.New("connection reset"), "server cannot": unavailable} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, client, host, telemetry := started(t, nil, func(_ context.Context, n int) error {
					if n == 1 || n == 3 || n == 4 {
						return lost
					}
					return nil
				})
				require.NoError(t, h.Ready())
				time.Sleep(2*time.Minute + time.Second)
				at := client.sent()
				require.Len(t, at, 6)
				require.Equal(t, []time.Duration{0, time.Minute, 2 * time.Minute}, []time.Duration{at[0].at, at[2].at, at[5].at})
				for _, gap := range []time.Duration{at[1].at, at[3].at - at[2].at, at[4].at - at[3].at} {
					assert.GreaterOrEqual(t, gap, 3*time.Second)
					assert.Less(t, gap, 6*time.Second)
				}
				require.Empty(t, host.statuses())
				assertBeats(t, telemetry, map[outcome]int64{accepted: 3})
				stop(t, h, telemetry)
			})
		})
	}
}

// HB-17: a rotated secret needs no restart, and an empty file is a failed beat.
func TestSecretFileIsReadAtEveryBeat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "heartbeat")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	synctest.Test(t, func(t *testing.T) {
		h, client, host, telemetry := started(t, func(c *Config) {
			c.Secret, c.SecretFile, c.Interval = "", path, 10*time.Second
		}, always(nil))
		require.NoError(t, h.Ready()) // absent
		time.Sleep(5 * time.Second)
		write("\n")
		time.Sleep(20 * time.Second) // empty, twice
		require.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError}, host.statuses())
		require.ErrorIs(t, host.lastError(), errSecretEmpty)
		write("ikhb_first\n")
		time.Sleep(10 * time.Second)
		write("ikhb_second\n")
		time.Sleep(10 * time.Second)
		require.Equal(t, []string{"ikhb_first", "ikhb_second"}, []string{client.sent()[0].secret, client.sent()[1].secret})
		require.Len(t, client.sent(), 2)
		assertBeats(t, telemetry, map[outcome]int64{noSecret: 3, accepted: 2})
		stop(t, h, telemetry)
	})
}

func TestWhenUnhealthy(t *testing.T) {
	for _, tt := range []struct {
		mode WhenUnhealthy
		want []controlapi.HealthStatus
		beat map[outcome]int64
	}{
		{Send, []controlapi.HealthStatus{controlapi.HealthOK, controlapi.HealthPermanentError, controlapi.HealthOK}, map[outcome]int64{accepted: 3}},
		{Skip, []controlapi.HealthStatus{controlapi.HealthOK, controlapi.HealthOK}, map[outcome]int64{accepted: 2, skipped: 1}},
	} {
		t.Run(string(tt.mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, client, host, telemetry := started(t, func(c *Config) { c.WhenUnhealthy = tt.mode }, always(nil))
				receiver := instanceOf(component.KindReceiver, "r")
				require.NoError(t, h.Ready())
				time.Sleep(time.Second)
				h.ComponentStatusChanged(&receiver, componentstatus.NewPermanentErrorEvent(errors.New("broken")))
				time.Sleep(60 * time.Second)
				h.ComponentStatusChanged(&receiver, componentstatus.NewEvent(componentstatus.StatusOK))
				time.Sleep(60 * time.Second)
				var got []controlapi.HealthStatus
				for _, b := range client.sent() {
					got = append(got, b.status)
				}
				require.Equal(t, tt.want, got)
				require.Empty(t, host.statuses(), "a skipped beat is no failure")
				assertBeats(t, telemetry, tt.beat)
				stop(t, h, telemetry)
			})
		})
	}
}

// A server that hangs costs a stop at most lastBeatTimeout, and NotReady nothing.
func TestStopIsBounded(t *testing.T) {
	hang := func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }
	t.Run("by itself", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h, client, _, telemetry := started(t, nil, hang)
			require.NoError(t, h.Ready())
			time.Sleep(time.Second)
			begin := time.Now()
			require.NoError(t, h.NotReady())
			require.Zero(t, time.Since(begin))
			require.NoError(t, h.Shutdown(context.Background()))
			require.Equal(t, lastBeatTimeout, time.Since(begin))
			require.Len(t, client.sent(), 2)
			assertBeats(t, telemetry, map[outcome]int64{unreachable: 1}) // the one that was cut off does not count
			stop(t, h, telemetry)
		})
	})
	t.Run("by the context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h, _, _, telemetry := started(t, nil, hang)
			require.NoError(t, h.Ready())
			require.NoError(t, h.NotReady())
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			begin := time.Now()
			require.NoError(t, h.Shutdown(ctx))
			require.Equal(t, time.Second, time.Since(begin))
			stop(t, h, telemetry)
		})
	})
	t.Run("without NotReady", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h, client, _, telemetry := started(t, nil, hang)
			require.NoError(t, h.Ready())
			synctest.Wait()
			begin := time.Now()
			stop(t, h, telemetry)
			require.Zero(t, time.Since(begin))
			require.Len(t, client.sent(), 1)
		})
	})
	t.Run("a beat ends before the next is due", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h, client, _, telemetry := started(t, func(c *Config) { c.Interval = minInterval }, hang)
			require.NoError(t, h.Ready())
			time.Sleep(35 * time.Second)
			require.Len(t, client.sent(), 4)
			stop(t, h, telemetry)
		})
	})
}

func assertBeats(t *testing.T, telemetry *componenttest.Telemetry, want map[outcome]int64) {
	t.Helper()
	var points []metricdata.DataPoint[int64]
	for o, n := range want {
		points = append(points, metricdata.DataPoint[int64]{Attributes: attribute.NewSet(attribute.String("outcome", string(o))), Value: n})
	}
	metadatatest.AssertEqualExtensionHeartbeatBeats(t, telemetry, points, metricdatatest.IgnoreTimestamp())
	_, err := telemetry.GetMetric("otelcol_extension_heartbeat_last_success")
	assert.Equal(t, want[accepted] > 0, err == nil, "last_success is there once a beat was accepted")
}
