// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/cli/fleet"
	"github.com/ikhnos/continuum/control/liveness"
)

const (
	pruneKeep   = "keep"
	pruneRevoke = "revoke"
)

func newApplyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Bring clusters, operators and senders to what a file declares",
		Long: `Bring clusters, operators and senders to what a file declares. The file is checked
as a whole first, by the server's own rules: when anything is wrong with it, its
place is named and nothing is changed. Then the plan is shown, and carried out. A
second time there is nothing to do. ikhnos export writes the file of what is there.

  clusters:
    - id: c1                       # required
      kind: kubernetes             # or host
      labels: {env: prod}
      tenant: "5:6"
      silentAfter: 5m
      approve: true                # it may be connected
  operators:
    - id: op-central               # required, as is name
      name: Central
      role: central
    - id: op-eu
      name: EU West
      role: regional               # the default
      destination: op-central      # or HOST:PORT
      labels: {region: eu}
      exposure: cluster            # or node_port, load_balancer
      heartbeat: "on"
      address: eu.example.com:4317 # where senders dial; left as it is when left out
  senders:
    - id: c1                       # may send to
      operator: op-eu
      address: 10.0.0.7:4317       # when it dials another one than the operator's own

A section that is left out leaves its kind alone. What the server has and a section
lacks is kept and named; with --prune revoke clusters and senders among it are cut
off, for which --yes is needed where nobody can be asked. Operators never are: see
ikhnos operator retire. --out-dir gets a folder for each connection and each operator
that has never enrolled, with the commands and the one-use token for it; a folder that
was not finished, or whose token has ended, is made again. Without it no token is made
(ikhnos sender connect makes one).

An apply that was stopped is finished by the next one. A second one with the same
--out-dir waits for the first.`,
		Example: "  ikhnos apply -f fleet.yaml --dry-run\n  ikhnos apply -f fleet.yaml --out-dir enrolment",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, args []string) error {
			declared, err := readFleet(cmd)
			if err != nil {
				return err
			}
			return withClient(func(cmd *cobra.Command, client *apiclient.Client, _ []string) error {
				return apply(cmd, client, declared)
			})(cmd, args)
		},
	}
	cmd.Flags().StringArrayP("file", "f", nil, "file to apply, - for standard input (repeatable)")
	_ = cmd.MarkFlagRequired("file") // the flag was defined above
	cmd.Flags().Bool("dry-run", false, "show the plan and change nothing")
	addChoice(cmd, "prune", "what becomes of clusters and senders that are not in the file", pruneKeep, pruneRevoke)
	addInstallFlags(cmd)
	cmd.Flags().Lookup("out-dir").Usage = "write how each new connection and operator enrols into folders here, mode 0600"
	cmd.Flags().Bool("yes", false, "do not ask")
	addWaitFlag(cmd)
	addTTLFlag(cmd)
	return cmd
}

// readFleet reads and checks every --file.
func readFleet(cmd *cobra.Command) (*fleet.Fleet, error) {
	paths, _ := cmd.Flags().GetStringArray("file")
	declared := &fleet.Fleet{}
	var faults []fleet.Fault
	for _, path := range paths {
		content, err := readInput(cmd, path)
		if err != nil {
			return nil, err
		}
		faults = append(faults, declared.Parse(path, content)...)
	}
	return declared, badFleet(cmd, faults)
}

// maxFleetBytes is far above any fleet: 3,000 clusters are half a megabyte.
const maxFleetBytes = 32 << 20

// readInput reads a file, or standard input for "-", whole or not at all.
func readInput(cmd *cobra.Command, path string) ([]byte, error) {
	in := cmd.InOrStdin()
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, unreadable(err)
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	content, err := io.ReadAll(io.LimitReader(in, maxFleetBytes+1))
	if err == nil && len(content) > maxFleetBytes {
		err = fmt.Errorf("%s has more than %d MiB", path, maxFleetBytes>>20)
	}
	if err != nil {
		return nil, unreadable(err)
	}
	return content, nil
}

func unreadable(err error) error {
	return &exitError{exitUsage, &explained{
		what: "the file cannot be read", why: err.Error(), do: "give its path; nothing was changed", err: err,
	}}
}

