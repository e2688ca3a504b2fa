// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package load

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"runtime"
)

// keyRequest is a new key and a certificate request for it.
type keyRequest struct {
	key *ecdsa.PrivateKey
	csr []byte // PEM
}

func newKeyRequest(name string) (keyRequest, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyRequest{}, fmt.Errorf("making a key: %w", err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		return keyRequest{}, fmt.Errorf("making a certificate request: %w", err)
	}
	return keyRequest{key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})}, nil
}

// newKeyRequests makes n of them with every core, before anything is timed.
func newKeyRequests(ctx context.Context, n int) ([]keyRequest, error) {
	all := make([]keyRequest, n)
	err := parallel(ctx, runtime.NumCPU(), n, func(_ context.Context, _, i int) (err error) {
		all[i], err = newKeyRequest("bench")
		return err
	})
	return all, err
}
