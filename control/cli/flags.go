// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const defaultTimeout = 30 * time.Second

// outputFormats are what -o takes.
var outputFormats = []string{formatTable, formatJSON, formatYAML}

const (
	formatTable = "table"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

// addGlobalFlags adds the flags that every command takes. Secrets are never
// among them: a token comes from a file, the environment or the saved context.
func addGlobalFlags(flags *pflag.FlagSet) {
	flags.String("context", "", "saved server to use (see ikhnos context list)")
	flags.String("server", "", "address of the control server, https://HOST[:PORT] (IKHNOS_SERVER)")
	flags.String("token-file", "", "file with the admin token (or IKHNOS_TOKEN)")
	flags.StringSlice("ca-pin", nil, "trust only a server CA with this pin, sha256:HEX (IKHNOS_CA_PIN)")
	flags.String("org", "", "organisation (IKHNOS_ORG; default \"default\")")
	flags.VarP(&choice{value: formatTable, of: outputFormats}, "output", "o", "form of the result: "+strings.Join(outputFormats, ", "))
	flags.Bool("quiet", false, "no progress on standard error")
	flags.Duration("timeout", defaultTimeout, "give up on the server after this long")
}

// choice is a flag that takes one of a few words.
type choice struct {
	value string
	of    []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return "word" }

// Set takes a word of the list; pflag puts the flag's name in front of the error.
func (c *choice) Set(word string) error {
	if !slices.Contains(c.of, word) {
		return usageError("must be one of %s", strings.Join(c.of, ", "))
	}
	c.value = word
	return nil
}

// addChoice adds a flag that takes one of words, the first by default.
func addChoice(cmd *cobra.Command, name, usage string, words ...string) {
	cmd.Flags().Var(&choice{value: words[0], of: words}, name, usage+": "+strings.Join(words, ", "))
}

// text returns the value of a flag that the command or its parents define.
func text(cmd *cobra.Command, name string) string {
	if f := cmd.Flag(name); f != nil {
		return f.Value.String()
	}
	return ""
}

func isSet(cmd *cobra.Command, name string) bool {
	f := cmd.Flag(name)
	return f != nil && f.Changed
}

// parseLabels reads repeated --label NAME=VALUE.
func parseLabels(pairs []string) (map[string]string, error) {
	labels := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usageError("--label takes NAME=VALUE, not %q", pair)
		}
		if _, twice := labels[name]; twice {
			return nil, usageError("--label %s is given twice", name)
		}
		labels[name] = value
	}
	return labels, nil
}
