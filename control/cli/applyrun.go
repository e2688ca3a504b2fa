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
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/cli/fleet"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
)

// applyTogether is how many changes are under way at once: the server commits them
// in groups.
const applyTogether = 8

// applier carries a plan out.
type applier struct {
	cmd    *cobra.Command
	client *apiclient.Client
	outDir string

	mu          sync.Mutex
	done        int
	unconfirmed error           // of the cut-offs
	warned      map[string]bool // warnings, each told once
}

// carryOut asks, where there is somebody to ask, and makes the changes of a plan:
// clusters, operators one by one, senders. Nobody is cut off unasked without --yes:
// a line that a file lost by mistake must not do that. unconfirmed is the exit code of cut-offs
// that not every operator has confirmed yet.
func carryOut(cmd *cobra.Command, client *apiclient.Client, plan *fleet.Plan) (unconfirmed, err error) {
	if plan.Count(fleet.Add, fleet.Update, fleet.Revoke) == 0 {
		return nil, nil
	}
	if n := plan.Count(fleet.Revoke); n > 0 && text(cmd, "yes") != "true" && !environmentOf(cmd).inTerminal {
		return nil, &exitError{exitUsage, &explained{
			what: "nothing was changed: " + count(n, "cut-off") + " not confirmed",
			why:  "--prune revoke cuts off what the file lacks, and there is no terminal to ask",
			do:   "look at what --dry-run marks with -, then repeat with --yes",
		}}
	}
	if err := confirm(cmd, "yes", "Lines marked +, ~ and - will be carried out."); err != nil {
		return nil, err
	}
	a := &applier{cmd: cmd, client: client, outDir: text(cmd, "out-dir"), warned: map[string]bool{}}
	for _, kind := range []struct {
		name     string
		together int
	}{{"cluster", applyTogether}, {"operator", 1}, {"sender", applyTogether}} {
		group, ctx := errgroup.WithContext(cmd.Context())
		group.SetLimit(kind.together)
		for i := range plan.Changes {
			if c := &plan.Changes[i]; c.Kind == kind.name && c.Action != fleet.Keep {
				group.Go(func() error { return a.change(ctx, c) })
			}
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
	}
	return a.unconfirmed, nil
}

// change carries one line of the plan out.
func (a *applier) change(ctx context.Context, c *fleet.Change) error {
	if ctx.Err() != nil {
		return ctx.Err() // another change has failed
	}
	var err error
	switch {
	case c.Cluster != nil:
		err = a.cluster(ctx, c.Cluster)
	case c.Operator != nil:
		err = a.operator(ctx, c.Operator)
	case c.Sender != nil:
		err = a.sender(ctx, c.Sender)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.done++
		return nil
	}
	var problem *controlapi.Problem
	if !errors.As(err, &problem) {
		return err
	}
	return &exitError{exitRefused, &explained{
		what: fmt.Sprintf("%s %s was refused, after %s", c.Kind, c.Name, count(a.done, "change")), reason: problem.Reason,
		why: firstOf(problem.Detail, problem.Title) + "; " + problemWhy(problem),
		do:  firstOf(problemRemedy(problem), "see the reason") + "; then apply again: what was done stays done", err: err,
	}}
}

func (a *applier) cluster(ctx context.Context, c *fleet.ClusterChange) error {
	if c.Revoke {
		receipt, err := a.client.RevokeCluster(ctx, c.ID, "not in the declared fleet", waitOf(a.cmd))
		return a.revoked(receipt, err)
	}
	if c.Put != nil {
		if _, err := a.client.PutCluster(ctx, c.ID, *c.Put); err != nil {
			return err
		}
	}
	if !c.Approve {
		return nil
	}
	_, err := a.client.ApproveCluster(ctx, c.ID)
	return err
}

func (a *applier) operator(ctx context.Context, c *fleet.OperatorChange) error {
	var made *operators.Operator
	var err error
	if c.Create != nil {
		if made, err = a.client.PutOperator(ctx, c.ID, *c.Create); err != nil {
			return err
		}
		a.warn(made.Warnings)
	}
	if c.Address != nil {
		if made, err = a.client.SetAddress(ctx, c.ID, *c.Address); err != nil {
			return err
		}
	}
	if c.Heartbeat {
		return a.heartbeat(ctx, c.ID)
	}
	if c.Create == nil {
		return nil
	}
	return a.material(c.ID, addOperatorInstallFlags, func(sub *cobra.Command) error { return showInstall(sub, a.client, made) })
}

// heartbeat turns heartbeats on. The secret goes to --out-dir; without it, it is
// made anew by whoever installs it.
func (a *applier) heartbeat(ctx context.Context, id string) error {
	minted, err := a.client.MintHeartbeat(ctx, id)
	if err != nil || a.outDir == "" {
		return err
	}
	dir := filepath.Join(a.outDir, id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the directory of the secret: %w", err)
	}
	return writeSecretFile(filepath.Join(dir, "heartbeat"), []byte(minted.Secret+"\n"))
}

func (a *applier) sender(ctx context.Context, c *fleet.SenderChange) error {
	if c.Revoke {
		receipt, err := a.client.RevokeSender(ctx, c.OperatorID, c.HolderID, operators.RevokeRetired, "not in the declared fleet", waitOf(a.cmd))
		return a.revoked(receipt, err)
	}
	sender, err := a.client.ConnectSender(ctx, c.OperatorID, c.HolderID, c.Address)
	if err != nil {
		return err
	}
	a.warn(sender.Warnings)
	if !c.New {
		return nil
	}
	return a.material(identity.SenderName(c.OperatorID, c.HolderID), addInstallFlags,
		func(sub *cobra.Command) error { return showConnection(sub, a.client, sender) })
}

// revoked keeps that a cut-off is not confirmed everywhere.
func (a *applier) revoked(receipt *controlapi.Receipt, err error) error {
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if code := confirmedCode(receipt); code != nil {
		a.unconfirmed = code
		warn(a.cmd, "not confirmed everywhere yet: ikhnos receipt get %s", receipt.ReceiptID)
	}
	return nil
}

// material lets show write how a holder enrols into a folder of --out-dir.
func (a *applier) material(name string, addFlags func(*cobra.Command), show func(sub *cobra.Command) error) error {
	if a.outDir == "" {
		return nil
	}
	sub := &cobra.Command{Use: a.cmd.Use}
	sub.SetContext(a.cmd.Context())
	addGlobalFlags(sub.Flags())
	addFlags(sub)
	addTTLFlag(sub)
	given := map[string]string{"out-dir": filepath.Join(a.outDir, name)}
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

func (a *applier) warn(warnings []string) {
	for _, warning := range warnings {
		a.tell("warning: " + plain(warning) + "\n")
	}
}

// tell prints a warning that was not there yet.
func (a *applier) tell(warning string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if warning != "" && !a.warned[warning] {
		a.warned[warning] = true
		_, _ = fmt.Fprint(a.cmd.ErrOrStderr(), warning)
	}
}
