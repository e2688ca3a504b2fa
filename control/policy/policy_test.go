// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/control/pki"
	"github.com/ikhnos/continuum/internal/controlapi"
)

func reasonOf(err error) controlapi.Reason {
	var p *controlapi.Problem
	if errors.As(err, &p) {
		return p.Reason
	}
	return ""
}

// leaf enters a leaf of op-eu into the ledger.
func (f *fixture) leaf(role controlapi.Role, sender, key string) ledger.Entry {
	f.t.Helper()
	token, err := f.ops.MintToken(f.ctx, f.actor, "op-eu", operators.TokenRequest{Role: role, Sender: sender})
	require.NoError(f.t, err)
	issued, err := f.store.Issue(f.ctx, ledger.IssueRequest{TokenHash: controlapi.HashSecret(token.Token), SPKI: key, Lifetime: 720 * time.Hour})
	require.NoError(f.t, err)
	return issued.Entry
}

// TestManyWaitersOneComputation: thousands that wait all get the very same signed
// policy, so it was computed once.
func TestManyWaitersOneComputation(t *testing.T) {
	f := newFixture(t, "c1")
	receiver := f.leaf(controlapi.RoleReceiver, "", "aa")
	now, err := f.Current(f.ctx, "op-eu")
	require.NoError(t, err)
	const n = 1000
	got := make([]*Signed, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			signed, changed, err := f.Wait(f.ctx, Poll{OperatorID: "op-eu", Serial: receiver.Serial, IfNoneMatch: now.ETag, Wait: time.Minute})
			if assert.NoError(t, err) && assert.True(t, changed) {
				got[i] = signed
			}
		})
	}
	f.hold("c1")
	group.Wait()
	for _, one := range got {
		require.Same(t, got[0], one)
	}
	p := f.read(got[0])
	assert.Equal(t, controlapi.SenderHeld, p.Senders[0].State)
	assert.Equal(t, p.Version, p.Senders[0].Since)
}

func TestWaitEnds(t *testing.T) {
	f := newFixture(t, "c1")
	receiver := f.leaf(controlapi.RoleReceiver, "", "aa")
	now, err := f.Current(f.ctx, "op-eu")
	require.NoError(t, err)
	poll := Poll{OperatorID: "op-eu", Serial: receiver.Serial, IfNoneMatch: now.ETag, Wait: time.Minute}
	t.Run("with the caller", func(t *testing.T) {
		ctx, cancel := context.WithCancel(f.ctx)
		cancel()
		_, _, err := f.Wait(ctx, poll)
		require.ErrorIs(t, err, context.Canceled)
	})
	t.Run("with the wait", func(t *testing.T) {
		short := poll
		short.Wait = time.Millisecond
		_, changed, err := f.Wait(f.ctx, short)
		require.NoError(t, err)
		assert.False(t, changed)
	})
	t.Run("with the leaf", func(t *testing.T) {
		failed := make(chan error, 1)
		go func() {
			_, _, err := f.Wait(f.ctx, poll)
			failed <- err
		}()
		_, err := f.ops.RevokeCertificate(f.ctx, f.actor, "op-eu", receiver.Serial, operators.NoteRequest{})
		require.NoError(t, err)
		assert.Equal(t, controlapi.ReasonLeafRevoked, reasonOf(<-failed))
	})
	t.Run("with the server", func(t *testing.T) {
		f.Stop()
		now, err := f.Current(f.ctx, "op-eu")
		require.NoError(t, err)
		poll.IfNoneMatch, poll.Serial = now.ETag, f.leaf(controlapi.RoleReceiver, "", "bb").Serial
		_, changed, err := f.Wait(f.ctx, poll)
		require.NoError(t, err)
		assert.False(t, changed)
	})
}

func TestMatches(t *testing.T) {
	for name, tc := range map[string]struct {
		header string
		want   bool
	}{
		"none": {"", false}, "same": {`"1.2"`, true}, "weak": {`W/"1.2"`, true}, "one of some": {`"x", "1.2"`, true}, "any": {"*", true}, "other": {`"1.3"`, false}, "bare": {"1.2", false},
	} {
		assert.Equal(t, tc.want, Matches(tc.header, `"1.2"`), name)
	}
}

