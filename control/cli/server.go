// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/ledger"
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
		Example: `  ikhnos server --data-dir /var/lib/ikhnos --listen 0.0.0.0:8443 --public-url https://ikhnos.example.com:8443 \
      --passphrase-file /etc/ikhnos/passphrase`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := readServerConfig(cmd)
			if err != nil {
				return err
			}
			syscall.Umask(0o077) // keys, tokens, policies and databases are the server's alone
			log := cfg.logger(cmd.ErrOrStderr())
			if cfg.migrate {
				return migrate(cmd, cfg, log)
			}
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

// migrate brings the schema up to date, for those who do it before they start new
// replicas, and says which it is now.
func migrate(cmd *cobra.Command, cfg *serverConfig, log *slog.Logger) (err error) {
	store, err := ledger.Open(cmd.Context(), ledger.Options{
		DataDir: cfg.dataDir, DatabaseURL: cfg.databaseURL, Now: environmentOf(cmd).now, Logger: log,
	})
	if err != nil {
		return storeError(err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var schema int64
	err = store.View(cmd.Context(), func(tx *ledger.Tx) error {
		schema, err = tx.Schema()
		return err
	})
	if err != nil {
		return err
	}
	return said(cmd, fmt.Sprintf("the database has schema %d, which this version works with", schema))
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
