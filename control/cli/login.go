// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/internal/controlapi"
)

func newLoginCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "login",
		Short: "Store a control server, its pin and an admin token on this machine",
		Long: `Store a control server, its pin and an admin token, mode 0600, in the user's
configuration directory. The token comes from --token-file, IKHNOS_TOKEN, or is
typed unseen. When the server's certificate is not from a CA that this machine
trusts, its pin is shown to be compared with the line "pin sha256:…" that the
server logged at its start.`,
		Example: "  ikhnos login --server https://ikhnos.example.com:8443",
		Args:    exactArgs(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return fromServer(cmd, login(cmd)) },
	}
	cmd.Flags().String("name", "", "name of the saved context (default: the server's host)")
	return cmd
}

func login(cmd *cobra.Command) error {
	env := environmentOf(cmd)
	cfg, err := loginSettings(cmd, env)
	if err != nil {
		return err
	}
	server, err := url.Parse(cfg.Server)
	if err != nil || server.Scheme != "https" || server.Hostname() == "" {
		return usageError("the server's address must be https://HOST[:PORT]")
	}
	if len(cfg.CAPins) == 0 {
		if cfg.CAPins, err = askForPin(cmd, server); err != nil {
			return err
		}
	}
	if cfg.Token == "" {
		if cfg.Token, err = askForToken(cmd, env); err != nil {
			return err
		}
	}
	client, err := newClient(cmd, cfg)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	if _, err := client.Clusters(cmd.Context()); err != nil {
		return err
	}
	file, err := env.loadContexts()
	if err != nil {
		return err
	}
	saved := savedContext{
		Name: firstOf(text(cmd, "name"), server.Hostname()), Server: client.Server(),
		CAPins: cfg.CAPins, Org: client.Org(), Token: cfg.Token,
	}
	file.put(saved)
	if err := env.saveContexts(file); err != nil {
		return err
	}
	return said(cmd, fmt.Sprintf("logged in to %s as context %s, organisation %s", saved.Server, saved.Name, saved.Org))
}

// loginSettings are flags and environment alone: a saved context must not lend
// its token or its trust to a new login.
func loginSettings(cmd *cobra.Command, env *environment) (apiclient.Config, error) {
	cfg, err := givenSettings(cmd, env)
	if err != nil {
		return cfg, err
	}
	if cfg.Server == "" {
		return cfg, usageError("%s needs --server https://HOST[:PORT] or IKHNOS_SERVER", cmd.CommandPath())
	}
	return cfg, nil
}

// askForToken reads the admin token, unseen from a terminal, else the first line
// of standard input.
func askForToken(cmd *cobra.Command, env *environment) (secret string, err error) {
	if env.readSecret == nil {
		secret, err = readLine(cmd)
	} else {
		_, _ = fmt.Fprint(cmd.ErrOrStderr(), "Admin token (ikhnos admin-token show-initial prints the first one): ")
		secret, err = env.readSecret()
		_, _ = fmt.Fprintln(cmd.ErrOrStderr())
	}
	if errors.Is(err, io.EOF) {
		return "", usageError("no admin token: use --token-file, IKHNOS_TOKEN or standard input")
	}
	if err != nil {
		return "", err
	}
	canonical, _, err := controlapi.ParseSecret(controlapi.SecretAdmin, secret)
	if err != nil {
		return "", &exitError{exitUsage, fmt.Errorf("reading the admin token: %w", err)}
	}
	return canonical, nil
}