func FuzzETag(f *testing.F) {
	f.Add(`W/"1.2"`)
	f.Fuzz(func(t *testing.T, header string) {
		if v, ok := parseETag(header); ok {
			back, ok := parseETag(etagOf(v))
			require.True(t, ok)
			require.Equal(t, v, back)
		}
		Matches(header, `"1.2"`)
	})
}

// TestEarlyReportConfirms: an instance confirms with any number at or
// above the receipt's, or a later epoch.
func TestEarlyReportConfirms(t *testing.T) {
	for name, tc := range map[string]struct {
		report func(n int64) controlapi.Version
		want   controlapi.ReceiptState
	}{
		"one below": {func(n int64) controlapi.Version { return controlapi.Version{Epoch: 1, Number: n - 1} }, controlapi.ReceiptPending},
		"the same":  {func(n int64) controlapi.Version { return controlapi.Version{Epoch: 1, Number: n} }, controlapi.ReceiptConfirmed},
		"later":     {func(n int64) controlapi.Version { return controlapi.Version{Epoch: 1, Number: n + 1} }, controlapi.ReceiptConfirmed},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "c1", "c2")
			_, err := f.record(reportAt("i1", controlapi.Version{Epoch: 1}))
			require.NoError(t, err)
			receipt := f.hold("c1")
			f.hold("c2")
			out, err := f.record(reportAt("i1", tc.report(receipt.Number)))
			require.NoError(t, err)
			got, err := f.Receipt(f.ctx, f.actor.OrgID, receipt.ReceiptID, 0)
			require.NoError(t, err)
			assert.Equal(t, tc.want, got.Instances[0].State)
			assert.Equal(t, tc.want == controlapi.ReceiptConfirmed, len(out.Confirmed) > 0)
		})
	}
}

// TestClocksOfInstances: times of an instance are put on the server's clock.
func TestClocksOfInstances(t *testing.T) {
	f := newFixture(t, "c1")
	_, err := f.record(reportAt("i1", controlapi.Version{Epoch: 1}))
	require.NoError(t, err)
	receipt := f.hold("c1")
	r := reportAt("i1", controlapi.Version{Epoch: 1, Number: receipt.Number})
	r.ClockOffsetMs = -5000 // the instance is five seconds ahead
	r.Policy.AppliedAtMs = receipt.CommittedAtMs + 5100
	out, err := f.record(r)
	require.NoError(t, err)
	assert.Equal(t, []time.Duration{100 * time.Millisecond}, out.Confirmed)
}

func TestReplacedInstancesAreForgotten(t *testing.T) {
	f := newFixture(t, "c1")
	for _, instance := range []string{"old", "new"} {
		_, err := f.record(reportAt(instance, controlapi.Version{Epoch: 1}))
		require.NoError(t, err)
		f.clock.add(forgetAfter / 2)
	}
	f.clock.add(forgetAfter / 4)
	_, err := f.record(reportAt("new", controlapi.Version{Epoch: 1}))
	require.NoError(t, err)
	receipt := f.hold("c1")
	require.Len(t, receipt.Instances, 1)
	assert.Equal(t, "new", receipt.Instances[0].Instance)
}

// TestDenialsAreRecovered: what was denied before a restore stays denied, unless
// somebody decided on it since (trap-10).
func TestDenialsAreRecovered(t *testing.T) {
	f := newFixture(t, "c1", "c2", "c3")
	first, third := f.leaf(controlapi.RoleSender, "c1", "aa"), f.leaf(controlapi.RoleSender, "c3", "bb")
	require.NoError(t, f.store.Update(f.ctx, func(tx *ledger.Tx) error {
		_, err := tx.NewEpoch()
		return err
	}))
	f.hold("c2")
	_, err := f.ops.RestoreSender(f.ctx, f.actor, "op-eu", "c2")
	require.NoError(t, err)

	version, err := f.version()
	require.NoError(t, err)
	r := reportAt("i1", controlapi.Version{Epoch: version.Epoch})
	r.Denied = &controlapi.ReportDenied{Names: []string{"op-eu-export-c1", "op-eu-export-c2", "op-xx-export-c9"}, Serials: []string{third.Serial, "00ff"}}
	for range 2 { // a report may come twice
		_, err = f.record(r)
		require.NoError(t, err)
	}
	now, err := f.Current(f.ctx, "op-eu")
	require.NoError(t, err)
	p := f.read(now)
	assert.Equal(t, version.Epoch, p.Epoch)
	states := map[string]controlapi.SenderState{}
	for _, s := range p.Senders {
		states[s.ClusterID] = s.State
	}
	assert.Equal(t, map[string]controlapi.SenderState{"c1": controlapi.SenderRevoked, "c2": controlapi.SenderAllowed, "c3": controlapi.SenderAllowed}, states)
	assert.ElementsMatch(t, []string{first.Serial, third.Serial, "00ff"}, p.RevokedSerials)
	require.NoError(t, f.store.View(f.ctx, func(tx *ledger.Tx) error {
		denied, err := tx.LostDenial("op-eu", "op-xx-export-c9", "")
		assert.True(t, denied, "never adopted")
		return err
	}))
}

