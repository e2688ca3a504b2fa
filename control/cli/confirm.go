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

// confirm lets a person at a terminal type the id of what will be gone. A script
// has nobody to ask and means what it says.
func confirm(cmd *cobra.Command, id, consequence string) error {
	switch given := text(cmd, "confirm"); {
	case given != "" && given != id:
		return usageError("--confirm %s is not %s: nothing was done", given, id)
	case given == id, text(cmd, "yes") == "true", !environmentOf(cmd).inTerminal:
		return nil
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s\nType %s to go on: ", consequence, id)
	if answer, err := readLine(cmd); err != nil || answer != id {
		return usageError("not confirmed: nothing was done")
	}
	return nil
}

// readLine reads what a person types on standard input.
func readLine(cmd *cobra.Command) (string, error) {
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && line == "" {
		return "", fmt.Errorf("reading standard input: %w", err)
	}
	return strings.TrimSpace(line), nil
}
