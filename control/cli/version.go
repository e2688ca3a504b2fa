// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/internal/version"
)

// versions are of this program and, when asked for, of the server and of what its
// operators report.
type versions struct {
	Client string         `json:"client"`
	Server string         `json:"server,omitempty"`
	Fleet  []fleetVersion `json:"fleet,omitempty"`
}

// fleetVersion is the version of a collector and who runs it.
type fleetVersion struct {
	Version   string   `json:"version"`
	Operators []string `json:"operators"`
}

func newVersionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Version of this program; with --check of the server and the fleet too",
		Args:  exactArgs(),
		RunE: func(cmd *cobra.Command, args []string) error {
			found := versions{Client: version.Version}
			if text(cmd, "check") != "true" {
				return showVersions(cmd, found)
			}
			return withClient(func(cmd *cobra.Command, client *apiclient.Client, _ []string) error {
				return checkVersions(cmd, client, found)
			})(cmd, args)
		},
	}
	cmd.Flags().Bool("check", false, "ask the server for its version and those of its operators' collectors; exit code 10 when one differs")
	return cmd
}

func checkVersions(cmd *cobra.Command, client *apiclient.Client, found versions) (err error) {
	if found.Server, err = client.ServerVersion(cmd.Context()); err != nil {
		return err
	}
	if found.Fleet, err = fleetVersions(cmd, client); err != nil {
		return err
	}
	if err := showVersions(cmd, found); err != nil {
		return err
	}
	differs := found.Server != found.Client
	if differs {
		warn(cmd, "server and client are not of one version")
	}
	for _, one := range found.Fleet {
		if one.Version != found.Server {
			warn(cmd, "not of the server's version: %s", strings.Join(one.Operators, ", "))
			differs = true
		}
	}
	if differs {
		return &exitError{code: exitFound}
	}
	return nil
}

// fleetVersions are the versions that instances of operators report, each once.
func fleetVersions(cmd *cobra.Command, client *apiclient.Client) ([]fleetVersion, error) {
	all, err := client.Operators(cmd.Context())
	if err != nil {
		return nil, err
	}
	var found []fleetVersion
	for i := range all {
		instances, err := client.Instances(cmd.Context(), all[i].ID)
		if err != nil {
			return nil, err
		}
		for _, instance := range instances.Items {
			at := slices.IndexFunc(found, func(f fleetVersion) bool { return f.Version == instance.Version })
			if at < 0 {
				at = len(found)
				found = append(found, fleetVersion{Version: instance.Version})
			}
			if !slices.Contains(found[at].Operators, all[i].ID) {
				found[at].Operators = append(found[at].Operators, all[i].ID)
			}
		}
	}
	return found, nil
}

func showVersions(cmd *cobra.Command, found versions) error {
	return show(cmd, found, func(w io.Writer) {
		pairs := []string{"ikhnos", found.Client, "server", found.Server}
		for _, one := range found.Fleet {
			pairs = append(pairs, "collector", one.Version+" at "+strings.Join(one.Operators, ", "))
		}
		fields(w, pairs...)
	})
}
