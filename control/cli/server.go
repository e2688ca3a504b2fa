// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"syscall"

	"github.com/spf13/cobra"
)

func newServerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run the control server",
		Long: `Run the control server until it is asked to stop.

Every flag may also stand in the environment, as IKHNOS_ and its name in capitals
(IKHNOS_DATA_DIR), or in the file of --config, as YAML with the flag's name as
key. The command line wins over the environment, the environment over the file.

The first start makes the organisation "default" and an admin token of role
server in DIR/admin.token. Its log names the pin by which clients know the
server: pass it to them as --ca-pin.`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := readServerConfig(cmd)
			if err != nil {
				return err
			}
			syscall.Umask(0o077) // keys, tokens, policies and databases are the server's alone
			log := cfg.logger(cmd.ErrOrStderr())
			server, err := startServer(cmd.Context(), cfg, log, environmentOf(cmd).now)
			if err != nil {
				return err
			}
			return server.wait()
		},
	}
	addServerFlags(cmd.Flags())
	return cmd
}

// readable returns the content of a file that a flag names.
func readable(flag, path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, &explained{
			what: "cannot read the file of --" + flag, why: err.Error(), do: "check its path and permissions", err: err,
		}
	}
	return content, nil
}
