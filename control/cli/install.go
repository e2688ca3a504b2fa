// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/install"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/version"
)

// formats are the forms of printed commands, the default first: a collector as a
// plain process on any machine, then what the API prints, too.
func formats() []string {
	words := []string{string(install.Process)}
	for _, f := range install.Formats() {
		words = append(words, string(f))
	}
	return words
}

// addInstallFlags adds the flags of the commands that print how a sender's
// collector enrols.
func addInstallFlags(cmd *cobra.Command) {
	addOperatorInstallFlags(cmd)
	addChoice(cmd, "collector", "what the sender runs, with --format process, systemd or config", string(install.Stock), string(install.Continuum))
}

// addOperatorInstallFlags adds the flags of every command that prints an installation.
func addOperatorInstallFlags(cmd *cobra.Command) {
	addChoice(cmd, "format", "form of the printed commands; shell, helm-values, argocd and flux are for a chart that comes in a later release",
		formats()...)
	addOutDirFlag(cmd)
}

func addOutDirFlag(cmd *cobra.Command) {
	cmd.Flags().String("out-dir", "", "write the commands to files in this directory, mode 0600, and do not print them")
}

// addKeysFlag adds --with-keys.
func addKeysFlag(cmd *cobra.Command) {
	cmd.Flags().Bool("with-keys", false, "for a cluster that cannot reach the server: print certificates with their keys in the place of tokens")
}

// checkKeys refuses --with-keys where no keys can be printed, before anything is made.
func checkKeys(cmd *cobra.Command) error {
	if text(cmd, "with-keys") == "true" && !slices.Contains(install.KeyFormats(), install.Format(text(cmd, "format"))) {
		return usageError("--with-keys needs a --format of %v; for a machine, fill a folder with ikhnos enroll --dir on one that reaches the server, and carry it over",
			install.KeyFormats())
	}
	return nil
}

// keysOf is where the keys of what is printed come from, empty for tokens.
func keysOf(cmd *cobra.Command) operators.KeySource {
	if text(cmd, "with-keys") == "true" {
		return operators.KeysPrinted
	}
	return ""
}

func addTTLFlag(cmd *cobra.Command) {
	cmd.Flags().Duration("ttl", time.Hour, "how long the one-use token works, at most 168h")
}

// showConnection mints a token for a connected sender, prints how it enrols, and
// returns the id of the token. With -o json it prints the API's document and mints
// nothing.
func showConnection(cmd *cobra.Command, client *apiclient.Client, s *operators.Sender) (tokenID string, err error) {
	if text(cmd, "output") != formatTable {
		return "", show(cmd, s, nil)
	}
	to, err := senderLink(cmd, client, s)
	if err != nil {
		return "", err
	}
	ttl, _ := cmd.Flags().GetDuration("ttl")
	token, err := client.CreateToken(cmd.Context(), s.OperatorID, controlapi.RoleSender, s.HolderID, ttl)
	if err != nil {
		return "", err
	}
	what := fmt.Sprintf("connected %s: it may send to %s; the token works once, until %s", s.Name, s.OperatorID, date(token.ExpiresAt))
	return token.TokenID, showBlocks(cmd, what, senderBlocks(cmd, client, s.HolderID, to, install.Secret{Value: token.Token, EndsAt: token.ExpiresAt}))
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
	return showBlocks(cmd, what+"; the token works once", senderBlocks(cmd, client, holderID, to, install.Secret{Value: fresh.Token}))
}

func senderBlocks(cmd *cobra.Command, client *apiclient.Client, holderID string, to install.Link, token install.Secret) []install.Block {
	facts := install.Sender{
		Server: serverOf(client), Charts: install.Charts{Version: version.Version}, HolderID: holderID, Link: to, Token: token,
		Collector: install.Collector(text(cmd, "collector")),
	}
	return facts.Blocks(install.Format(text(cmd, "format")))
}

// serverOf is the server as this machine dials it, for machines elsewhere.
func serverOf(client *apiclient.Client) install.Server {
	return install.Server{URL: client.Server(), Pins: client.CAPins()}
}

