// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
)

const theSender = "the id of a cluster or an operator"

func newSenderCommand() *cobra.Command {
	return group("sender", "Who may send to an operator, and who does",
		newSenderConnectCommand(), newSenderWaitCommand(), newSenderListCommand(), newSenderGetCommand(),
		newSenderRevokeCommand(), newSenderRekeyCommand(), newSenderRestoreCommand())
}

// addOperatorFlag adds the --operator that most commands on senders need.
func addOperatorFlag(cmd *cobra.Command) {
	cmd.Flags().String("operator", "", "the operator it sends to")
	_ = cmd.MarkFlagRequired("operator")
}

func newSenderConnectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "connect ID",
		Short: "Let a cluster or an operator send to an operator, and print how it enrols",
		Long: `Let an approved cluster send to an operator, and print what makes it do so, each block
headed by where it belongs. For any collector that reads PEM files (--collector stock):

  1. on the sender's machine: ikhnos enroll fetches a certificate with a one-use token
  2. on the sender's machine, always: ikhnos renew --watch keeps it new
  3. in the sender's collector: the exporter, to be named in its pipelines

It may be repeated, which makes a new token and changes nothing else. The address that
the sender dials is --address, or the operator's own (ikhnos operator address).
Afterwards, ikhnos sender wait ends when data was accepted.`,
		Example: `  ikhnos cluster add c1 --approve
  ikhnos sender connect c1 --operator op-central --address 10.0.0.7:4317
  ikhnos sender wait c1 --operator op-central`,
		Args: exactArgs(theSender),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			address, err := senderAddress(cmd, client, args[0])
			if err != nil {
				return err
			}
			sender, err := client.ConnectSender(cmd.Context(), text(cmd, "operator"), args[0], address)
			if err != nil {
				return err
			}
			for _, warning := range sender.Warnings {
				warn(cmd, "%s", warning)
			}
			_, err = showConnection(cmd, client, sender)
			return err
		}),
	}
	addOperatorFlag(cmd)
	cmd.Flags().String("address", "", "HOST[:PORT] that it dials, when not the operator's own; kept when left out, forgotten when empty")
	addTTLFlag(cmd)
	addInstallFlags(cmd)
	return cmd
}

// senderAddress is --address or, without it, what the sender dials already: the
// server takes an address that is left out for none.
func senderAddress(cmd *cobra.Command, client *apiclient.Client, holderID string) (string, error) {
	if isSet(cmd, "address") {
		return text(cmd, "address"), nil
	}
	sender, err := client.Sender(cmd.Context(), text(cmd, "operator"), holderID)
	switch {
	case isReason(err, controlapi.ReasonNotFound):
		return "", nil // it is new
	case err != nil:
		return "", err
	}
	return sender.Address, nil
}

func newSenderRevokeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "Cut a sender off, and show when each instance of the operator did so",
		Args:  exactArgs(theSender),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			reason := operators.RevokeReason(text(cmd, "reason"))
			operatorID := text(cmd, "operator")
			if err := checkRelay(cmd, client, args[0]); err != nil {
				return err
			}
			before, _ := client.Sender(cmd.Context(), operatorID, args[0]) // only words depend on it
			receipt, err := client.RevokeSender(cmd.Context(), operatorID, args[0], reason, text(cmd, "note"), waitOf(cmd))
			if err != nil {
				return err
			}
			verb := "cut off"
			if reason == operators.RevokeHold {
				verb = "held"
			}
			name := identity.SenderName(operatorID, args[0])
			if before != nil && before.ReceiptID == receipt.ReceiptID { // a repetition answers the first receipt
				return showReceipt(cmd, receipt, name+" was already "+verb)
			}
			return showReceipt(cmd, receipt, verb+" "+name)
		}),
	}
	addOperatorFlag(cmd)
	addChoice(cmd, "reason", "why; a hold is lifted without a new certificate",
		string(operators.RevokeCompromised), string(operators.RevokeRetired), string(operators.RevokeHold))
	cmd.Flags().Bool("force", false, "although it is an operator through which others send")
	addRevokeFlags(cmd)
	return cmd
}

// checkRelay refuses, without --force, to cut an operator off through which others
// send: their data would be dropped with its own.
func checkRelay(cmd *cobra.Command, client *apiclient.Client, holderID string) error {
	if !strings.HasPrefix(holderID, "op-") || text(cmd, "force") == "true" {
		return nil
	}
	senders, err := client.OperatorSenders(cmd.Context(), holderID)
	if err != nil {
		return err
	}
	behind := 0
	for i := range senders {
		if senders[i].State == controlapi.SenderAllowed {
			behind++
		}
	}
	if behind == 0 {
		return nil
	}
	return &exitError{exitRefused, &explained{
		what: holderID + " is in use", reason: controlapi.ReasonInUse,
		why: "what " + count(behind, "sender") + " send through it would be dropped",
		do:  "move them first (ikhnos operator retire " + holderID + "), or repeat with --force",
	}}
}

func newSenderRekeyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rekey ID",
		Short: "Replace a sender's key without losing data",
		Args:  exactArgs(theSender),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			overlap, _ := cmd.Flags().GetDuration("overlap")
			fresh, err := client.RekeySender(cmd.Context(), text(cmd, "operator"), args[0], overlap)
			if err != nil {
				return err
			}
			what := fmt.Sprintf("the old certificates of %s live until the new one is used, at most %s", fresh.Name, span(overlap))
			return showSenderToken(cmd, client, args[0], fresh, what)
		}),
	}
	addOperatorFlag(cmd)
	cmd.Flags().Duration("overlap", time.Hour, "how long the old certificates may live on, at most")
	addInstallFlags(cmd)
	return cmd
}

func newSenderRestoreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore ID",
		Short: "Let a sender in again",
		Args:  exactArgs(theSender),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			fresh, err := client.RestoreSender(cmd.Context(), text(cmd, "operator"), args[0])
			if err != nil {
				return err
			}
			return showSenderToken(cmd, client, args[0], fresh, "restored "+fresh.Name)
		}),
	}
	addOperatorFlag(cmd)
	addInstallFlags(cmd)
	return cmd
}
