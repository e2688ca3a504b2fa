// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
)

// newClient is apiclient.New with errors that name where the value at fault came
// from.
func newClient(cmd *cobra.Command, cfg apiclient.Config) (*apiclient.Client, error) {
	if cfg.Token != "" {
		if _, _, err := controlapi.ParseSecret(controlapi.SecretAdmin, cfg.Token); err != nil {
			return nil, &exitError{exitUsage, &explained{
				what: "this is no admin token: " + sourceOf(cmd, "token-file", "IKHNOS_TOKEN"), why: err.Error(),
				do: "give it as it was shown, one word that begins with ikadm_, or: ikhnos login", err: err,
			}}
		}
	}
	if _, err := controlclient.PinnedTransport(cfg.CAPins, nil); err != nil {
		return nil, &exitError{exitUsage, &explained{
			what: "this is no CA pin: " + sourceOf(cmd, "ca-pin", "IKHNOS_CA_PIN"), why: "a pin is sha256: and 64 hexadecimal digits",
			do: "give the one that the server logged at its start, or: ikhnos login", err: err,
		}}
	}
	client, err := apiclient.New(cfg)
	if err != nil {
		return nil, &exitError{exitUsage, &explained{
			what: "this is no address of a control server: " + sourceOf(cmd, "server", "IKHNOS_SERVER"), why: err.Error(),
			do: "give the --public-url that the server was started with", err: err,
		}}
	}
	return client, nil
}

// sourceOf names where a setting came from: its flag, its variable or, with neither,
// the saved context, which login does not read.
func sourceOf(cmd *cobra.Command, flag, variable string) string {
	switch {
	case isSet(cmd, flag):
		return "--" + flag
	case environmentOf(cmd).vars[variable] != "":
		return variable
	case cmd.Name() == "login":
		return "what was typed"
	default:
		return "the saved context"
	}
}
