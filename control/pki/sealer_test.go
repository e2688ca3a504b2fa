// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package pki_test

import (
	"bytes"
	"crypto/x509"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/pki"
)

// cheap is for tests alone.
var cheap = pki.SealCost{Time: 1, MemoryKiB: 64, Threads: 1}

func newSealer(t *testing.T, passphrase string) *pki.Sealer {
	t.Helper()
	setting, err := pki.NewSealSetting([]byte(passphrase), cheap)
	require.NoError(t, err)
	s, err := pki.OpenSealer([]byte(passphrase), setting)
	require.NoError(t, err)
	return s
}

// PK-8.
func TestSealer(t *testing.T) {
	s, key := newSealer(t, "secret"), newKey(t)
	assert.True(t, s.Sealed())
	stored, err := s.SealKey("op-a", key)
	require.NoError(t, err)
	plain, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	assert.False(t, bytes.Contains(stored, plain[40:72]))
	again, err := s.SealKey("op-a", key)
	require.NoError(t, err)
	assert.NotEqual(t, stored, again, "a new nonce each time")
	got, err := s.OpenKey("op-a", stored)
	require.NoError(t, err)
	assert.True(t, key.Equal(got))
	_, err = s.OpenKey("op-b", stored)
	require.Error(t, err, "a key opens in its own row only")
	for i := range stored {
		bad := bytes.Clone(stored)
		bad[i] ^= 1
		_, err := s.OpenKey("op-a", bad)
		require.Error(t, err)
	}
	_, err = s.OpenKey("op-a", nil)
	require.Error(t, err)
	_, err = newSealer(t, "secret").OpenKey("op-a", stored)
	require.Error(t, err, "another salt is another key")
}

func TestPlainSealer(t *testing.T) {
	s, key := newSealer(t, ""), newKey(t)
	assert.False(t, s.Sealed())
	stored, err := s.SealKey("op-a", key)
	require.NoError(t, err)
	got, err := s.OpenKey("op-a", stored)
	require.NoError(t, err)
	assert.True(t, key.Equal(got))
	_, err = newSealer(t, "secret").OpenKey("op-a", stored)
	require.Error(t, err, "a plain key where sealed ones belong was put there by somebody")
}

func TestOpenSealer(t *testing.T) {
	sealed, err := pki.NewSealSetting([]byte("right"), cheap)
	require.NoError(t, err)
	plain, err := pki.NewSealSetting(nil, cheap)
	require.NoError(t, err)
	for _, test := range []struct {
		name, passphrase string
		setting          []byte
		want             error
	}{
		{"right", "right", sealed, nil},
		{"wrong", "wrong", sealed, pki.ErrPassphraseWrong},
		{"missing", "", sealed, pki.ErrPassphraseMissing},
		{"none needed", "", plain, nil},
		{"not sealed", "right", plain, pki.ErrNotSealed},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := pki.OpenSealer([]byte(test.passphrase), test.setting)
			require.ErrorIs(t, err, test.want)
		})
	}
	for _, broken := range []string{
		"", "{}", `{"kdf":"rot13"}`, `{"kdf":"argon2id"}`,
		strings.Replace(string(sealed), `"memoryKiB":64`, `"memoryKiB":4000000000`, 1),
		strings.Replace(string(sealed), `"time":1`, `"time":0`, 1),
	} {
		_, err := pki.OpenSealer([]byte("right"), []byte(broken))
		require.Error(t, err, broken)
	}
}

func TestReseal(t *testing.T) {
	old, next, key := newSealer(t, "old"), newSealer(t, "next"), newKey(t)
	stored, err := old.SealKey("op-a", key)
	require.NoError(t, err)
	moved, err := old.Reseal(next, "op-a", stored)
	require.NoError(t, err)
	got, err := next.OpenKey("op-a", moved)
	require.NoError(t, err)
	assert.True(t, key.Equal(got))
	_, err = old.Reseal(next, "op-b", stored)
	require.Error(t, err)
}

func TestKeyring(t *testing.T) {
	s, ca := newSealer(t, "secret"), newCA(t, "op-a")
	stored, err := s.SealKey("op-a", ca.Key)
	require.NoError(t, err)
	ring := pki.NewKeyring(s)
	first, err := ring.CA("op-a", ca.Cert.Raw, stored)
	require.NoError(t, err)
	again, err := ring.CA("op-a", ca.Cert.Raw, stored)
	require.NoError(t, err)
	assert.Same(t, first, again, "opened once")
	ring.Erase("op-a")
	fresh, err := ring.CA("op-a", ca.Cert.Raw, stored)
	require.NoError(t, err)
	assert.NotSame(t, first, fresh)
	_, err = ring.CA("op-a", ca.Cert.Raw, nil)
	require.ErrorIs(t, err, pki.ErrKeyErased, "erased in the store is erased here")
	_, err = ring.CA("op-a", newCA(t, "op-a").Cert.Raw, stored)
	require.Error(t, err, "key and certificate do not match")
	_, err = ring.CA("op-b", ca.Cert.Raw, stored)
	require.Error(t, err, "sealed for another row")
	_, err = ring.CA("op-a", []byte("no certificate"), stored)
	require.Error(t, err)
}
