// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"time"
)

// serverLeafBackdate is as of the operators' leaves.
const serverLeafBackdate = 10 * time.Minute

// NewServerCA makes the CA of the control server's own TLS: twenty years, leaves
// only. Its SPKI hash is the pin that clients carry.
func NewServerCA(now time.Time) (*CA, error) {
	return newCA("Ikhnos server CA", now, serverCAYears, func(*x509.Certificate) {})
}

// NewServerLeaf makes a new key and a server certificate of that life for DNS
// names and IP addresses, with the CA behind it in the chain: a pin on the CA is
// only found when the CA is presented.
func NewServerLeaf(ca *CA, names []string, now time.Time, life time.Duration) (*tls.Certificate, error) {
	if len(names) == 0 {
		return nil, errors.New("a server certificate needs a name")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a server key: %w", err)
	}
	now = now.UTC().Truncate(time.Second)
	notAfter := now.Add(life)
	if notAfter.After(ca.Cert.NotAfter) {
		notAfter = ca.Cert.NotAfter
	}
	t := &x509.Certificate{
		SerialNumber: NewSerial(),
		Subject:      pkix.Name{CommonName: "Ikhnos server"},
		NotBefore:    now.Add(-serverLeafBackdate),
		NotAfter:     notAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, name)
		}
	}
	der, err := Sign(t, &key.PublicKey, ca)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parsing the server certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der, ca.Cert.Raw}, PrivateKey: key, Leaf: leaf}, nil
}
