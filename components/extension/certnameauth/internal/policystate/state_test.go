// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package policystate

import (
	"bytes"
	"crypto/x509"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/signedpolicy"
	"github.com/ikhnos/continuum/internal/testpki"
)

var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// history feeds signed policies to a state and checks every step by the file.
type history struct {
	t     *testing.T
	ca    *testpki.CA
	v     Verifier
	file  File
	state *State
}

func newHistory(t *testing.T) *history {
	ca := testpki.NewCA(t, "op-abc")
	return &history{t: t, ca: ca, v: Verifier{CAs: []*x509.Certificate{ca.Cert}, OperatorID: "op-abc"}, file: File(filepath.Join(t.TempDir(), "deep", "policy.jws"))}
}

func (h *history) sign(p *controlapi.Policy) string {
	jws, err := signedpolicy.Sign(p, h.ca.Cert, h.ca.Key)
	require.NoError(h.t, err)
	return jws
}

// step takes a policy, writes the file and goes on with what was read back.
func (h *history) step(p *controlapi.Policy) {
	h.t.Helper()
	next, changed, err := h.state.Next(h.sign(p), p, now)
	require.NoError(h.t, err)
	require.True(h.t, changed)
	require.NoError(h.t, h.file.Save(next))
	h.state, err = h.file.Load(h.v)
	require.NoError(h.t, err)
	assert.Equal(h.t, next.Senders(), h.state.Senders())
	assert.Equal(h.t, next.Denied(), h.state.Denied())
}

func (h *history) standing() map[string]controlapi.SenderState {
	standing := map[string]controlapi.SenderState{}
	for _, s := range h.state.Senders() {
		standing[s.Name] = s.State
	}
	return standing
}

// policy of an epoch and number; senders as "name" (allowed), "name!" (revoked),
// "name?" (held), each since epoch:0 unless "@epoch" is behind.
func policy(epoch, number int64, senders ...string) *controlapi.Policy {
	p := &controlapi.Policy{
		OperatorID: "op-abc", Version: controlapi.Version{Epoch: epoch, Number: number}, IssuedAt: now,
		Mode: controlapi.PolicyEnforce, RevokedSerials: []string{}, Senders: []controlapi.PolicySender{},
	}
	for _, text := range senders {
		s := controlapi.PolicySender{State: controlapi.SenderAllowed, Since: controlapi.Version{Epoch: 1}}
		if rest, ok := strings.CutSuffix(text, "@2"); ok {
			text, s.Since.Epoch = rest, 2
		}
		if rest, ok := strings.CutSuffix(text, "@3"); ok {
			text, s.Since.Epoch = rest, 3
		}
		s.Name = strings.TrimRight(text, "!?")
		switch strings.TrimPrefix(text, s.Name) {
		case "!":
			s.State = controlapi.SenderRevoked
		case "?":
			s.State = controlapi.SenderHeld
		}
		p.Senders = append(p.Senders, s)
	}
	return p
}

func serials(p *controlapi.Policy, list ...string) *controlapi.Policy {
	p.RevokedSerials = list
	return p
}

const (
	allowed = controlapi.SenderAllowed
	held    = controlapi.SenderHeld
	revoked = controlapi.SenderRevoked
)

type standing = map[string]controlapi.SenderState

// trap-10: versions only grow.
func TestRollbackIsRefused(t *testing.T) {
	h := newHistory(t)
	h.step(policy(2, 5, "a"))
	for _, p := range []*controlapi.Policy{policy(2, 4), policy(1, 99), policy(0, 0)} {
		_, _, err := h.state.Next(h.sign(p), p, now)
		require.ErrorIs(t, err, ErrRegressed)
	}
	same := policy(2, 5, "a", "b")
	next, changed, err := h.state.Next(h.sign(same), same, now.Add(time.Minute))
	require.NoError(t, err)
	assert.False(t, changed)
	assert.Equal(t, h.state.JWS, next.JWS, "the first of a version stays")
	assert.Equal(t, now.Add(time.Minute), next.Contact)
}

