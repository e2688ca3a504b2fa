// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
)

func newLedgerNewEpochCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "new-epoch",
		Short: "Start a new epoch, after data was put back by other means than restore",
		Long: `Start a new epoch on the data of a server that does not run. ikhnos restore does
so by itself; this is for data that was put back as a copy of the directory, a
snapshot of the machine or a dump of the database. Operators refuse such a server
(ledger_rollback) until then.`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			store, err := takeStore(cmd)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, store.Close()) }()
			var v ledger.Version
			err = store.Update(cmd.Context(), func(tx *ledger.Tx) error {
				if v, err = tx.NewEpoch(); err != nil {
					return err
				}
				return tx.Audit(audit.Entry{
					Actor: audit.ActorServer, Event: audit.EpochStarted, Object: audit.ActorServer,
					Detail: map[string]any{"epoch": v.Epoch, "number": v.Number},
				})
			})
			if err != nil {
				return err
			}
			return show(cmd, v, func(w io.Writer) { _, _ = fmt.Fprintf(w, "epoch %d begins\n", v.Epoch) })
		},
	}
	addStoreFlags(cmd.Flags())
	return cmd
}