// senderLink is where a sender dials: its own address or else its operator's.
func senderLink(cmd *cobra.Command, client *apiclient.Client, s *operators.Sender) (install.Link, error) {
	if s.Address != "" {
		return install.Link{OperatorID: s.OperatorID, Address: s.Address}, nil
	}
	o, err := client.Operator(cmd.Context(), s.OperatorID)
	if err != nil {
		return install.Link{}, err
	}
	return operatorLink(cmd, o), nil
}

// operatorLink is the way to an operator's own address. While none is recorded
// (AD-19), or can be because it is one of loopback (AD-15), it says what to do.
func operatorLink(cmd *cobra.Command, o *operators.Operator) install.Link {
	to := install.To(o)
	if o.Address == "" {
		advice := "record one"
		if cmd.Flag("address") != nil {
			advice = "give --address or record one"
		}
		warn(cmd, "%s has no address, so it is only reachable inside its own cluster as %s; %s: ikhnos operator address %s HOST:PORT; "+
			"on one machine, edit the endpoint to 127.0.0.1:PORT", o.ID, to.Address, advice, o.ID)
	}
	return to
}

// showInstall mints what an operator's collector needs and prints how it is
// installed.
func showInstall(cmd *cobra.Command, client *apiclient.Client, o *operators.Operator) error {
	if text(cmd, "format") == string(install.Process) {
		return showProcess(cmd, client, o)
	}
	printed, err := client.Install(cmd.Context(), o.ID, text(cmd, "format"), keysOf(cmd))
	if err != nil {
		return err
	}
	if text(cmd, "output") != formatTable {
		return show(cmd, printed, nil)
	}
	for _, warning := range printed.Warnings {
		warn(cmd, "%s", warning)
	}
	what := installed(o, printed.ExpiresAt)
	if keysOf(cmd) == operators.KeysPrinted {
		what = fmt.Sprintf("%s operator %s, with its keys; its certificates are good until %s", o.Role, o.ID, date(printed.ExpiresAt))
	}
	return showBlocks(cmd, what, printed.Blocks)
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
	facts := install.Operator{
		Server: serverOf(client), Charts: install.Charts{Version: version.Version}, Operator: o,
		Receiver: install.Secret{Value: receiver.Token, EndsAt: receiver.ExpiresAt},
	}
	if o.Destination != nil && o.Destination.Kind == operators.DestinationOperator {
		if err := connectDestination(cmd, client, &facts); err != nil {
			return err
		}
	}
	if o.Heartbeat == operators.SwitchOn {
		minted, err := client.MintHeartbeat(ctx, o.ID)
		if err != nil {
			return err
		}
		facts.Heartbeat = install.Secret{Value: minted.Secret}
		if o.Health != nil && o.Health.Reporting {
			warn(cmd, "the heartbeat secret that %s had is dead: its beats are refused until the new one is in its place", o.ID)
		}
	}
	return showBlocks(cmd, installed(o, receiver.ExpiresAt), facts.Blocks(install.Process))
}

// connectDestination adds the way to an operator's central operator and a token for
// its certificate there.
func connectDestination(cmd *cobra.Command, client *apiclient.Client, facts *install.Operator) error {
	id := facts.Operator.ID
	central, err := client.Operator(cmd.Context(), facts.Operator.Destination.OperatorID)
	if err != nil {
		return err
	}
	token, err := client.CreateToken(cmd.Context(), central.ID, controlapi.RoleSender, id, 0)
	if err != nil {
		return err
	}
	to := operatorLink(cmd, central)
	facts.Destination, facts.Export = &to, install.Secret{Value: token.Token, EndsAt: token.ExpiresAt}
	return nil
}

// showBlocks prints what was done and the blocks, or writes them to --out-dir.
func showBlocks(cmd *cobra.Command, what string, blocks []install.Block) error {
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
	for i, b := range blocks {
		// Numbered in the order of use. The server names the file, so only its last element counts.
		path := filepath.Join(dir, fmt.Sprintf("%02d-%s", i+1, filepath.Base(b.File)))
		if err := writeSecretFile(path, []byte(heading(b)+b.Text)); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(w, "  %s: %s\n", path, plain(b.Where+": "+b.Title))
	}
	return nil
}

func writeBlock(w io.Writer, b install.Block) {
	_, _ = fmt.Fprintf(w, "\n%s%s", heading(b), b.Text)
}

func heading(b install.Block) string { return "# " + plain(b.Where+": "+b.Title) + "\n" }
