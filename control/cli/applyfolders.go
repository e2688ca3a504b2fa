// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/cli/fleet"
	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/certfile"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// Files of a folder beside the commands. An empty one stands for a secret that is
// about to be made: it is written before the server hears of it, so that whoever
// comes after a crash knows that the secret was lost.
const (
	tokenIDFile   = ".token-id" // of the token in the folder
	heartbeatFile = "heartbeat" // the secret of an operator that enrolled before
)

// folders are those of --out-dir: one for each connection and each operator, with
// how it enrols. A nil one has none.
type folders struct {
	dir    string
	before map[string][]operators.Token // by operator, when the plan was made

	mu   sync.Mutex
	made map[string][]string // names of the folders that were made, by operator
}

// lockOutDir waits until no other apply writes into --out-dir.
func lockOutDir(cmd *cobra.Command, dryRun bool) (unlock func(), err error) {
	dir := text(cmd, "out-dir")
	if dir == "" || dryRun {
		return func() {}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the folders: %w", err)
	}
	ticker := time.NewTicker(environmentOf(cmd).pollEvery(waitPoll))
	defer ticker.Stop()
	for told := false; ; told = true {
		unlock, free := certfile.TryLock(dir)
		if free {
			return unlock, nil
		}
		unlock()
		if !told {
			warn(cmd, "another apply writes into %s: waiting for its end", dir)
		}
		select {
		case <-ticker.C:
		case <-cmd.Context().Done():
			return nil, cmd.Context().Err()
		}
	}
}

// readFolders compares --out-dir with the tokens of the server, and enters into
// state what the folders of those who have never enrolled lack. It is nil without
// --out-dir.
func readFolders(cmd *cobra.Command, client *apiclient.Client, state *fleet.State, senders []liveness.SenderStatus) (*folders, error) {
	if text(cmd, "out-dir") == "" {
		return nil, nil
	}
	f := &folders{dir: text(cmd, "out-dir"), before: map[string][]operators.Token{}, made: map[string][]string{}}
	state.Folders = map[string]fleet.Folder{}
	for i := range state.Operators {
		o := &state.Operators[i]
		if o.State != operators.OperatorActive {
			continue
		}
		tokens, err := client.Tokens(cmd.Context(), o.ID)
		if err != nil {
			return nil, err
		}
		f.before[o.ID] = tokens
		switch {
		case o.Certificates == nil || o.Certificates.ReceiverNotAfter == nil:
			state.Folders[o.ID] = f.judge(o.ID, controlapi.RoleReceiver, tokens, "ikhnos operator install "+o.ID)
		case o.Heartbeat == operators.SwitchOn && f.isEmpty(o.ID, heartbeatFile):
			state.Folders[o.ID] = fleet.Folder{Why: "its heartbeat secret was not written, so another one", Heartbeat: true}
		}
	}
	for i := range senders {
		s := &senders[i]
		tokens, active := f.before[s.OperatorID]
		if active && s.NotAfter == nil && s.State == controlapi.SenderAllowed && s.Kind == controlapi.KindCluster {
			state.Folders[s.Name] = f.judge(s.Name, controlapi.RoleSender, tokens, "ikhnos sender connect "+s.HolderID+" --operator "+s.OperatorID)
		}
	}
	return f, nil
}

// judge says what is wrong with the folder of a name that has no certificate. One
// that has enrolled before had it revoked: it gets no token that nobody asked for.
// A token that works and was made elsewhere is not ended; another makes a new one.
func (f *folders) judge(name string, role controlapi.Role, tokens []operators.Token, another string) fleet.Folder {
	var open string
	var until time.Time
	for i := range tokens {
		switch t := &tokens[i]; {
		case t.Name != name || t.Role != role:
		case t.State == operators.TokenSpent:
			return fleet.Folder{}
		case t.State == operators.TokenOpen:
			open, until = t.TokenID, t.ExpiresAt
		}
	}
	content, err := os.ReadFile(filepath.Join(f.dir, name, tokenIDFile))
	id := string(content)
	switch {
	case err == nil && id == "":
		return fleet.Folder{Why: "its folder was not finished", Install: true}
	case open == "" && err == nil:
		return fleet.Folder{Why: "the token in its folder has ended", Install: true}
	case open == "":
		return fleet.Folder{Why: "has no folder yet", Install: true}
	case id != open:
		return fleet.Folder{Why: fmt.Sprintf("has not enrolled, and its token, until %s, is in no folder here (%s makes another and ends it)", date(until), another)}
	default:
		return fleet.Folder{}
	}
}

func (f *folders) isEmpty(name, file string) bool {
	content, err := os.ReadFile(filepath.Join(f.dir, name, file))
	return err == nil && len(content) == 0
}

