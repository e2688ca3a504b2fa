// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// shownContext is a saved context without its token.
type shownContext struct {
	Name    string   `json:"name"`
	Server  string   `json:"server"`
	CAPins  []string `json:"caPins,omitempty"`
	Org     string   `json:"org"`
	Current bool     `json:"current"`
}

func newContextCommand() *cobra.Command {
	return group("context", "Saved control servers", newContextListCommand(), newContextUseCommand())
}

func newContextListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Saved control servers; the star marks the one in use",
		Args:  exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := environmentOf(cmd).loadContexts()
			if err != nil {
				return err
			}
			shown := []shownContext{}
			for _, c := range file.Contexts {
				shown = append(shown, shownContext{c.Name, c.Server, c.CAPins, c.Org, c.Name == file.Current})
			}
			header := []string{" ", "NAME", "SERVER", "ORGANISATION", "PINS"}
			return showList(cmd, shown, "No saved server: ikhnos login --server https://HOST:8443", header, func(c shownContext) []string {
				mark := " "
				if c.Current {
					mark = "*"
				}
				return []string{mark, c.Name, c.Server, c.Org, strings.Join(c.CAPins, ",")}
			})
		},
	}
}

func newContextUseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "use NAME",
		Short: "Use a saved control server from now on",
		Args:  exactArgs("the context's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			env := environmentOf(cmd)
			file, err := env.loadContexts()
			if err != nil {
				return err
			}
			if file.find(args[0]) == nil {
				var names []string
				for _, c := range file.Contexts {
					names = append(names, c.Name)
				}
				return usageError("there is no context %q%s", args[0], suggestion(args[0], names, ""))
			}
			file.Current = args[0]
			if err := env.saveContexts(file); err != nil {
				return err
			}
			return said(cmd, "using "+args[0])
		},
	}
}