// TestFirstReportOfAnEpoch: only a report of the present epoch that carries
// denials ends the wait of an operator's renewals.
func TestFirstReportOfAnEpoch(t *testing.T) {
	f := newFixture(t, "c1")
	f.clock.add(time.Minute)
	require.NoError(t, f.store.Update(f.ctx, func(tx *ledger.Tx) error {
		_, err := tx.NewEpoch()
		return err
	}))
	version, err := f.version()
	require.NoError(t, err)
	waiting := func() (ids []string) {
		require.NoError(t, f.store.View(f.ctx, func(tx *ledger.Tx) (err error) {
			ids, _, err = tx.Unrecovered(f.actor.OrgID)
			return err
		}))
		return ids
	}
	nothing := &controlapi.ReportDenied{Names: []string{}, Serials: []string{}}
	for _, step := range []struct {
		name   string
		epoch  int64
		denied *controlapi.ReportDenied
		waits  bool
	}{
		{"without denials", version.Epoch, nil, true},
		{"of the old epoch", 1, nothing, true},
		{"the first", version.Epoch, nothing, false},
		{"the next", version.Epoch, nil, false},
	} {
		r := reportAt("i1", controlapi.Version{Epoch: step.epoch})
		r.Denied = step.denied
		_, err := f.record(r)
		require.NoError(t, err)
		assert.Equal(t, step.waits, len(waiting()) == 1, step.name)
	}
}

// TestRekeyIsNoticed: the report names a leaf that is not among
// the replaced ones.
func TestRekeyIsNoticed(t *testing.T) {
	f := newFixture(t, "c1")
	old := f.leaf(controlapi.RoleSender, "c1", "aa")
	fresh, err := f.ops.RekeySender(f.ctx, f.actor, "op-eu", "c1", operators.RekeyRequest{})
	require.NoError(t, err)
	issued, err := f.store.Issue(f.ctx, ledger.IssueRequest{TokenHash: controlapi.HashSecret(fresh.Token), SPKI: "bb", Lifetime: time.Hour})
	require.NoError(t, err)
	for serial, done := range map[string]int{old.Serial: 0, issued.Entry.Serial: 1, "": 0} {
		r := reportAt("i1", controlapi.Version{Epoch: 1})
		r.Senders = []controlapi.ReportSender{{Name: "op-eu-export-c1", Serial: serial}}
		out, err := f.record(r)
		require.NoError(t, err)
		assert.Len(t, out.Rekeyed, done, serial)
	}
}

// TestLastWords: a revoked operator answers deny all, and its key is gone.
func TestLastWords(t *testing.T) {
	f := newFixture(t, "c1")
	_, err := f.Current(f.ctx, "op-eu")
	require.NoError(t, err)
	_, err = f.ops.RevokeOperator(f.ctx, f.actor, "op-eu", operators.RemovalRequest{Force: true})
	require.NoError(t, err)
	last, err := f.Current(f.ctx, "op-eu")
	require.NoError(t, err)
	p := f.read(last)
	assert.Equal(t, controlapi.PolicyDenyAll, p.Mode)
	assert.Equal(t, last.Version, p.Version)
	again, err := f.Current(f.ctx, "op-eu")
	require.NoError(t, err)
	assert.Same(t, last, again)
	list, err := f.CRL(f.ctx, "op-eu")
	require.NoError(t, err)
	assert.NotEmpty(t, list.DER)
	require.NoError(t, f.store.View(f.ctx, func(tx *ledger.Tx) error {
		_, err := f.authority(tx, "op-eu")
		assert.ErrorIs(t, err, pki.ErrKeyErased)
		return nil
	}))
	_, err = f.Current(f.ctx, "op-none")
	assert.Equal(t, controlapi.ReasonNotFound, reasonOf(err))
}
