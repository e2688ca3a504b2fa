// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package load

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// provisionerName names the one that lets our tokens in.
const provisionerName = "bench"

// stepAuthority is the root, the intermediate and the provisioner of a step-ca.
type stepAuthority struct {
	config string // path
	roots  *x509.CertPool
	signer jose.Signer // of one-time tokens
}

// newStepAuthority writes keys, certificates and configuration of a step-ca that
// keeps its state in bbolt, into dir.
func newStepAuthority(dir, address string) (*stepAuthority, error) {
	root, rootKey, err := newStepCert("Bench root", 1, nil, nil)
	if err != nil {
		return nil, err
	}
	intermediate, key, err := newStepCert("Bench intermediate", 0, root, rootKey)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	a := &stepAuthority{config: filepath.Join(dir, "ca.json"), roots: x509.NewCertPool()}
	a.roots.AddCert(root)
	provisioner, err := a.newProvisioner()
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]any{
		"root": filepath.Join(dir, "root.crt"), "crt": filepath.Join(dir, "intermediate.crt"), "key": filepath.Join(dir, "intermediate.key"),
		"address": address, "dnsNames": []string{"127.0.0.1"},
		"db":        map[string]any{"type": "bbolt", "dataSource": filepath.Join(dir, "step.db")},
		"authority": map[string]any{"provisioners": []any{provisioner}},
	})
	if err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{
		"root.crt":         pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw}),
		"intermediate.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: intermediate.Raw}),
		"intermediate.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
		"ca.json":          config,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// newStepCert makes a CA certificate, self-signed without a parent.
func newStepCert(name string, pathLen int, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, BasicConstraintsValid: true, IsCA: true,
		MaxPathLen: pathLen, MaxPathLenZero: pathLen == 0,
	}
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return nil, nil, fmt.Errorf("making %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

// newProvisioner makes a JWK provisioner with its usual claims, and its signer.
func (a *stepAuthority) newProvisioner() (map[string]any, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	private := jose.JSONWebKey{Key: key, KeyID: provisionerName, Algorithm: string(jose.ES256), Use: "sig"}
	a.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: private}, (&jose.SignerOptions{}).WithType("JWT"))
	return map[string]any{"type": "JWK", "name": provisionerName, "key": private.Public()}, err
}

// token lets one certificate for name be signed.
func (a *stepAuthority) token(audience, name string) (string, error) {
	now := time.Now()
	return jwt.Signed(a.signer).Claims(jwt.Claims{
		Issuer: provisionerName, Subject: name, Audience: jwt.Audience{audience}, ID: rand.Text(),
		NotBefore: jwt.NewNumericDate(now), IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(5 * time.Minute)),
	}).Claims(map[string]any{"sans": []string{name}}).Serialize()
}
