// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/backup"
	"github.com/ikhnos/continuum/control/ledger"
)

func newRestoreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore a backup into an empty data directory or database",
		Long: `Restore a backup into an empty data directory or database, and start a new
epoch. It never overwrites, and is refused while a server runs on the data. All
of it is one transaction: when it is interrupted, nothing is there.

After the restore every enrolment token is dead, the renewals of each operator
wait for its first report, and ikhnos cert adopt admits the certificates that
were issued after the backup.`,
		Args: exactArgs(theBackup),
		RunE: func(cmd *cobra.Command, args []string) error { return restoreBackup(cmd, args[0]) },
	}
	addStoreFlags(cmd.Flags())
	addIdentityFlag(cmd)
	return cmd
}

// restored is what restore prints.
type restored struct {
	backupResult
	Restored ledger.Version `json:"restored"` // the first of the new epoch
}

func restoreBackup(cmd *cobra.Command, path string) error {
	o, passphrase, err := storeOptions(cmd)
	if err != nil {
		return err
	}
	if path != "-" { // a damaged file leaves no trace
		check := func(r *backup.Reader) error { _, err := r.Verify(); return err }
		if err := withBackup(cmd, path, check); err != nil {
			return err
		}
	}
	result := restored{backupResult: backupResult{File: path}}
	err = withBackup(cmd, path, func(r *backup.Reader) (err error) {
		result.Summary, result.Restored, err = restoreInto(cmd, o, passphrase, r)
		return err
	})
	if err != nil {
		return restoreError(err)
	}
	if text(cmd, "output") != formatTable {
		return show(cmd, result, nil)
	}
	if err := showBackup(cmd, result.backupResult); err != nil {
		return err
	}
	return said(cmd, fmt.Sprintf(`restored: epoch %d begins
next: start the server; when its operators have reported (ikhnos status), admit what was issued since:
  ikhnos cert adopt --issued-after %s --dry-run`, result.Restored.Epoch, date(result.CreatedAt)))
}

// restoreInto restores; a passphrase that is given should open what came back.
func restoreInto(cmd *cobra.Command, o ledger.Options, passphrase []byte, r *backup.Reader) (s *backup.Summary, v ledger.Version, err error) {
	o.Alone, o.Schema = true, r.Header().Schema
	store, err := ledger.Open(cmd.Context(), o)
	if err != nil {
		return nil, v, storeError(err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if s, v, err = r.Restore(cmd.Context(), store); err != nil || passphrase == nil {
		return s, v, err
	}
	if _, wrong := storedSealer(cmd.Context(), store, passphrase); wrong != nil {
		warn(cmd, "the backup was restored, but the file of --passphrase-file does not open its keys")
	}
	return s, v, nil
}

func restoreError(err error) error {
	if !errors.Is(err, backup.ErrNotEmpty) {
		return err
	}
	return &explained{
		what: backup.ErrNotEmpty.Error(), why: "a restore never overwrites what is there",
		do: "choose an empty --data-dir or database, or move the old one away", err: err,
	}
}
