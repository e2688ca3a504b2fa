// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/operators"
)

func newOrgCommand() *cobra.Command {
	return group("org", "Organisations, each with its own clusters, operators and admin tokens",
		newOrgCreateCommand(), newOrgListCommand())
}

func newOrgCreateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create ID",
		Short: "Make an organisation and its first admin token",
		Args:  exactArgs("the organisation's id"),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			org, err := client.CreateOrg(cmd.Context(), args[0], firstOf(text(cmd, "name"), args[0]))
			if err != nil {
				return err
			}
			return deliver(cmd, org, &org.AdminToken, "organisation "+org.ID+" made; its first admin token")
		}),
	}
	cmd.Flags().String("name", "", "name for people (default: the id)")
	addOutFlag(cmd)
	return cmd
}

func newOrgListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Organisations that the admin token may see",
		Args:  exactArgs(),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, _ []string) error {
			orgs, err := client.Orgs(cmd.Context())
			if err != nil {
				return err
			}
			return showList(cmd, orgs, "No organisation.", []string{"ID", "NAME"}, func(o operators.Org) []string {
				return []string{o.ID, o.Name}
			})
		}),
	}
}
