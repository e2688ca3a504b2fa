// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

const (
	collectorStock     = "stock"
	collectorContinuum = "continuum"
)

// Forms of printed commands: a collector as a plain process on any machine, or what
// the server prints for Kubernetes.
const (
	installProcess = "process"
	installShell   = "shell"
)

// addInstallFlags adds the flags of the commands that print how a sender's
// collector enrols.
func addInstallFlags(cmd *cobra.Command) {
	addChoice(cmd, "format", "form of the printed commands, for a shell on any machine", installShell)
	addChoice(cmd, "collector", "what the sender runs", collectorStock, collectorContinuum)
	addOutDirFlag(cmd)
}

// addOperatorInstallFlags adds the flags of the commands that print how an
// operator's collector is installed.
func addOperatorInstallFlags(cmd *cobra.Command) {
	addChoice(cmd, "format", "form of the printed commands, a collector as a plain process on any machine (process) or "+
		"kubectl and helm with a chart that comes in a later release (shell)", installProcess, installShell)
	addOutDirFlag(cmd)
}

func addOutDirFlag(cmd *cobra.Command) {
	cmd.Flags().String("out-dir", "", "write the commands to files in this directory, mode 0600, and do not print them")
}

func addTTLFlag(cmd *cobra.Command) {
	cmd.Flags().Duration("ttl", time.Hour, "how long the one-use token works, at most 168h")
}

// showConnection mints a token for a connected sender and prints how it enrols.
// With -o json it prints the API's document and mints nothing.
func showConnection(cmd *cobra.Command, client *apiclient.Client, s *operators.Sender) error {
	if text(cmd, "output") != formatTable {
		return show(cmd, s, nil)
	}
	to, err := senderLink(cmd, client, s)
	if err != nil {
		return err
	}
	ttl, _ := cmd.Flags().GetDuration("ttl")
	token, err := client.CreateToken(cmd.Context(), s.OperatorID, controlapi.RoleSender, s.HolderID, ttl)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("connected %s: it may send to %s; the token works once, until %s", s.Name, s.OperatorID, date(token.ExpiresAt))
	return showBlocks(cmd, what, senderBlocks(cmd, client, to, token.Token))
}

// showSenderToken prints how a sender enrols again with the token of a restore or
// a rekey; a lifted hold has none and needs none.
func showSenderToken(cmd *cobra.Command, client *apiclient.Client, holderID string, fresh *operators.SenderToken, what string) error {
	if text(cmd, "output") != formatTable {
		return show(cmd, fresh, nil)
	}
	if fresh.Token == "" {
		return said(cmd, what+": its certificate works again")
	}
	sender, err := client.Sender(cmd.Context(), text(cmd, "operator"), holderID)
	if err != nil {
		return err
	}
	to, err := senderLink(cmd, client, &sender.Sender)
	if err != nil {
		return err
	}
	return showBlocks(cmd, what+"; the token works once", senderBlocks(cmd, client, to, fresh.Token))
}

func senderBlocks(cmd *cobra.Command, client *apiclient.Client, to link, token string) []block {
	t := target{server: client.Server(), pins: client.CAPins()}
	if text(cmd, "collector") == collectorContinuum {
		return continuumSenderBlocks(t, to, token)
	}
	return stockSenderBlocks(t, to, token)
}

// senderLink is where a sender dials: its own address or else its operator's.
func senderLink(cmd *cobra.Command, client *apiclient.Client, s *operators.Sender) (link, error) {
	if s.Address != "" {
		return link{s.HolderID, s.OperatorID, s.Address}, nil
	}
	o, err := client.Operator(cmd.Context(), s.OperatorID)
	if err != nil {
		return link{}, err
	}
	return operatorLink(cmd, s.HolderID, o), nil
}

