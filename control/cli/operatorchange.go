// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/operators"
)

func newOperatorAddressCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "address ID HOST[:PORT]",
		Short: "Record where senders elsewhere dial an operator (port 4317 when left out)",
		Long: `Record where senders elsewhere dial an operator: a name or an IP address, of a load
balancer, a node or a proxy that passes TLS through. Commands that are printed from now
on dial it there; the certificate stays as it is, because senders verify the operator's
stable name and not its address. Senders that are configured keep the old address until
their commands run again. The server itself never dials it.`,
		Example: "  ikhnos operator address op-central central.example.com:4317",
		Args:    exactArgs(theOperator, "HOST[:PORT]"),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			o, err := client.SetAddress(cmd.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			return show(cmd, o, func(w io.Writer) {
				_, _ = fmt.Fprintf(w, "senders dial %s at %s\n", o.ID, operatorAddress(o))
				progress(cmd, "senders that are configured keep the old address until their commands run again")
			})
		}),
	}
}

func newOperatorHeartbeatCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "heartbeat ID",
		Short: "Make a heartbeat secret; the one before stops working",
		Args:  exactArgs(theOperator),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			minted, err := client.MintHeartbeat(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return deliver(cmd, minted, &minted.Secret, "heartbeat secret of "+args[0])
		}),
	}
	addOutFlag(cmd)
	return cmd
}

func newOperatorInstallCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "install ID",
		Short: "Print again how an operator's collector enrols, with a new token",
		Args:  exactArgs(theOperator),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			o, err := client.Operator(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return showInstall(cmd, client, o)
		}),
	}
	addOperatorInstallFlags(cmd)
	return cmd
}

func newOperatorRevokeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "End an operator for good: everyone is denied, its CA key is erased",
		Args:  exactArgs(theOperator),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			consequence := "This ends " + args[0] + " for good: all its senders are denied and its CA key is erased."
			if err := confirm(cmd, args[0], consequence); err != nil {
				return err
			}
			force := text(cmd, "force") == "true"
			removal, err := client.RevokeOperator(cmd.Context(), args[0], text(cmd, "note"), force, waitOf(cmd))
			if err != nil {
				return err
			}
			return showRemoval(cmd, removal, "revoked "+args[0])
		}),
	}
	addRevokeFlags(cmd)
	addRemovalFlags(cmd)
	return cmd
}

func newOperatorDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete ID",
		Short: "Revoke an operator and take it off the list; its id is never used again",
		Args:  exactArgs(theOperator),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			if err := confirm(cmd, args[0], "This ends "+args[0]+" for good and deletes it."); err != nil {
				return err
			}
			removal, err := client.DeleteOperator(cmd.Context(), args[0], text(cmd, "force") == "true", waitOf(cmd))
			if err != nil {
				return err
			}
			return showRemoval(cmd, removal, "deleted "+args[0])
		}),
	}
	addWaitFlag(cmd)
	addRemovalFlags(cmd)
	return cmd
}

func addRemovalFlags(cmd *cobra.Command) {
	addConfirmFlags(cmd)
	cmd.Flags().Bool("force", false, "although something still depends on it")
}

// showRemoval prints what became of an operator; the exit code says whether all
// have confirmed.
func showRemoval(cmd *cobra.Command, r *operators.Removal, what string) error {
	err := show(cmd, r, func(w io.Writer) {
		if r.ReceiptID != "" {
			writeReceipt(w, &r.Receipt, what)
		} else {
			_, _ = fmt.Fprintln(w, what)
		}
		if r.Uninstall != "" {
			_, _ = fmt.Fprintf(w, "\n# where the receiver runs: take it off the cluster\n%s\n", r.Uninstall)
		}
	})
	if err != nil || r.ReceiptID == "" {
		return err
	}
	return confirmedCode(&r.Receipt)
}
