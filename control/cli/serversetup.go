// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/control/pki"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// Settings of the store with the server's own CA, and the row that its key is
// sealed for. `passphrase change` seals that key again too.
const (
	settingServerCACert = "server_ca_cert"
	settingServerCAKey  = "server_ca_key"
	rowServerCA         = "server CA"
)

// adminTokenFile is where the first start puts the first admin token.
const adminTokenFile = "admin.token"

// keys are what a server signs and seals with.
type keys struct {
	sealer   *pki.Sealer
	serverCA *pki.CA
}

// openKeys opens the sealer and the server's own CA, and makes both at the first
// start. Replicas that start together agree, because updates do not interleave.
func openKeys(ctx context.Context, store *ledger.Store, passphrase []byte, cost pki.SealCost) (*keys, error) {
	var k keys
	err := store.Update(ctx, func(tx *ledger.Tx) (err error) {
		setting, ok, err := tx.Setting(pki.SettingSealing)
		if err != nil {
			return err
		}
		if !ok {
			if setting, err = pki.NewSealSetting(passphrase, cost); err != nil {
				return err
			}
			if err := tx.SetSetting(pki.SettingSealing, setting); err != nil {
				return err
			}
		}
		if k.sealer, err = pki.OpenSealer(passphrase, setting); err != nil {
			return err
		}
		k.serverCA, err = openServerCA(tx, k.sealer)
		return err
	})
	if err != nil {
		return nil, sealError(err)
	}
	return &k, nil
}

func openServerCA(tx *ledger.Tx, sealer *pki.Sealer) (*pki.CA, error) {
	der, ok, err := tx.Setting(settingServerCACert)
	if err != nil {
		return nil, err
	}
	if !ok {
		return newServerCA(tx, sealer)
	}
	sealed, _, err := tx.Setting(settingServerCAKey)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parsing the server CA: %w", err)
	}
	key, err := sealer.OpenKey(rowServerCA, sealed)
	if err != nil {
		return nil, err
	}
	return &pki.CA{Cert: cert, Key: key}, nil
}

func newServerCA(tx *ledger.Tx, sealer *pki.Sealer) (*pki.CA, error) {
	ca, err := pki.NewServerCA(tx.Now())
	if err != nil {
		return nil, err
	}
	sealed, err := sealer.SealKey(rowServerCA, ca.Key)
	if err != nil {
		return nil, err
	}
	if err := tx.SetSetting(settingServerCACert, ca.Cert.Raw); err != nil {
		return nil, err
	}
	return ca, tx.SetSetting(settingServerCAKey, sealed)
}

// sealError says what to do about a passphrase that does not fit.
func sealError(err error) error {
	const what = "cannot open the server's keys"
	switch {
	case errors.Is(err, pki.ErrPassphraseMissing):
		return &explained{what: what, why: err.Error(), do: "name the file with the passphrase: --passphrase-file", err: err}
	case errors.Is(err, pki.ErrPassphraseWrong):
		return &explained{what: what, why: err.Error(), do: "check --passphrase-file and --data-dir: they do not belong together", err: err}
	case errors.Is(err, pki.ErrNotSealed):
		return &explained{what: what, why: "the keys are stored without a passphrase", do: "leave --passphrase-file out, or seal them first: ikhnos passphrase change", err: err}
	default:
		return fmt.Errorf("opening the server's keys: %w", err)
	}
}

// bootstrap makes the first organisation and admin token, at the first start
// only. given is the secret of --admin-token-file; without it one is made and
// written to dir before the store knows it, so that a crash locks nobody out.
func bootstrap(ctx context.Context, ops *operators.Service, store *ledger.Store, dir, given string) (file string, err error) {
	var orgs int
	err = store.View(ctx, func(tx *ledger.Tx) error {
		return tx.QueryRow(`SELECT COUNT(*) FROM organisations`).Scan(&orgs)
	})
	if err != nil || orgs > 0 {
		return "", err
	}
	if given != "" {
		if _, _, err := controlapi.ParseSecret(controlapi.SecretAdmin, given); err != nil {
			return "", &explained{what: "the file of --admin-token-file holds no admin token", why: err.Error(), do: "leave the flag out: the server makes one", err: err}
		}
		_, err := ops.Bootstrap(ctx, given)
		return "", err
	}
	file = filepath.Join(dir, adminTokenFile)
	secret, err := firstSecret(file)
	if err != nil {
		return "", err
	}
	created, err := ops.Bootstrap(ctx, secret)
	if err == nil && !created { // another replica was first, and has the token
		return "", os.Remove(file)
	}
	return file, err
}

// firstSecret takes the token that an interrupted first start has left behind, or
// makes one.
func firstSecret(file string) (string, error) {
	if left, err := os.ReadFile(file); err == nil {
		if secret, _, err := controlapi.ParseSecret(controlapi.SecretAdmin, string(left)); err == nil {
			return secret, nil
		}
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil { // with PostgreSQL nothing else is kept in it
		return "", fmt.Errorf("making the data directory: %w", err)
	}
	secret := controlapi.NewSecret(controlapi.SecretAdmin, nil)
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return "", fmt.Errorf("writing the first admin token: %w", err)
	}
	_, err = f.WriteString(secret + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", fmt.Errorf("writing the first admin token: %w", err)
	}
	return secret, nil
}

// openAuditLog returns where the audit trail is also written, and what closes it.
func openAuditLog(path string, stdout io.Writer) (sink func(audit.Entry, time.Time), closeLog func() error, err error) {
	nothing := func() error { return nil }
	w := stdout
	switch path {
	case "":
		return nil, nothing, nil
	case "-":
	default:
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, nil, &explained{what: "cannot write the audit log", why: err.Error(), do: "choose another file: --audit-log", err: err}
		}
		w, nothing = f, f.Close
	}
	lines := json.NewEncoder(w)
	return func(e audit.Entry, at time.Time) {
		// A full disk must not stop the server: the trail is in the database.
		_ = lines.Encode(map[string]any{
			"at": at.UTC().Format(time.RFC3339), "orgId": e.OrgID, "actor": e.Actor, "event": e.Event, "object": e.Object,
			"detail": e.Detail, "requestId": e.RequestID, "address": e.Address,
		})
	}, nothing, nil
}

// storeError says what to do about a store that does not open.
func storeError(err error) error {
	text := err.Error()
	switch {
	case strings.Contains(text, "in use by another"):
		return &explained{what: text, why: "one directory belongs to one server", do: "stop the other server, or choose another --data-dir", err: err}
	case errors.Is(err, os.ErrPermission):
		return &explained{what: text, why: "the server must read and write there", do: "give it the directory, or choose another --data-dir", err: err}
	default:
		return fmt.Errorf("opening the database: %w", err)
	}
}
