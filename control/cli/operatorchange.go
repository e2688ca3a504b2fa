// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/install"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/version"
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
		Long: `Make the secret with which an operator that exists already tells that it is alive, and
turn its heartbeat on. The one before stops working at once. The secret is shown once,
alone; with another --format it stands in commands that put it where the operator's
collector reads it, on their standard input.`,
		Example: `  ikhnos operator heartbeat op-eu --out heartbeat
  ikhnos operator heartbeat op-eu --format shell`,
		Args: exactArgs(theOperator),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			printed := text(cmd, "format") != secretAlone
			if printed && (text(cmd, "out") != "" || text(cmd, "output") != formatTable) {
				return usageError("--out and -o are for --format %s; commands go to --out-dir", secretAlone)
			}
			minted, err := client.MintHeartbeat(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if printed {
				return showHeartbeat(cmd, client, args[0], minted.Secret)
			}
			return deliver(cmd, minted, &minted.Secret, "heartbeat secret of "+args[0])
		}),
	}
	formats := []string{secretAlone}
	for _, f := range install.HeartbeatFormats() {
		formats = append(formats, string(f))
	}
	addChoice(cmd, "format", "the secret alone, or commands for where the operator runs", formats...)
	addOutFlag(cmd)
	addOutDirFlag(cmd)
	return cmd
}

// secretAlone is the format that prints no commands.
const secretAlone = "secret"

// showHeartbeat prints how an operator that runs gets its new heartbeat secret
// (HB-16).
func showHeartbeat(cmd *cobra.Command, client *apiclient.Client, id, secret string) error {
	o, err := client.Operator(cmd.Context(), id)
	if err != nil {
		return err
	}
	facts := install.Operator{
		Server: serverOf(client), Charts: install.Charts{Version: version.Version}, Operator: o, Heartbeat: install.Secret{Value: secret},
	}
	return showBlocks(cmd, "heartbeat of "+id+"; a secret that it had before is dead", facts.HeartbeatBlocks(install.Format(text(cmd, "format"))))
}

func newOperatorInstallCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "install ID",
		Short: "Print again how an operator's collector enrols, with a new token",
		Args:  exactArgs(theOperator),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			if err := checkKeys(cmd); err != nil {
				return err
			}
			o, err := client.Operator(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return showInstall(cmd, client, o)
		}),
	}
	addOperatorInstallFlags(cmd)
	addKeysFlag(cmd)
	return cmd
}

func newOperatorRevokeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "End an operator for good: everyone is denied, its CA key is erased",
		Long: `End an operator for good: everyone is denied and its CA key is erased, which nothing
brings back. ikhnos operator retire shows how one leaves in order.` + confirmHelp,
		Args: exactArgs(theOperator),
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
		Long: `Revoke an operator, which is for good, and take it off the list; its id is never used
again.` + confirmHelp,
		Args: exactArgs(theOperator),
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