// begin marks a folder as not finished, and takes away what a killed apply was just
// writing.
func (f *folders) begin(name string) error {
	if f == nil {
		return nil
	}
	left, _ := os.ReadDir(filepath.Join(f.dir, name)) // none where there is no folder yet
	for _, entry := range left {
		if half, _ := filepath.Match(privateTemporary, entry.Name()); !half {
			continue
		}
		if err := os.Remove(filepath.Join(f.dir, name, entry.Name())); err != nil {
			return fmt.Errorf("removing what was left half written: %w", err)
		}
	}
	return f.write(name, tokenIDFile, "")
}

// finish notes the token of a folder that is complete, "" when that is not known.
func (f *folders) finish(operatorID, name, tokenID string) error {
	f.mu.Lock()
	f.made[operatorID] = append(f.made[operatorID], name)
	f.mu.Unlock()
	return f.write(name, tokenIDFile, tokenID)
}

func (f *folders) write(name, file, content string) error {
	dir := filepath.Join(f.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	return writeSecretFile(filepath.Join(dir, file), []byte(content))
}

// fresh are the tokens of a name that were made after the plan.
func (f *folders) fresh(operatorID, name string, now []operators.Token) []operators.Token {
	var fresh []operators.Token
	for _, t := range now {
		known := func(old operators.Token) bool { return old.TokenID == t.TokenID }
		if t.Name == name && !slices.ContainsFunc(f.before[operatorID], known) {
			fresh = append(fresh, t)
		}
	}
	return fresh
}

// material lets show write how a holder enrols into its folder.
func (a *applier) material(name string, addFlags func(*cobra.Command), show func(sub *cobra.Command) error) error {
	sub := &cobra.Command{Use: a.cmd.Use}
	sub.SetContext(a.cmd.Context())
	addGlobalFlags(sub.Flags())
	addFlags(sub)
	addTTLFlag(sub)
	given := map[string]string{"out-dir": filepath.Join(a.folders.dir, name)}
	for _, flag := range []string{"ttl", "format", "collector"} {
		given[flag] = text(a.cmd, flag)
	}
	for flag, value := range given {
		if sub.Flags().Lookup(flag) == nil {
			continue // an operator has no choice of collector
		}
		if err := setFlag(sub, flag, value); err != nil {
			return err
		}
	}
	var said, warned bytes.Buffer
	sub.SetOut(&said) // the paths: the folder is named by the plan's line
	sub.SetErr(&warned)
	if err := show(sub); err != nil {
		return err
	}
	a.tell(warned.String())
	return nil
}

// installFolder writes how an operator is installed. Its token is the one that was
// not there before; when another apply made one too, nobody knows which, and the
// folder stays unfinished.
func (a *applier) installFolder(ctx context.Context, o *operators.Operator) error {
	err := a.material(o.ID, addOperatorInstallFlags, func(sub *cobra.Command) error { return showInstall(sub, a.client, o) })
	if err != nil {
		return err
	}
	// A secret of its own was for what is there no more.
	if err := os.Remove(filepath.Join(a.folders.dir, o.ID, heartbeatFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing a secret that has ended: %w", err)
	}
	tokens, err := a.client.Tokens(ctx, o.ID)
	if err != nil {
		return err
	}
	var tokenID string
	if fresh := a.folders.fresh(o.ID, o.ID, tokens); len(fresh) == 1 {
		tokenID = fresh[0].TokenID
	}
	return a.folders.finish(o.ID, o.ID, tokenID)
}

// heartbeat turns heartbeats on. The secret goes to --out-dir if keep; without that,
// it is made anew by whoever installs it.
func (a *applier) heartbeat(ctx context.Context, id string, keep bool) error {
	keep = keep && a.folders != nil
	if keep {
		if err := a.folders.write(id, heartbeatFile, ""); err != nil {
			return err
		}
	}
	minted, err := a.client.MintHeartbeat(ctx, id)
	if err != nil || !keep {
		return err
	}
	return a.folders.write(id, heartbeatFile, minted.Secret+"\n")
}

// madeTwice is the error of folders for which another apply, which ran at the same
// time and elsewhere, made tokens too.
func (a *applier) madeTwice() error {
	if a.folders == nil {
		return nil
	}
	var twice []string
	for operatorID, names := range a.folders.made {
		tokens, err := a.client.Tokens(a.cmd.Context(), operatorID)
		if err != nil {
			return a.stopped(err)
		}
		for _, name := range names {
			if len(a.folders.fresh(operatorID, name, tokens)) > 1 {
				twice = append(twice, name)
			}
		}
	}
	if len(twice) == 0 {
		return nil
	}
	slices.Sort(twice)
	return &explained{
		what: "another apply ran at the same time, and both made tokens for " + someOf(twice),
		why:  "of two tokens for one name only the later one works",
		do:   "apply again, here and where the other one ran: each tells which of its folders hold a token that has ended",
	}
}

// someOf names the first few of many.
func someOf(names []string) string {
	const few = 5
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}