// In one epoch the policy alone decides.
func TestSameEpoch(t *testing.T) {
	h := newHistory(t)
	h.step(serials(policy(1, 1, "a!", "b?", "c"), "01"))
	h.step(policy(1, 2, "a", "b", "c"))
	assert.Equal(t, standing{"a": allowed, "b": allowed, "c": allowed}, h.standing())
	assert.Empty(t, h.state.DeniedSerials())
	assert.Equal(t, &controlapi.ReportDenied{Names: []string{}, Serials: []string{}}, h.state.Denied())
}

// A restored server starts an epoch and has forgotten: what was denied stays
// denied until a restore in the new epoch, serials for 30 days.
func TestNewEpochKeepsDenials(t *testing.T) {
	h := newHistory(t)
	h.step(serials(policy(1, 9, "a!", "b?", "c"), "01", "02"))
	h.step(serials(policy(2, 1, "a", "b", "c"), "02"))
	assert.Equal(t, standing{"a": revoked, "b": held, "c": allowed}, h.standing())
	assert.Equal(t, []string{"01", "02"}, h.state.DeniedSerials())
	assert.Equal(t, &controlapi.ReportDenied{Names: []string{"a", "b"}, Serials: []string{"01"}}, h.state.Denied())

	h.step(serials(policy(2, 2, "a!@2", "b", "c"), "01", "02"))
	assert.Equal(t, &controlapi.ReportDenied{Names: []string{"b"}, Serials: []string{}}, h.state.Denied(), "the server knows of a again")

	h.step(policy(2, 3, "a@2", "b", "c"))
	assert.Equal(t, standing{"a": allowed, "b": held, "c": allowed}, h.standing(), "a restore in the new epoch lifts")

	h.step(policy(3, 1, "a", "b@2", "c"))
	assert.Equal(t, standing{"a": allowed, "b": held, "c": allowed}, h.standing(), "a restore that the epoch forgot does not")
	h.step(policy(3, 2, "a", "b@3", "c"))
	assert.Equal(t, allowed, h.standing()["b"])

	later := policy(3, 3, "a", "b@3", "c")
	next, _, err := h.state.Next(h.sign(later), later, now.Add(31*24*time.Hour))
	require.NoError(t, err)
	assert.Empty(t, next.DeniedSerials(), "no leaf lives longer")
}

// A sender that the last policy allowed and the new epoch lacks stays allowed,
// until a policy names it again.
func TestNewEpochKeepsUnknownSenders(t *testing.T) {
	h := newHistory(t)
	h.step(policy(1, 9, "a", "b", "c!"))
	h.step(policy(2, 1, "a"))
	assert.Equal(t, standing{"a": allowed, "b": allowed, "c": revoked}, h.standing())
	h.step(policy(3, 1))
	assert.Equal(t, standing{"a": allowed, "b": allowed, "c": revoked}, h.standing(), "over two restores")
	h.step(policy(3, 2, "b!@3"))
	assert.Equal(t, standing{"a": allowed, "b": revoked, "c": revoked}, h.standing())
	h.step(policy(3, 3, "a", "b!@3", "c@3"))
	assert.Equal(t, standing{"a": allowed, "b": revoked, "c": allowed}, h.standing())
	assert.Empty(t, h.state.memory.Previous, "nothing of earlier epochs is needed any more")
	h.step(policy(3, 4))
	assert.Empty(t, h.standing(), "in one epoch, gone is gone")
}

// A revoked operator stays revoked for everybody whom the restored server would
// let in again.
func TestNewEpochAfterDenyAll(t *testing.T) {
	h := newHistory(t)
	last := policy(1, 9, "a", "b")
	last.Mode = controlapi.PolicyDenyAll
	h.step(last)
	h.step(policy(2, 1, "a", "b"))
	assert.Equal(t, standing{"a": revoked, "b": revoked}, h.standing())
}

func TestDenyingSerials(t *testing.T) {
	h := newHistory(t)
	h.step(policy(1, 1, "a"))
	next := h.state.Denying([]string{"0a"}, now)
	assert.Equal(t, []string{"0a"}, next.DeniedSerials())
	assert.Empty(t, h.state.DeniedSerials(), "a state does not change")
}

