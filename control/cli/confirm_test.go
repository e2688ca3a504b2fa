// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// That an operator shall end is confirmed: a script that does not say so is refused,
// and nothing happens. For a cluster it need not say so, but not name another either.
func TestAScriptConfirms(t *testing.T) {
	s := newRealServer(t)
	s.exec(exitDone, "cluster", "add", "c1", "--approve")
	s.exec(exitDone, "operator", "create", "EU", "--id", "op-eu", "--role", "central")
	lines := s.auditLines()
	removals := [][]string{
		{"operator", "revoke", "op-eu"}, {"operator", "delete", "op-eu"},
	}
	for _, removal := range removals {
		id := removal[2]
		r := s.run(removal...)
		assert.Equal(t, exitUsage, r.code, removal)
		assert.Empty(t, r.stdout)
		assert.Regexp(t, "^error: not confirmed: nothing was done\n  why   This .*"+id+".* There is no terminal to ask.\n"+
			"  do    repeat it with --confirm "+id+"\n$", r.stderr)
		assert.Equal(t, exitUsage, s.run(append(removal, "--confirm", "other")...).code, removal)
	}
	for _, command := range []string{"revoke", "delete"} {
		assert.Equal(t, exitUsage, s.run("cluster", command, "c1", "--confirm", "other").code)
	}
	assert.Equal(t, lines, s.auditLines(), "nothing was done")
	for _, removal := range removals {
		s.exec(exitNotConfirmed, append(removal, "--wait", "0s", "--confirm", removal[2])...)
	}
	s.exec(exitNotConfirmed, "cluster", "revoke", "c1", "--wait", "0s")
	s.exec(exitNotConfirmed, "cluster", "delete", "c1", "--wait", "0s", "--yes")
}
