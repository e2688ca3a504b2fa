// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/certfile"
	"github.com/ikhnos/continuum/test/testbed"
)

// renewalsEach is how often one holder renews here: the server allows twenty living
// certificates.
const renewalsEach = 10

// holderUnderFire is a sender whose program is killed at the wrong moments, and the
// certificates that were seen in its directory.
type holderUnderFire struct {
	*sender
	seen map[string]bool // serials
	cut  int             // kills that left a key without an answer
}

// look checks what a kill left: the pair on disk is whole and known to the ledger.
func (h *holderUnderFire) look() {
	h.t.Helper()
	if h.hasPending() {
		h.cut++
	}
	g, err := certfile.Recover(h.directory())
	if len(h.seen) == 0 && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, certfile.ErrDamaged)) {
		return // killed before there was a first one
	}
	require.NoError(h.t, err)
	leaf, err := g.Leaf()
	require.NoError(h.t, err)
	require.True(h.t, time.Now().Before(leaf.NotAfter))
	h.seen[hex.EncodeToString(leaf.SerialNumber.Bytes())] = true
}

// verify: every certificate that was issued was used, one for each key, so that no
// kill cost one; and the token was spent once.
func (h *holderUnderFire) verify() {
	h.t.Helper()
	keys, enrolments := map[string]bool{}, 0
	for _, e := range h.server.Entries(h.operatorID, h.holder) {
		assert.True(h.t, h.seen[e.Serial], "certificate %s was issued and never came into use", e.Serial)
		keys[e.SPKI] = true
		if e.Parent == "" {
			enrolments++
		}
	}
	assert.Len(h.t, keys, len(h.seen))
	assert.Equal(h.t, 1, enrolments)
}

// TestKilledCommands is case-17 and trap-9 with the command line, which shares its
// packages with the extension and starts faster: `ikhnos enroll` and `ikhnos renew`
// are killed at random moments, and each time the next run ends what was begun.
func TestKilledCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	t.Parallel()
	s := testbed.StartServer(t, "--leaf-lifetime", "1h")
	s.Central(centralID)
	kills, cut := 0, 0
	for i := range count(2, 60) {
		h := &holderUnderFire{sender: newSender(t, s, &operator{id: centralID}, fmt.Sprintf("c%d", i)), seen: map[string]bool{}}
		fire := func(args ...string) {
			for {
				kills++
				ended := h.command(true, args...)
				h.look()
				if ended {
					return
				}
			}
		}
		fire("enroll", "--dir", h.directory(), "--enrollment-token-file", h.tokenFile())
		require.True(t, h.command(false, "enroll", "--dir", h.directory(), "--enrollment-token-file", h.tokenFile()))
		h.look()
		for range renewalsEach {
			fire("renew", "--force", "--dir", h.directory())
		}
		h.verify()
		cut += h.cut
	}
	t.Logf("%d runs, %d of them cut off with a key under way", kills, cut)
}

// command runs a command to its good end, or kills it at a random moment within
// what one takes. It reports whether it came to its end.
func (h *holderUnderFire) command(kill bool, args ...string) bool {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), testbed.Program(h.t, "ikhnos"), args...)
	cmd.Env = append(cmd.Environ(), "IKHNOS_SERVER="+h.server.URL, "IKHNOS_CA_PIN="+h.server.Pin)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(h.t, cmd.Start())
	if kill {
		h.awaitKill(cmd)
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && !exit.Exited() {
		return false // killed
	}
	require.NoError(h.t, err, "%s: %s", args, &said)
	return true
}

// awaitKill kills once the command has begun to work, that is when its new key is
// there, and a random time later; about one in three is let through.
func (h *holderUnderFire) awaitKill(cmd *exec.Cmd) {
	pendingBefore := h.hasPending()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for looks := 0; looks < 2000 && (pendingBefore || !h.hasPending()); looks++ {
		if pendingBefore && looks > 100 {
			break // the key was there before; it began at an unknown moment
		}
		<-ticker.C
	}
	moment := time.NewTimer(time.Duration(rand.IntN(40)) * time.Millisecond)
	defer moment.Stop()
	<-moment.C
	_ = cmd.Process.Kill() // it may have ended
}

// TestKilledCollector is the same with the extension: a renewal is due at the start,
// and the collector is killed while it is at it.
func TestKilledCollector(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	t.Parallel()
	s := testbed.StartServer(t, "--leaf-lifetime", "1h")
	s.Central(centralID)
	kills, cut := 0, 0
	for i := range count(1, 12) {
		h := &holderUnderFire{sender: newSender(t, s, &operator{id: centralID, grpc: "127.0.0.1:1", http: "127.0.0.1:1"}, fmt.Sprintf("c%d", i)), seen: map[string]bool{}}
		h.Start() // enrols
		h.Kill()
		h.look()
		for range count(4, renewalsEach) {
			h.dueAt(time.Now().Add(-time.Second), time.Now().Add(time.Minute))
			h.Launch()
			h.awaitPending()
			h.Kill()
			kills++
			h.look()
		}
		before := h.pair().Certificate
		h.dueAt(time.Now().Add(-time.Second), time.Now().Add(time.Minute))
		h.Start()
		testbed.Eventually(t, "a renewal after all kills", func(context.Context) error {
			if string(h.pair().Certificate) == string(before) {
				return errors.New("not yet")
			}
			return nil
		}, h.Process)
		h.Stop()
		h.look()
		h.verify()
		cut += h.cut
	}
	t.Logf("%d kills, %d of them with a key under way", kills, cut)
}

// awaitPending waits until the collector has a new key under way or a certificate
// for it, and then a random while.
func (h *holderUnderFire) awaitPending() {
	h.t.Helper()
	before := h.pair().Certificate
	testbed.Eventually(h.t, "a renewal to begin", func(context.Context) error {
		if h.hasPending() || string(h.pair().Certificate) != string(before) {
			return nil
		}
		return errors.New("not yet")
	}, h.Process)
	moment := time.NewTimer(time.Duration(rand.IntN(30)) * time.Millisecond)
	defer moment.Stop()
	<-moment.C
}
