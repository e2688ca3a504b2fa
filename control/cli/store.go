// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/pki"
)

// Commands that work on a server's data themselves, on the server's machine.

// dataFlags say where the data is; storeFlags also how to open its keys.
var (
	dataFlags  = []string{"data-dir", "database-url", "database-url-file"}
	storeFlags = append([]string{"passphrase-file"}, dataFlags...)
)

// fillStoreFlags takes from the environment what the command line left out, as
// the server does.
func fillStoreFlags(cmd *cobra.Command) error {
	vars := environmentOf(cmd).vars
	for _, name := range storeFlags {
		flag := cmd.Flags().Lookup(name)
		given, ok := vars["IKHNOS_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))]
		if flag == nil || flag.Changed || !ok {
			continue
		}
		if err := setFlag(cmd, name, given); err != nil {
			return err
		}
	}
	return nil
}

// storeOptions reads where the data is, and the passphrase.
func storeOptions(cmd *cobra.Command) (o ledger.Options, passphrase []byte, err error) {
	if err := fillStoreFlags(cmd); err != nil {
		return o, nil, err
	}
	o.DataDir, o.DatabaseURL, passphrase, err = readStoreFlags(cmd)
	o.Now = environmentOf(cmd).now
	o.Logger = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	return o, passphrase, err
}

// attachStore opens the data beside a server that may be running. A passphrase
// that is given must open its keys.
func attachStore(cmd *cobra.Command) (*ledger.Store, error) {
	o, passphrase, err := storeOptions(cmd)
	if err != nil {
		return nil, err
	}
	store, err := ledger.Attach(cmd.Context(), o)
	if err != nil {
		return nil, noStoreError(err)
	}
	if passphrase != nil {
		if _, err := storedSealer(cmd.Context(), store, passphrase); err != nil {
			return nil, errors.Join(err, store.Close())
		}
	}
	return store, nil
}

// storedSealer opens the sealer of existing data.
func storedSealer(ctx context.Context, store *ledger.Store, passphrase []byte) (*pki.Sealer, error) {
	var setting []byte
	err := store.View(ctx, func(tx *ledger.Tx) (err error) {
		setting, _, err = tx.Setting(pki.SettingSealing)
		return err
	})
	if err != nil {
		return nil, err
	}
	if setting == nil {
		return nil, &explained{what: "there are no keys yet", why: "the server has never run on this data", do: "start it once: ikhnos server"}
	}
	sealer, err := pki.OpenSealer(passphrase, setting)
	if err != nil {
		return nil, sealError(err)
	}
	return sealer, nil
}

// takeStore opens existing data for this command alone.
func takeStore(cmd *cobra.Command) (*ledger.Store, error) {
	o, _, err := storeOptions(cmd)
	if err != nil {
		return nil, err
	}
	existing, err := attachStore(cmd) // which, unlike Open, makes nothing
	if err != nil {
		return nil, err
	}
	if err := existing.Close(); err != nil {
		return nil, err
	}
	o.Alone = true
	store, err := ledger.Open(cmd.Context(), o)
	if err != nil {
		return nil, storeError(err)
	}
	return store, nil
}

func noStoreError(err error) error {
	return &explained{
		what: "the server's data cannot be opened", why: err.Error(),
		do: "run this where the server runs, as its user, with its --data-dir or --database-url", err: err,
	}
}
