// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"

	"github.com/ikhnos/continuum/internal/certfile"
)

// Store is where a generation and the key of an unanswered request are durable,
// and where holders of the same certificate meet.
type Store interface {
	// Load returns the stored generation, nil when there is none that is usable.
	Load(ctx context.Context) (*certfile.Generation, error)
	// Begin returns the stored generation if accept wants it, else the key to
	// ask for a certificate with: the one whose request has no answer yet, or a
	// new one, durable before Begin returns.
	Begin(ctx context.Context, accept func(*certfile.Generation) bool) (newer *certfile.Generation, pendingKey []byte, err error)
	// Save stores g and forgets the pending key of g. When another holder was
	// faster with one that accept wants, that one is returned instead of g.
	Save(ctx context.Context, g *certfile.Generation, accept func(*certfile.Generation) bool) (*certfile.Generation, error)
	// Drop forgets a pending key that cannot lead to a certificate any more.
	Drop(ctx context.Context, pendingKey []byte) error
}

// dirStore is the certificate directory itself.
type dirStore struct{ dir string }

func (s dirStore) Load(context.Context) (*certfile.Generation, error) {
	g, err := certfile.Load(s.dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, certfile.ErrDamaged) {
		return nil, nil
	}
	return g, err
}

func (s dirStore) Begin(ctx context.Context, accept func(*certfile.Generation) bool) (*certfile.Generation, []byte, error) {
	g, err := s.Load(ctx)
	if err != nil {
		return nil, nil, err
	}
	if g != nil && accept(g) {
		return g, nil, nil
	}
	pending, err := certfile.Pending(s.dir)
	if err != nil || usablePending(pending, g) {
		return nil, pending, err
	}
	if pending, err = newKey(); err != nil {
		return nil, nil, err
	}
	return nil, pending, certfile.SavePending(s.dir, pending)
}

func (s dirStore) Save(_ context.Context, g *certfile.Generation, _ func(*certfile.Generation) bool) (*certfile.Generation, error) {
	if err := certfile.Publish(s.dir, g); err != nil {
		return nil, err
	}
	return g, certfile.DropPending(s.dir, g.Key)
}

func (s dirStore) Drop(_ context.Context, pendingKey []byte) error {
	return certfile.DropPending(s.dir, pendingKey)
}

// usablePending reports whether a pending key can be read and is not the one in
// use already: after a crash between publishing and forgetting it is.
func usablePending(pending []byte, inUse *certfile.Generation) bool {
	key, err := parseKey(pending)
	if err != nil {
		return false
	}
	if inUse == nil {
		return true
	}
	signer, err := inUse.Signer()
	return err != nil || !key.PublicKey.Equal(signer.Public())
}

func newKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

var errPendingKey = errors.New("the pending key cannot be read")

func parseKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errPendingKey
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errPendingKey
	}
	ecKey, ok := key.(*ecdsa.PrivateKey)
	if !ok || ecKey.Curve != elliptic.P256() {
		return nil, errPendingKey
	}
	return ecKey, nil
}
