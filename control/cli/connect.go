// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// settings resolves which server a command talks to and as whom: a flag, then
// the environment, then the saved context. Token and pins of a saved context go
// to the server of that context and to no other.
func settings(cmd *cobra.Command) (apiclient.Config, error) {
	env := environmentOf(cmd)
	saved, err := savedFor(cmd, env)
	if err != nil {
		return apiclient.Config{}, err
	}
	cfg, err := givenSettings(cmd, env)
	if err != nil {
		return cfg, err
	}
	if cfg.Server == "" {
		cfg.Server = saved.Server
	}
	if saved.Server != "" && sameServer(cfg.Server, saved.Server) {
		cfg.Token = firstOf(cfg.Token, saved.Token)
		cfg.Org = firstOf(cfg.Org, saved.Org)
		if len(cfg.CAPins) == 0 {
			cfg.CAPins = saved.CAPins
		}
	}
	return cfg, nil
}

// givenSettings are those of flags and environment.
func givenSettings(cmd *cobra.Command, env *environment) (cfg apiclient.Config, err error) {
	cfg.Server = firstOf(text(cmd, "server"), env.vars["IKHNOS_SERVER"])
	cfg.Org = firstOf(text(cmd, "org"), env.vars["IKHNOS_ORG"])
	cfg.CAPins, _ = cmd.Flags().GetStringSlice("ca-pin")
	if pins := env.vars["IKHNOS_CA_PIN"]; len(cfg.CAPins) == 0 && pins != "" {
		cfg.CAPins = strings.FieldsFunc(pins, func(r rune) bool { return r == ',' || r == ' ' })
	}
	cfg.Timeout, _ = cmd.Flags().GetDuration("timeout")
	cfg.Token, err = adminToken(cmd, env)
	return cfg, err
}

func savedFor(cmd *cobra.Command, env *environment) (*savedContext, error) {
	file, err := env.loadContexts()
	if err != nil {
		return nil, err
	}
	name := firstOf(text(cmd, "context"), file.Current)
	if name == "" {
		return &savedContext{}, nil
	}
	if saved := file.find(name); saved != nil {
		return saved, nil
	}
	return nil, usageError("there is no context %q; see ikhnos context list", name)
}

// adminToken reads the token of --token-file or IKHNOS_TOKEN, "" without either.
func adminToken(cmd *cobra.Command, env *environment) (string, error) {
	path := text(cmd, "token-file")
	if path == "" {
		return strings.TrimSpace(env.vars["IKHNOS_TOKEN"]), nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the admin token: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}

// connect returns a client for the server that the command line means.
func connect(cmd *cobra.Command) (*apiclient.Client, error) {
	cfg, err := settings(cmd)
	if err != nil {
		return nil, err
	}
	if cfg.Server == "" {
		return nil, &exitError{exitUsage, &explained{
			what: "no control server is given",
			why:  "neither --server, IKHNOS_SERVER nor a saved context names one",
			do:   "ikhnos login --server https://HOST:8443",
		}}
	}
	if cfg.Token == "" {
		return nil, &exitError{exitUsage, &explained{
			what: "no admin token for " + cfg.Server,
			why:  "neither --token-file, IKHNOS_TOKEN nor a saved context of this server has one",
			do:   "ikhnos login --server " + cfg.Server,
		}}
	}
	return newClient(cmd, cfg)
}

// withClient is the RunE of a command that calls the server.
func withClient(run func(cmd *cobra.Command, client *apiclient.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		client, err := connect(cmd)
		if err != nil {
			return err
		}
		defer client.CloseIdleConnections()
		return fromServer(cmd, run(cmd, client, args))
	}
}

// isReason reports whether the server refused for exactly this reason.
func isReason(err error, reason controlapi.Reason) bool {
	var problem *controlapi.Problem
	return errors.As(err, &problem) && problem.Reason == reason
}

func sameServer(a, b string) bool {
	return strings.EqualFold(strings.TrimRight(a, "/"), strings.TrimRight(b, "/"))
}

func firstOf(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return ""
}
