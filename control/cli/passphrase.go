// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/pki"
)

func newPassphraseCommand() *cobra.Command {
	return group("passphrase", "The passphrase that seals a server's private keys",
		newPassphraseCheckCommand(), newPassphraseChangeCommand())
}

// keysResult is what the passphrase commands print.
type keysResult struct {
	Operators int  `json:"operators"` // whose CA keys were opened; revoked ones have none
	ServerCA  bool `json:"serverCa"`
	Sealed    bool `json:"sealed"`
}

func newPassphraseCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Open every private key with the passphrase; 10 when one does not open",
		Args:  exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onKeys(cmd, func(store *ledger.Store, sealer *pki.Sealer) error {
				var result keysResult
				err := store.View(cmd.Context(), func(tx *ledger.Tx) (err error) {
					result, err = eachKey(tx, sealer, func(row string, stored []byte, cert *x509.Certificate) ([]byte, error) {
						return nil, checkKey(sealer, row, stored, cert)
					})
					return err
				})
				if err != nil {
					return &exitError{exitFound, fmt.Errorf("a private key does not open: %w", err)}
				}
				return show(cmd, result, func(w io.Writer) {
					_, _ = fmt.Fprintf(w, "the passphrase is right: the keys of %s and of the server open\n", count(result.Operators, "operator"))
				})
			}, func(err error) error { return &exitError{exitFound, err} })
		},
	}
	addStoreFlags(cmd.Flags())
	return cmd
}

func newPassphraseChangeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "change",
		Short: "Seal every private key with another passphrase",
		Long: `Seal every private key with the passphrase in the file of --new-file, in one
transaction, while no server runs. --passphrase-file names the one of now, and is
left out when the keys are not sealed yet. Backups that were made before open
with the old passphrase alone.`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			content, err := readable("new-file", text(cmd, "new-file"))
			if err != nil {
				return err
			}
			passphrase := bytes.TrimSpace(content)
			if len(passphrase) == 0 {
				return usageError("the file of --new-file is empty")
			}
			return onKeys(cmd, func(store *ledger.Store, sealer *pki.Sealer) error {
				result, err := reseal(cmd.Context(), store, sealer, passphrase)
				if err != nil {
					return err
				}
				return show(cmd, result, func(w io.Writer) {
					_, _ = fmt.Fprintf(w, "sealed again: the keys of %s and of the server\nstart the server with --passphrase-file %s\n",
						count(result.Operators, "operator"), shellWord(text(cmd, "new-file")))
				})
			}, func(err error) error { return err })
		},
	}
	addStoreFlags(cmd.Flags())
	cmd.Flags().String("new-file", "", "file with the new passphrase")
	_ = cmd.MarkFlagRequired("new-file") // fails only for a flag that is not there
	return cmd
}

// onKeys takes the store and opens its sealer; wrong decides what a passphrase
// that does not fit is.
func onKeys(cmd *cobra.Command, fn func(*ledger.Store, *pki.Sealer) error, wrong func(error) error) (err error) {
	_, passphrase, err := storeOptions(cmd)
	if err != nil {
		return err
	}
	store, err := takeStore(cmd)
	if err != nil {
		return sealFault(err, wrong)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	sealer, err := storedSealer(cmd.Context(), store, passphrase)
	if err != nil {
		return sealFault(err, wrong)
	}
	return fn(store, sealer)
}

// sealFault passes a passphrase that does not fit to wrong, and other errors on.
func sealFault(err error, wrong func(error) error) error {
	for _, fault := range []error{pki.ErrPassphraseMissing, pki.ErrPassphraseWrong, pki.ErrNotSealed} {
		if errors.Is(err, fault) {
			return wrong(err)
		}
	}
	return err
}

// eachKey calls fn for every stored private key with the row it is sealed for and
// its certificate. What fn returns, unless nil, is stored in its place.
func eachKey(tx *ledger.Tx, sealer *pki.Sealer, fn func(row string, stored []byte, cert *x509.Certificate) ([]byte, error)) (keysResult, error) {
	result := keysResult{Sealed: sealer.Sealed()}
	der, ok, err := tx.Setting(settingServerCACert)
	if err != nil {
		return result, err
	}
	if ok {
		stored, _, err := tx.Setting(settingServerCAKey)
		if err != nil {
			return result, err
		}
		fresh, err := withCert(rowServerCA, stored, der, fn)
		if err == nil && fresh != nil {
			err = tx.SetSetting(settingServerCAKey, fresh)
		}
		if err != nil {
			return result, fmt.Errorf("the server's own: %w", err)
		}
		result.ServerCA = true
	}
	ids, err := operatorsWithKey(tx)
	if err != nil {
		return result, err
	}
	for _, id := range ids {
		var stored, der []byte
		err := tx.QueryRow(`SELECT client_ca_key, client_ca_cert FROM operators WHERE id = $1`, id).Scan(&stored, &der)
		if err != nil {
			return result, fmt.Errorf("reading the key of %s: %w", id, err)
		}
		fresh, err := withCert(id, stored, der, fn)
		if err == nil && fresh != nil {
			_, err = tx.Exec(`UPDATE operators SET client_ca_key = $1 WHERE id = $2`, fresh, id)
		}
		if err != nil {
			return result, fmt.Errorf("that of %s: %w", id, err)
		}
		result.Operators++
	}
	return result, nil
}

func withCert(row string, stored, der []byte, fn func(string, []byte, *x509.Certificate) ([]byte, error)) ([]byte, error) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parsing its certificate: %w", err)
	}
	return fn(row, stored, cert)
}

func operatorsWithKey(tx *ledger.Tx) (ids []string, err error) {
	rows, err := tx.Query(`SELECT id FROM operators WHERE client_ca_key IS NOT NULL ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("listing operators: %w", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err tells
	for rows.Next() {
		var id sql.NullString
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("listing operators: %w", err)
		}
		ids = append(ids, id.String)
	}
	return ids, rows.Err()
}

func checkKey(sealer *pki.Sealer, row string, stored []byte, cert *x509.Certificate) error {
	key, err := sealer.OpenKey(row, stored)
	if err == nil && !key.PublicKey.Equal(cert.PublicKey) {
		err = errors.New("the key is not that of its certificate")
	}
	return err
}

// reseal seals every key anew; what the old passphrase opens leaves the files.
func reseal(ctx context.Context, store *ledger.Store, old *pki.Sealer, passphrase []byte) (result keysResult, err error) {
	setting, err := pki.NewSealSetting(passphrase, pki.DefaultSealCost)
	if err != nil {
		return result, err
	}
	sealer, err := pki.OpenSealer(passphrase, setting)
	if err != nil {
		return result, err
	}
	err = store.Update(ctx, func(tx *ledger.Tx) error {
		result, err = eachKey(tx, sealer, func(row string, stored []byte, cert *x509.Certificate) ([]byte, error) {
			if err := checkKey(old, row, stored, cert); err != nil {
				return nil, err
			}
			return old.Reseal(sealer, row, stored)
		})
		if err != nil {
			return err
		}
		if err := tx.SetSetting(pki.SettingSealing, setting); err != nil {
			return err
		}
		tx.Scrub()
		return tx.Audit(audit.Entry{
			Actor: audit.ActorServer, Event: audit.PassphraseChanged, Object: audit.ActorServer,
			Detail: map[string]any{"operators": result.Operators},
		})
	})
	return result, err
}
