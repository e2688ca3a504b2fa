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
			return nil, usageError("reading the admin token: %s: %w", sourceOf(cmd, "token-file", "IKHNOS_TOKEN"), err)
		}
	}
	if _, err := controlclient.PinnedTransport(cfg.CAPins, nil); err != nil {
		return nil, usageError("preparing the CA pins: %s: %w", sourceOf(cmd, "ca-pin", "IKHNOS_CA_PIN"), err)
	}
	client, err := apiclient.New(cfg)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	return client, nil
}

// sourceOf names where a setting came from: its flag, its variable or, with neither,
// the saved context.
func sourceOf(cmd *cobra.Command, flag, variable string) string {
	switch {
	case isSet(cmd, flag):
		return "--" + flag
	case environmentOf(cmd).vars[variable] != "":
		return variable
	default:
		return "the saved context"
	}
}
