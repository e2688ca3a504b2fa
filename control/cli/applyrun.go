// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
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
	cmd     *cobra.Command
	client  *apiclient.Client
	folders *folders
	planned int // changes

	mu          sync.Mutex
	done        int             // changes
	unconfirmed error           // of the cut-offs
	warned      map[string]bool // warnings, each told once
}

// carryOut asks, where there is somebody to ask, and makes the changes of a plan:
// clusters, operators one by one, senders. Nobody is cut off unasked without --yes:
// a line that a file lost by mistake must not do that. unconfirmed is the exit code of cut-offs
// that not every operator has confirmed yet.
func carryOut(cmd *cobra.Command, client *apiclient.Client, plan *fleet.Plan, known *folders) (unconfirmed, err error) {
	planned := plan.Count(fleet.Add, fleet.Update, fleet.Revoke)
	if planned == 0 {
		return nil, nil
	}
	if n := plan.Count(fleet.Revoke); n > 0 && text(cmd, "yes") != "true" && !environmentOf(cmd).inTerminal {
		return nil, &exitError{exitUsage, &explained{
			what: "nothing was changed: " + count(n, "cut-off") + " not confirmed",
			why:  "--prune revoke cuts off what the file lacks, and there is no terminal to ask",
			do:   "look at what --dry-run marks with -, then repeat with --yes",
		}}
	}
	if err := ask(cmd, "yes", "Lines marked +, ~ and - will be carried out."); err != nil {
		return nil, err
	}
	a := &applier{cmd: cmd, client: client, folders: known, planned: planned, warned: map[string]bool{}}
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
			return nil, a.stopped(err)
		}
	}
	return a.unconfirmed, a.madeTwice()
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
	if err != nil {
		return &failedChange{c, err}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done++
	return nil
}

// failedChange is the change of a plan that went wrong first.
type failedChange struct {
	*fleet.Change
	err error
}

func (f *failedChange) Error() string { return f.Kind + " " + f.Name + ": " + f.err.Error() }
func (f *failedChange) Unwrap() error { return f.err }

// stopped tells how far a plan came that was not carried out to its end. Nothing is
// lost by that: a second apply goes on from there.
func (a *applier) stopped(err error) error {
	told := &explained{
		what: "stopped after " + fmt.Sprintf("%d of %s", a.done, count(a.planned, "change")),
		why:  err.Error(), do: "apply again: what was done stays done", err: err,
	}
	var failed *failedChange
	var problem *controlapi.Problem
	var away *apiclient.UnreachableError
	switch {
	case errors.As(err, &away):
		told.what = "the control server did not answer: " + told.what
		told.why = a.client.Server() + ": " + away.Err.Error()
		told.do = "nothing is lost: when the server answers again, apply again, and the rest follows"
		return &exitError{exitUnreachable, told}
	case errors.As(err, &failed) && errors.As(err, &problem):
		told.reason = problem.Reason
		told.what = fmt.Sprintf("%s %s was refused: %s", failed.Kind, failed.Name, told.what)
		told.why = firstOf(problem.Detail, problem.Title) + "; " + problemWhy(problem)
		told.do = firstOf(problemRemedy(problem), "see the reason") + "; then " + told.do
		return &exitError{exitRefused, told}
	case errors.Is(err, context.Canceled):
		told.what, told.why = "interrupted: "+told.what, "the command was stopped before its end"
	}
	return told
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
	enrols := c.Create != nil || c.Install
	if enrols {
		if err := a.folders.begin(c.ID); err != nil {
			return err
		}
	}
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
		if err := a.heartbeat(ctx, c.ID, !enrols); err != nil {
			return err
		}
	}
	if !enrols || a.folders == nil {
		return nil
	}
	if made == nil {
		if made, err = a.client.Operator(ctx, c.ID); err != nil {
			return err
		}
	}
	return a.installFolder(ctx, made)
}

func (a *applier) sender(ctx context.Context, c *fleet.SenderChange) error {
	if c.Revoke {
		receipt, err := a.client.RevokeSender(ctx, c.OperatorID, c.HolderID, operators.RevokeRetired, "not in the declared fleet", waitOf(a.cmd))
		return a.revoked(receipt, err)
	}
	name := identity.SenderName(c.OperatorID, c.HolderID)
	if c.Install {
		if err := a.folders.begin(name); err != nil {
			return err
		}
	}
	sender, err := a.client.ConnectSender(ctx, c.OperatorID, c.HolderID, c.Address)
	if err != nil {
		return err
	}
	a.warn(sender.Warnings)
	if !c.Install || a.folders == nil {
		return nil
	}
	var tokenID string
	err = a.material(name, addInstallFlags, func(sub *cobra.Command) (err error) {
		tokenID, err = showConnection(sub, a.client, sender)
		return err
	})
	if err != nil {
		return err
	}
	return a.folders.finish(c.OperatorID, name, tokenID)
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
