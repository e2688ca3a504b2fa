// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
)

func TestReplaced(t *testing.T) {
	now := time.Unix(1000, 0)
	heard := func(at ...int64) (all []instance) {
		for _, s := range at {
			all = append(all, instance{heard: time.Unix(s, 0)})
		}
		return all
	}
	for name, tc := range map[string]struct {
		came   int64 // seconds
		others []instance
		want   int
	}{
		"alone":                      {900, nil, -1},
		"a restart":                  {900, heard(890), 0},
		"in the same second":         {900, heard(900), 0},
		"the one heard latest":       {900, heard(100, 890, 500), 1},
		"heard after it came":        {900, heard(901), -1},
		"silent for too short":       {999, heard(941), -1},
		"silent for just long":       {999, heard(940), 0},
		"the latest may yet speak":   {999, heard(890, 941), -1},
		"living beside gone":         {900, heard(999, 890, 905), 1},
		"start is not known":         {0, heard(890), -1},
		"clock is behind the others": {800, heard(890), -1},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, replaced(tc.came*1000, tc.others, now))
		})
	}
}

// pods are the instances of op-eu, which share one receiver certificate.
type pods struct {
	*fixture
	started map[string]time.Time
}

func newPods(t *testing.T) *pods {
	f := newFixture(t, "c1", "c2")
	return &pods{fixture: f, started: map[string]time.Time{}}
}

// report lets instances report that enforce all that was changed so far. Their
// clocks are 20 s ahead.
func (p *pods) report(names ...string) {
	p.t.Helper()
	version, err := p.version()
	require.NoError(p.t, err)
	for _, name := range names {
		if p.started[name].IsZero() {
			p.started[name] = p.clock.now().Add(20 * time.Second)
		}
		r := reportAt(name, controlapi.Version(version))
		r.StartedAt, r.ClockOffsetMs, r.ReceiverSerial = p.started[name], -20_000, "shared"
		r.Policy.AppliedAt = p.clock.now().Add(20 * time.Second)
		_, err = p.record(r)
		require.NoError(p.t, err)
		p.polls.note("op-eu", "shared", p.clock.now())
	}
}

// pass lets instances live for d.
func (p *pods) pass(d time.Duration, living ...string) {
	p.t.Helper()
	for ; d > 0; d -= 15 * time.Second {
		p.clock.add(15 * time.Second)
		p.report(living...)
	}
}

func (p *pods) known() (names []string) {
	p.t.Helper()
	require.NoError(p.t, p.store.View(p.ctx, func(tx *ledger.Tx) error {
		all, err := p.instances(tx, "op-eu", nil)
		for _, one := range all {
			names = append(names, one.name)
		}
		return err
	}))
	return names
}

func (p *pods) states(receipt *controlapi.Receipt) map[string]controlapi.ReceiptState {
	p.t.Helper()
	got, err := p.Receipt(p.ctx, p.actor.OrgID, receipt.ReceiptID, 0)
	require.NoError(p.t, err)
	states := map[string]controlapi.ReceiptState{}
	for _, i := range got.Instances {
		states[i.Instance] = i.State
	}
	return states
}

// A restart is one instance, whether it takes a moment or hours, and confirms
// what its operator was told while it was away.
func TestRestartConfirms(t *testing.T) {
	for name, away := range map[string]time.Duration{"short": 3 * time.Second, "long": 2 * time.Minute, "for hours": 3 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			p := newPods(t)
			p.pass(time.Minute, "old")
			first := p.hold("c1")
			p.clock.add(away)
			p.report("new")
			second := p.hold("c2")
			p.pass(time.Minute, "new")
			assert.Equal(t, []string{"new"}, p.known())
			want := map[string]controlapi.ReceiptState{"new": controlapi.ReceiptConfirmed}
			assert.Equal(t, want, p.states(first))
			assert.Equal(t, want, p.states(second))
		})
	}
}

// A collector that failed to start, and was started again, is none of its own.
func TestStartThatFailed(t *testing.T) {
	p := newPods(t)
	p.pass(time.Minute, "old")
	for _, failed := range []string{"f1", "f2", "f3"} {
		p.clock.add(5 * time.Second)
		p.report(failed)
	}
	p.clock.add(5 * time.Second)
	p.pass(90*time.Second, "new")
	assert.Equal(t, []string{"new"}, p.known())
}

func TestRollingRestart(t *testing.T) {
	for name, step := range map[string]time.Duration{"slow": 2 * time.Minute, "fast": 15 * time.Second} {
		t.Run(name, func(t *testing.T) {
			p := newPods(t)
			p.pass(time.Minute, "a", "b", "c")
			p.pass(step, "b", "c")
			p.pass(step, "A", "c")
			p.pass(step, "A", "B")
			p.pass(2*time.Minute, "A", "B", "C")
			assert.ElementsMatch(t, []string{"A", "B", "C"}, p.known())
		})
	}
}

// Fewer came than went: what did not come back may still accept, though others
// poll with the same leaf.
func TestPartitionedPodIsShown(t *testing.T) {
	p := newPods(t)
	p.pass(time.Minute, "a", "b", "c")
	p.pass(time.Minute, "a") // b and c are gone
	p.pass(5*time.Minute, "a", "C")
	receipt := p.hold("c1")
	p.pass(5*time.Minute, "a", "C")
	states := p.states(receipt)
	require.Len(t, states, 3)
	assert.Equal(t, controlapi.ReceiptConfirmed, states["a"])
	assert.Equal(t, controlapi.ReceiptConfirmed, states["C"])
	delete(states, "a")
	delete(states, "C")
	for _, state := range states {
		assert.Equal(t, controlapi.ReceiptUnreachable, state)
	}
	p.pass(2*time.Hour, "a", "C")
	assert.Len(t, p.states(receipt), 3, "nobody came for it")
	p.pass(2*time.Minute, "a", "C", "B")
	assert.ElementsMatch(t, []string{"a", "C", "B"}, p.known())
	assert.Equal(t, controlapi.ReceiptConfirmed, p.states(receipt)["B"])
}

// A pod that is added takes nobody's place, nor does one that keeps its name, nor
// one beside another that polls with a leaf of its own.
func TestNobodyIsReplaced(t *testing.T) {
	t.Run("scaled up, then cut off", func(t *testing.T) {
		p := newPods(t)
		p.pass(time.Minute, "a")
		p.pass(time.Minute, "a", "b")
		p.pass(10*time.Minute, "b")
		assert.ElementsMatch(t, []string{"a", "b"}, p.known())
	})
	t.Run("restarted under its name", func(t *testing.T) {
		p := newPods(t)
		p.pass(time.Minute, "a", "b")
		p.pass(2*time.Minute, "a")
		delete(p.started, "a")
		p.pass(10*time.Minute, "a")
		assert.ElementsMatch(t, []string{"a", "b"}, p.known())
	})
	t.Run("polls with its leaf", func(t *testing.T) {
		p := newPods(t)
		r := reportAt("polls", controlapi.Version{Epoch: 1})
		r.ReceiverSerial = "own"
		_, err := p.record(r)
		require.NoError(t, err)
		for range 5 {
			p.pass(30*time.Second, "a")
			p.polls.note("op-eu", "own", p.clock.now())
		}
		assert.ElementsMatch(t, []string{"polls", "a"}, p.known())
		receipt := p.hold("c1")
		assert.Equal(t, controlapi.ReceiptPending, p.states(receipt)["polls"])
	})
}