func TestFile(t *testing.T) {
	h := newHistory(t)
	_, err := h.file.Load(h.v)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = File("").Load(h.v)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, File("").Save(nil))
	require.NoError(t, File("").Touch(nil))

	h.step(serials(policy(1, 1, "a!", "b"), "01"))
	h.step(policy(2, 1, "a"))
	path := string(h.file)
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.NoFileExists(t, path+".tmp")

	later := h.state.Touched(now.Add(time.Hour))
	require.NoError(t, h.file.Touch(later))
	loaded, err := h.file.Load(h.v)
	require.NoError(t, err)
	assert.Equal(t, now.Add(time.Hour), loaded.Contact)
	assert.Equal(t, later.Senders(), loaded.Senders())

	foreign := testpki.NewCA(t, "op-abc")
	other := h.v
	other.OperatorID = "op-x"
	_, err = h.file.Load(other)
	require.ErrorIs(t, err, ErrOperator)
	_, err = h.file.Load(Verifier{CAs: []*x509.Certificate{foreign.Cert}, OperatorID: "op-abc"})
	require.ErrorIs(t, err, signedpolicy.ErrSignature)
	_, err = h.file.Load(Verifier{CAs: []*x509.Certificate{foreign.Cert, h.ca.Cert}, OperatorID: "op-abc"})
	require.NoError(t, err, "any of the CAs")

	lines := bytes.Split(good, []byte("\n"))
	for name, tt := range map[string]struct {
		data []byte
		ok   bool
	}{
		"as written":         {good, true},
		"JWS alone":          {lines[0], true},
		"no time":            {bytes.Join([][]byte{lines[0], []byte("never"), lines[2]}, []byte("\n")), true},
		"empty":              {nil, false},
		"cut JWS":            {lines[0][:len(lines[0])-2], false},
		"memory is not JSON": {bytes.Join([][]byte{lines[0], lines[1], []byte("{")}, []byte("\n")), false},
		"earlier policy edited": {bytes.Join([][]byte{lines[0], lines[1],
			bytes.Replace(lines[2], []byte(`"previous":["e`), []byte(`"previous":["f`), 1)}, []byte("\n")), false},
	} {
		require.NoError(t, os.WriteFile(path, tt.data, 0o600))
		_, err := h.file.Load(h.v)
		assert.Equal(t, tt.ok, err == nil, "%s: %v", name, err)
	}
}

// What cannot be written changes nothing.
func TestSaveFails(t *testing.T) {
	h := newHistory(t)
	h.step(policy(1, 1, "a"))
	require.NoError(t, os.Mkdir(string(h.file)+".tmp", 0o700))
	require.Error(t, h.file.Save(h.state.Touched(now.Add(time.Hour))))
	loaded, err := h.file.Load(h.v)
	require.NoError(t, err)
	assert.Equal(t, now, loaded.Contact)
}

// FuzzLoad: no cache file panics, and none lets in what the CA did not sign.
func FuzzLoad(f *testing.F) {
	ca := testpki.NewCA(f, "op-abc")
	v := Verifier{CAs: []*x509.Certificate{ca.Cert}, OperatorID: "op-abc"}
	p := policy(1, 1, "a")
	jws, err := signedpolicy.Sign(p, ca.Cert, ca.Key)
	require.NoError(f, err)
	f.Add([]byte(jws + "\n2026-06-01T12:00:00Z\n{\"names\":{},\"serials\":{}}\n"))
	f.Add([]byte(jws + "\n\n{\"previous\":[\"" + jws + "\"]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := File(filepath.Join(t.TempDir(), "c"))
		require.NoError(t, os.WriteFile(string(path), data, 0o600))
		if s, err := path.Load(v); err == nil {
			require.Equal(t, p, s.Policy)
			for _, sender := range s.Senders() {
				require.Equal(t, "a", sender.Name)
			}
		}
	})
}
