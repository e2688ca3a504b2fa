// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
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
		Args:  exactArgs(theSender),
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
			return showConnection(cmd, client, sender)
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
			receipt, err := client.RevokeSender(cmd.Context(), operatorID, args[0], reason, text(cmd, "note"), waitOf(cmd))
			if err != nil {
				return err
			}
			verb := "cut off "
			if reason == operators.RevokeHold {
				verb = "held "
			}
			return showReceipt(cmd, receipt, verb+identity.SenderName(operatorID, args[0]))
		}),
	}
	addOperatorFlag(cmd)
	addChoice(cmd, "reason", "why; a hold is lifted without a new certificate",
		string(operators.RevokeCompromised), string(operators.RevokeRetired), string(operators.RevokeHold))
	addRevokeFlags(cmd)
	return cmd
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