// badFleet names every fault, one a line; nil without one.
func badFleet(cmd *cobra.Command, faults []fleet.Fault) error {
	if len(faults) == 0 {
		return nil
	}
	for _, fault := range faults {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), plain(fault.String()))
	}
	return &exitError{exitUsage, &explained{
		what: "what is declared cannot be applied: " + count(len(faults), "fault"),
		why:  "each is named above, at its place",
		do:   "correct what is named above; nothing was changed",
	}}
}

// readState reads what the organisation has.
func readState(cmd *cobra.Command, client *apiclient.Client) (state fleet.State, senders []liveness.SenderStatus, err error) {
	if state.Clusters, err = client.Clusters(cmd.Context()); err != nil {
		return state, nil, err
	}
	if state.Operators, err = client.Operators(cmd.Context()); err != nil {
		return state, nil, err
	}
	senders, err = client.Senders(cmd.Context(), apiclient.SenderFilter{})
	for i := range senders {
		state.Senders = append(state.Senders, senders[i].Sender)
	}
	return state, senders, err
}

// applied is what apply prints for other programs.
type applied struct {
	*fleet.Plan
	DryRun bool `json:"dryRun"`
}

func apply(cmd *cobra.Command, client *apiclient.Client, declared *fleet.Fleet) error {
	dryRun := text(cmd, "dry-run") == "true"
	unlock, err := lockOutDir(cmd, dryRun)
	if err != nil {
		return err
	}
	defer unlock()
	state, senders, err := readState(cmd, client)
	if err != nil {
		return err
	}
	known, err := readFolders(cmd, client, &state, senders)
	if err != nil {
		return err
	}
	plan, faults := declared.Plan(state, text(cmd, "prune") == pruneRevoke)
	if err := badFleet(cmd, faults); err != nil {
		return err
	}
	ttl, _ := cmd.Flags().GetDuration("ttl")
	for i := range plan.Changes {
		c := &plan.Changes[i]
		if c.Enrols() && known != nil {
			c.What += ", token for " + span(ttl)
		}
	}
	if text(cmd, "output") == formatTable {
		writePlan(cmd.OutOrStdout(), plan)
	}
	if n := plan.Count(fleet.Conflict); n > 0 {
		if err := show(cmd, applied{plan, true}, func(io.Writer) {}); err != nil {
			return err
		}
		return &exitError{exitRefused, &explained{
			what: "nothing was changed: " + count(n, "conflict"),
			why:  "the server has it otherwise, and cannot be brought to what is declared",
			do:   "see the lines marked ! above that say what to do",
		}}
	}
	var unconfirmed error
	if !dryRun {
		if unconfirmed, err = carryOut(cmd, client, plan, known); err != nil {
			return err
		}
	}
	if err := show(cmd, applied{plan, dryRun}, func(w io.Writer) { writeCounts(w, plan, dryRun) }); err != nil {
		return err
	}
	return unconfirmed
}

func writePlan(w io.Writer, plan *fleet.Plan) {
	rows := make([][]string, len(plan.Changes))
	for i := range plan.Changes {
		c := &plan.Changes[i]
		rows[i] = []string{fleet.Signs[c.Action] + " " + c.Kind, c.Name, c.What}
	}
	writeTable(w, rows)
}

func writeCounts(w io.Writer, plan *fleet.Plan, dryRun bool) {
	var parts []string
	for _, one := range []struct {
		action fleet.Action
		word   string
	}{{fleet.Add, "added"}, {fleet.Update, "changed"}, {fleet.Revoke, "cut off"}} {
		if n := plan.Count(one.action); n > 0 && !dryRun {
			parts = append(parts, fmt.Sprintf("%d %s", n, one.word))
		}
	}
	parts = append(parts, fmt.Sprintf("%d unchanged.", plan.Unchanged))
	line := "  " + strings.Join(parts, ", ")
	switch {
	case dryRun:
		line += "  Nothing was changed (dry run)."
	case len(parts) == 1:
		line += "  Nothing was changed."
	}
	_, _ = fmt.Fprintln(w, line)
}
