// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
)

// maxUnsealed bounds how many CA keys are kept open in memory.
const maxUnsealed = 4096

// ErrKeyErased says that a CA's key is gone: its operator was revoked.
var ErrKeyErased = errors.New("the CA key was erased")

// Keyring opens sealed CA keys and keeps the open ones in memory.
type Keyring struct {
	sealer *Sealer
	mu     sync.RWMutex
	open   map[string]*CA // by operator id; guarded by mu
}

// NewKeyring returns an empty keyring over a sealer.
func NewKeyring(sealer *Sealer) *Keyring {
	return &Keyring{sealer: sealer, open: map[string]*CA{}}
}

// CA returns the CA of an operator from its certificate (DER) and its sealed key
// as the store holds them now. An empty sealed key is ErrKeyErased.
func (k *Keyring) CA(operatorID string, cert, sealedKey []byte) (*CA, error) {
	if len(sealedKey) == 0 {
		k.Erase(operatorID)
		return nil, ErrKeyErased
	}
	k.mu.RLock()
	ca := k.open[operatorID]
	k.mu.RUnlock()
	if ca != nil && bytes.Equal(ca.Cert.Raw, cert) {
		return ca, nil
	}
	key, err := k.sealer.OpenKey(operatorID, sealedKey)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(cert)
	if err != nil {
		return nil, fmt.Errorf("parsing a CA certificate: %w", err)
	}
	if !key.PublicKey.Equal(parsed.PublicKey) {
		return nil, errors.New("a CA key does not match its certificate")
	}
	ca = &CA{Cert: parsed, Key: key}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.open) >= maxUnsealed {
		for id := range k.open { // any one: opening again costs microseconds
			delete(k.open, id)
			break
		}
	}
	k.open[operatorID] = ca
	return ca, nil
}

// Erase forgets the key of an operator.
func (k *Keyring) Erase(operatorID string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.open, operatorID)
}
