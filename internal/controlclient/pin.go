// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package controlclient

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

const pinPrefix = "sha256:"

// ErrPinMismatch says that no certificate which the server presented carries a
// pinned key: another server answered, or the server's CA was replaced and the
// pin was not.
var ErrPinMismatch = errors.New("the server presents none of the pinned keys (pin_mismatch)")

var errHostUnknown = errors.New("the name of the server is not known, so its certificate cannot be verified")

// pinSet holds SHA-256 hashes of public keys.
type pinSet map[[sha256.Size]byte]struct{}

func parsePins(pins []string) (pinSet, error) {
	set := pinSet{}
	for _, pin := range pins {
		text, ok := strings.CutPrefix(strings.TrimSpace(pin), pinPrefix)
		raw, err := hex.DecodeString(text)
		if !ok || err != nil || len(raw) != sha256.Size {
			return nil, errPinForm
		}
		set[[sha256.Size]byte(raw)] = struct{}{}
	}
	return set, nil
}

// PinnedTransport returns a transport for programs that are no collectors.
// Certificates of the presented chain whose key is pinned are the only roots;
// with base.RootCAs both must hold. base may be nil. Without base.ServerName
// the name to verify is the host that is dialled.
func PinnedTransport(pins []string, base *tls.Config) (*http.Transport, error) {
	set, err := parsePins(pins)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if base != nil {
		transport.TLSClientConfig = base.Clone()
	}
	if len(set) == 0 {
		return transport, nil
	}
	serverName := transport.TLSClientConfig.ServerName
	set.apply(transport.TLSClientConfig, serverName)
	if serverName == "" {
		transport.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, fmt.Errorf("dialling the server: %w", err)
			}
			config := transport.TLSClientConfig.Clone()
			config.ServerName = host
			set.apply(config, host)
			dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: defaultTimeout}, Config: config}
			return dialer.DialContext(ctx, network, address)
		}
	}
	return transport, nil
}

// apply replaces the verification of config by ours. serverName is needed
// because a connection to an IP address does not remember whom it was for.
func (s pinSet) apply(config *tls.Config, serverName string) {
	roots, clock := config.RootCAs, config.Time
	if clock == nil {
		clock = time.Now
	}
	config.InsecureSkipVerify = true // the standard check alone; VerifyConnection makes it, with other roots
	config.VerifyConnection = func(state tls.ConnectionState) error {
		name := serverName
		if name == "" {
			name = state.ServerName
		}
		return s.verify(state.PeerCertificates, name, roots, clock())
	}
}

// verify checks a presented chain, leaf first: against the pinned certificates
// in it, and against roots too when they are given.
func (s pinSet) verify(chain []*x509.Certificate, serverName string, roots *x509.CertPool, now time.Time) error {
	if serverName == "" {
		return errHostUnknown
	}
	pinned, rest := x509.NewCertPool(), x509.NewCertPool()
	found := false
	for i, cert := range chain {
		if _, ok := s[sha256.Sum256(cert.RawSubjectPublicKeyInfo)]; ok {
			pinned.AddCert(cert)
			found = true
		}
		if i > 0 {
			rest.AddCert(cert)
		}
	}
	if !found {
		return ErrPinMismatch
	}
	options := x509.VerifyOptions{DNSName: serverName, Roots: pinned, Intermediates: rest, CurrentTime: now}
	if _, err := chain[0].Verify(options); err != nil {
		return fmt.Errorf("verifying the server by its pin: %w", err)
	}
	if roots == nil {
		return nil
	}
	options.Roots = roots
	if _, err := chain[0].Verify(options); err != nil {
		return fmt.Errorf("verifying the server by ca_file: %w", err)
	}
	return nil
}
