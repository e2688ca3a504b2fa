// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/backup"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/internal/version"
)

const theBackup = "the backup's file"

func newBackupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Write everything that a server keeps into one file",
		Long: `Write everything that a server keeps, its sealed keys included, into one file
that only its owner can read. A server may run and go on issuing meanwhile: the
file is one state. It restores into SQLite and into PostgreSQL alike.`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return makeBackup(cmd) },
	}
	addStoreFlags(cmd.Flags())
	cmd.Flags().String("out", "", "write to this file, mode 0600; - is standard output (default: ikhnos-backup-TIME.jsonl here)")
	cmd.Flags().StringSlice("encrypt-to", nil, "encrypt to this age public key (age1…); may be repeated")
	cmd.AddCommand(newBackupVerifyCommand())
	return cmd
}

// backupResult is what backup and backup verify print.
type backupResult struct {
	File string `json:"file"`
	*backup.Summary
	AgeSeconds int64 `json:"ageSeconds"`
}

func makeBackup(cmd *cobra.Command) (err error) {
	recipients, _ := cmd.Flags().GetStringSlice("encrypt-to") // the flag exists with this type
	store, err := attachStore(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	result := backupResult{File: text(cmd, "out")}
	write := func(w io.Writer) error {
		result.Summary, err = writeBackup(cmd, store, w, recipients)
		return err
	}
	switch result.File {
	case "-":
		err = write(cmd.OutOrStdout())
	case "":
		result.File = defaultBackupFile(store.Now(), len(recipients) > 0)
		fallthrough
	default:
		err = writePrivate(result.File, write)
	}
	if err != nil {
		return err
	}
	if err := noteBackup(cmd, store, result.Summary); err != nil {
		warn(cmd, "the backup is complete, but the server could not be told: %v", err)
	}
	if result.Keys == backup.KeysPlain && len(recipients) == 0 {
		warn(cmd, "the private keys in this backup are not sealed: whoever reads it can sign")
	}
	if result.File == "-" {
		return nil
	}
	return showBackup(cmd, result)
}

func defaultBackupFile(now time.Time, encrypted bool) string {
	name := "ikhnos-backup-" + now.Format("20060102T150405Z") + ".jsonl"
	if encrypted {
		name += ".age"
	}
	return name
}

func writeBackup(cmd *cobra.Command, store *ledger.Store, w io.Writer, recipients []string) (*backup.Summary, error) {
	if len(recipients) == 0 {
		return backup.Write(cmd.Context(), store, w, version.Version)
	}
	sealed, err := backup.Encrypt(w, recipients)
	if err != nil {
		return nil, usageError("--encrypt-to: %v", err)
	}
	summary, err := backup.Write(cmd.Context(), store, sealed, version.Version)
	if err != nil {
		return nil, err
	}
	return summary, sealed.Close()
}

// noteBackup leaves the time for the server's metrics and a line in the audit
// trail.
func noteBackup(cmd *cobra.Command, store *ledger.Store, s *backup.Summary) error {
	return store.Update(cmd.Context(), func(tx *ledger.Tx) error {
		if err := tx.SetSetting(liveness.SettingLastBackup, strconv.AppendInt(nil, s.CreatedAt.Unix(), 10)); err != nil {
			return err
		}
		return tx.Audit(audit.Entry{
			Actor: audit.ActorServer, Event: audit.BackupCreated, Object: audit.ActorServer,
			Detail: map[string]any{"sha256": s.SHA256, "epoch": s.At.Epoch, "number": s.At.Number},
		})
	})
}

func newBackupVerifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check a backup and tell what it holds",
		Long: `Read a whole backup, check its checksum and compute every hash chain again, and
tell what it holds. FILE may be - for standard input. It needs no server and no
data; the exit code is 10 when the backup is damaged.`,
		Args: exactArgs(theBackup),
		RunE: func(cmd *cobra.Command, args []string) error {
			var summary *backup.Summary
			err := withBackup(cmd, args[0], func(r *backup.Reader) (err error) {
				summary, err = r.Verify()
				return err
			})
			if err != nil {
				return err
			}
			return showBackup(cmd, backupResult{File: args[0], Summary: summary})
		},
	}
	addIdentityFlag(cmd)
	return cmd
}

func addIdentityFlag(cmd *cobra.Command) {
	cmd.Flags().String("identity", "", "file with the age private key of an encrypted backup")
}

// withBackup reads a backup from a file or, for -, from standard input.
func withBackup(cmd *cobra.Command, path string, fn func(r *backup.Reader) error) error {
	in := cmd.InOrStdin()
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return &explained{what: "the backup cannot be read", why: err.Error(), do: "check its path and permissions", err: err}
		}
		defer func() { _ = file.Close() }() // it was only read
		in = file
	}
	var identities []byte
	if name := text(cmd, "identity"); name != "" {
		var err error
		if identities, err = readable("identity", name); err != nil {
			return err
		}
	}
	plain, err := backup.Decrypt(in, identities)
	if err != nil {
		return backupError(err)
	}
	r, err := backup.NewReader(plain)
	if err != nil {
		return backupError(err)
	}
	return backupError(fn(r))
}

// backupError says what to do about a backup that cannot be used.
func backupError(err error) error {
	switch {
	case errors.Is(err, backup.ErrDamaged):
		return &exitError{exitFound, &explained{what: backup.ErrDamaged.Error(), why: err.Error(), do: "use another backup; what this one holds cannot be trusted", err: err}}
	case errors.Is(err, backup.ErrEncrypted):
		return &exitError{exitUsage, &explained{what: err.Error(), why: "it opens with the age private key that it was encrypted to", do: "name the file of that key: --identity", err: err}}
	default:
		return err
	}
}

func showBackup(cmd *cobra.Command, r backupResult) error {
	age := environmentOf(cmd).now().Sub(r.CreatedAt)
	r.AgeSeconds = int64(age / time.Second)
	return show(cmd, r, func(w io.Writer) {
		rows := func(table string) string { return strconv.FormatInt(r.Rows[table], 10) }
		fields(w,
			"file", r.File,
			"made", fmt.Sprintf("%s, %s ago, by ikhnos %s", date(r.CreatedAt), span(age), r.Program),
			"epoch", fmt.Sprintf("%d, change %d", r.At.Epoch, r.At.Number),
			"organisations", rows("organisations"), "operators", rows("operators"), "clusters", rows("clusters"),
			"senders", rows("senders"), "certificates", rows("entries"), "events", rows("events"), "audit lines", rows("audit"),
			"keys", r.Keys, "sha256", r.SHA256)
	})
}
