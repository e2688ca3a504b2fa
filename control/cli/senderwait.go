// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/internal/controlapi"
)

const (
	waitTimeout = 5 * time.Minute
	waitPoll    = time.Second
)

// newSenderWaitCommand ends when data of a sender was accepted: one line a step,
// exit code 4 when that takes longer than --timeout.
func newSenderWaitCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wait ID",
		Short: "Wait until data of a sender was accepted",
		Long: `Wait until data of a sender was accepted, with a line for each step on the way.
Operators report that about every 30 s. When a step does not come, look at the sender's
machine with ikhnos doctor, and here with ikhnos sender get.`,
		Example: "  ikhnos sender wait c1 --operator op-central --timeout 10m",
		Args:    exactArgs(theSender),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withClient(waitForSender)(cmd, args)
		},
	}
	addOperatorFlag(cmd)
	cmd.Flags().Duration("timeout", waitTimeout, "give up after this long, with exit code 4")
	return cmd
}

func waitForSender(cmd *cobra.Command, client *apiclient.Client, args []string) error {
	patience, _ := cmd.Flags().GetDuration("timeout") // of the command, not of a call
	client = client.Within(defaultTimeout)
	ticker, enough := time.NewTicker(environmentOf(cmd).pollEvery(waitPoll)), time.NewTimer(patience)
	defer ticker.Stop()
	defer enough.Stop()
	told := 0
	for {
		sender, err := client.Sender(cmd.Context(), text(cmd, "operator"), args[0])
		if err != nil {
			return err
		}
		if err := mayNotSend(sender); err != nil {
			return err
		}
		if told = tellSteps(cmd, sender, told); sender.LastAcceptedAt != nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-enough.C:
			return waitedTooLong(cmd, args[0])
		case <-cmd.Context().Done():
			return cmd.Context().Err()
		}
	}
}

// mayNotSend is the error of a sender that was cut off or is held: what it sent
// before is no sign that it gets through.
func mayNotSend(s *liveness.SenderStatus) error {
	what, reason := "cut off from ", controlapi.ReasonSenderRevoked
	switch s.State {
	case controlapi.SenderRevoked:
	case controlapi.SenderHeld:
		what, reason = "held at ", controlapi.ReasonSenderHeld
	default:
		return nil
	}
	return &exitError{exitRefused, &explained{
		what: s.HolderID + " is " + what + s.OperatorID, reason: reason,
		why: "nothing that it sends is accepted until it is let in again",
		do:  "ikhnos sender restore " + s.HolderID + " --operator " + s.OperatorID,
	}}
}

// tellSteps prints the steps that were reached since told of them, and returns
// how many there are now.
func tellSteps(cmd *cobra.Command, s *liveness.SenderStatus, told int) int {
	steps := []string{fmt.Sprintf("%s may send to %s", s.HolderID, s.OperatorID)}
	if s.NotAfter != nil {
		steps = append(steps, "it has a certificate, which ends "+date(*s.NotAfter))
	}
	if s.LastAcceptedAt != nil {
		steps = append(steps, "its data was accepted at "+date(*s.LastAcceptedAt))
	}
	for ; told < len(steps); told++ {
		_, _ = fmt.Fprintln(cmd.OutOrStdout(), steps[told])
	}
	return told
}

func waitedTooLong(cmd *cobra.Command, holderID string) error {
	return &exitError{exitNotConfirmed, &explained{
		what: "no data of " + holderID + " was accepted yet",
		why:  "the operator has not reported any within " + text(cmd, "timeout"),
		do:   "ikhnos sender get " + holderID + ", and the log of the sender's collector",
	}}
}