// operatorLink is the way of holderID to the operator's own address. While none is
// recorded (AD-19), or can be because it is one of loopback (AD-15), it says what
// to do.
func operatorLink(cmd *cobra.Command, holderID string, o *operators.Operator) link {
	to := link{holderID, o.ID, operatorAddress(o)}
	if o.Address == "" {
		advice := "record one"
		if cmd.Flag("address") != nil {
			advice = "give --address or record one"
		}
		warn(cmd, "%s has no address, so it is only reachable inside its own cluster as %s; %s: ikhnos operator address %s HOST:PORT; "+
			"on one machine, edit the endpoint to 127.0.0.1:PORT", o.ID, to.address, advice, o.ID)
	}
	return to
}

// showInstall mints what an operator's collector needs and prints how it is
// installed.
func showInstall(cmd *cobra.Command, client *apiclient.Client, o *operators.Operator) error {
	if text(cmd, "format") == installProcess {
		return showProcess(cmd, client, o)
	}
	install, err := client.Install(cmd.Context(), o.ID, text(cmd, "format"))
	if err != nil {
		return err
	}
	if text(cmd, "output") != formatTable {
		return show(cmd, install, nil)
	}
	for _, warning := range install.Warnings {
		warn(cmd, "%s", warning)
	}
	blocks := make([]block, len(install.Blocks))
	for i, b := range install.Blocks {
		blocks[i] = block{fmt.Sprintf("%d.sh", i+1), b.Where + ": " + b.Title, b.Text}
	}
	return showBlocks(cmd, installed(o, install.ExpiresAt), blocks)
}

func installed(o *operators.Operator, tokensEnd time.Time) string {
	return fmt.Sprintf("%s operator %s; its tokens work once, until %s", o.Role, o.ID, date(tokensEnd))
}

// showProcess mints what an operator's collector needs and prints how it runs on
// any machine. With -o json it prints the API's document and mints nothing.
func showProcess(cmd *cobra.Command, client *apiclient.Client, o *operators.Operator) error {
	if text(cmd, "output") != formatTable {
		return show(cmd, o, nil)
	}
	ctx := cmd.Context()
	receiver, err := client.CreateToken(ctx, o.ID, controlapi.RoleReceiver, "", 0)
	if err != nil {
		return err
	}
	secrets := operatorSecrets{receiver: receiver.Token}
	var destination *link
	if o.Destination != nil && o.Destination.Kind == operators.DestinationOperator {
		if destination, secrets.export, err = connectDestination(cmd, client, o); err != nil {
			return err
		}
	}
	if o.Heartbeat == operators.SwitchOn {
		minted, err := client.MintHeartbeat(ctx, o.ID)
		if err != nil {
			return err
		}
		secrets.heartbeat = minted.Secret
	}
	t := target{server: client.Server(), pins: client.CAPins()}
	return showBlocks(cmd, installed(o, receiver.ExpiresAt), operatorBlocks(t, o, destination, secrets))
}

// connectDestination returns the way to an operator's central operator and a
// token for its certificate there.
func connectDestination(cmd *cobra.Command, client *apiclient.Client, o *operators.Operator) (*link, string, error) {
	central, err := client.Operator(cmd.Context(), o.Destination.OperatorID)
	if err != nil {
		return nil, "", err
	}
	token, err := client.CreateToken(cmd.Context(), central.ID, controlapi.RoleSender, o.ID, 0)
	if err != nil {
		return nil, "", err
	}
	to := operatorLink(cmd, o.ID, central)
	return &to, token.Token, nil
}

// showBlocks prints what was done and the blocks, or writes them to --out-dir.
func showBlocks(cmd *cobra.Command, what string, blocks []block) error {
	w := cmd.OutOrStdout()
	_, _ = fmt.Fprintln(w, plain(what))
	dir := text(cmd, "out-dir")
	if dir == "" {
		for _, b := range blocks {
			writeBlock(w, b)
		}
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the directory of the commands: %w", err)
	}
	for _, b := range blocks {
		path := filepath.Join(dir, b.File)
		if err := writeSecretFile(path, []byte("# "+b.Title+"\n"+b.Text)); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(w, "  %s: %s\n", path, b.Title)
	}
	return nil
}

func writeBlock(w io.Writer, b block) {
	_, _ = fmt.Fprintf(w, "\n# %s\n%s", b.Title, b.Text)
}
