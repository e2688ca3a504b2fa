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
		Long: `Wait until data of a sender was accepted, with a line for each step on the way. What
was accepted before it got its present certificate, or before a hold that was lifted,
does not count. Operators report about every 30 s. When a step does not come, look at the sender's
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
	told, before := 0, (*arrival)(nil)
	for {
		sender, err := client.Sender(cmd.Context(), text(cmd, "operator"), args[0])
		if err != nil {
			return err
		}
		if err := mayNotSend(sender); err != nil {
			return err
		}
		if before == nil {
			if before, err = lookFirst(cmd, client, sender); err != nil {
				return err
			}
		}
		arrived := before.isOver(sender)
		if told = tellSteps(cmd, sender, told, arrived); arrived {
			return nil
		}
		select {
		case <-ticker.C:
		case <-enough.C:
			return waitedTooLong(cmd, sender)
		case <-cmd.Context().Done():
			return cmd.Context().Err()
		}
	}
}

// arrival is how a sender stood at the first look: what had been accepted, and when
// it was last cut off or held. Times are of the operator and of the server.
type arrival struct {
	acceptedAt time.Time
	cutOffAt   time.Time
}

func lookFirst(cmd *cobra.Command, client *apiclient.Client, s *liveness.SenderStatus) (*arrival, error) {
	a := &arrival{}
	if s.LastAcceptedAt != nil {
		a.acceptedAt = *s.LastAcceptedAt
	}
	if s.ReceiptID != "" {
		receipt, err := client.Receipt(cmd.Context(), s.ReceiptID)
		if err != nil {
			return nil, err
		}
		a.cutOffAt = receipt.CommittedAt
	}
	return a, nil
}

// isOver reports whether data got through since the first look or, at any time, with
// the present certificate. The latter says nothing of a certificate that has been on
// hold since it was issued.
func (a *arrival) isOver(s *liveness.SenderStatus) bool {
	at := s.LastAcceptedAt
	if at == nil {
		return false
	}
	withThisOne := s.IssuedAt != nil && !at.Before(*s.IssuedAt) && !a.cutOffAt.After(*s.IssuedAt)
	return withThisOne || at.After(a.acceptedAt)
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
func tellSteps(cmd *cobra.Command, s *liveness.SenderStatus, told int, arrived bool) int {
	steps := []string{fmt.Sprintf("%s may send to %s", s.HolderID, s.OperatorID)}
	if s.NotAfter != nil {
		steps = append(steps, "it has a certificate, which ends "+date(*s.NotAfter))
	}
	if arrived {
		steps = append(steps, "its data was accepted at "+date(*s.LastAcceptedAt))
	}
	for ; told < len(steps); told++ {
		_, _ = fmt.Fprintln(cmd.OutOrStdout(), steps[told])
	}
	return told
}

func waitedTooLong(cmd *cobra.Command, s *liveness.SenderStatus) error {
	why := "the operator has not reported any within " + text(cmd, "timeout")
	if s.LastAcceptedAt != nil {
		why += "; what was accepted at " + date(*s.LastAcceptedAt) + " came before it was let in as it is now"
	}
	return &exitError{exitNotConfirmed, &explained{
		what: "no data of " + s.HolderID + " was accepted yet",
		why:  why,
		do:   "ikhnos sender get " + s.HolderID + " --operator " + s.OperatorID + ", and the log of the sender's collector",
	}}
}
