// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// addConfirmFlags adds --yes and --confirm to a command that destroys something.
func addConfirmFlags(cmd *cobra.Command) {
	cmd.Flags().Bool("yes", false, "do not ask")
	cmd.Flags().String("confirm", "", "do not ask, if this is the id of what is meant")
}

// confirmHelp ends the help of commands that confirm guards.
const confirmHelp = `

At a terminal the id has to be typed once more; a script says --confirm ID, or it is
refused with exit code 2.`

// confirm wants to be told that an operator shall end, which nothing brings back: by
// --yes, by --confirm with its id, or by a person at a terminal who types that id. A
// script that says none of it is refused with the exit code of usage.
func confirm(cmd *cobra.Command, id, consequence string) error {
	if environmentOf(cmd).inTerminal {
		return ask(cmd, id, consequence)
	}
	if given, err := given(cmd, id); given || err != nil {
		return err
	}
	return notConfirmed("not confirmed", consequence+" There is no terminal to ask.", "repeat it with --confirm "+id)
}

// ask is confirm for what a script may do without a flag: what can be undone, or made
// again.
func ask(cmd *cobra.Command, id, consequence string) error {
	if given, err := given(cmd, id); given || err != nil || !environmentOf(cmd).inTerminal {
		return err
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s\nType %s to go on: ", consequence, id)
	if answer, err := readLine(cmd); err != nil || answer != id {
		return notConfirmed("not confirmed", "what was typed is not "+id, "repeat it and type "+id)
	}
	return nil
}

// given reports whether the command line confirms already.
func given(cmd *cobra.Command, id string) (bool, error) {
	named := text(cmd, "confirm")
	if named != "" && named != id {
		return false, notConfirmed("--confirm "+named+" is not "+id, "another id was confirmed than the one that is meant", "repeat it with --confirm "+id)
	}
	return named == id || text(cmd, "yes") == "true", nil
}

func notConfirmed(what, why, do string) error {
	return &exitError{exitUsage, &explained{what: what + ": nothing was done", why: why, do: do}}
}

// readLine reads what a person types on standard input.
func readLine(cmd *cobra.Command) (string, error) {
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && line == "" {
		return "", fmt.Errorf("reading standard input: %w", err)
	}
	return strings.TrimSpace(line), nil
}
