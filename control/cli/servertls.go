// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/ikhnos/continuum/control/pki"
)

const (
	// serverLeafLife is the life of a certificate that the server makes for itself;
	// it is made anew when a third of that is left.
	serverLeafLife = 90 * 24 * time.Hour
	// certificateCheck is how often certificate files are looked at, at most.
	certificateCheck = time.Second
)

// serverTLS holds the server's own certificate: one of its own CA, renewed in
// memory, or one from files, read again when they change.
type serverTLS struct {
	now       func() time.Time
	log       *slog.Logger
	ca        *pki.CA // nil with files
	names     []string
	cert, key string // files

	mu      sync.Mutex
	current *tls.Certificate // guarded by mu
	checked time.Time        // guarded by mu
	seen    [2][]byte        // what the files held then, guarded by mu
}

func newServerTLS(cfg *serverConfig, ca *pki.CA, now func() time.Time, log *slog.Logger) (*serverTLS, error) {
	t := &serverTLS{now: now, log: log, cert: cfg.tlsCert, key: cfg.tlsKey, names: serverNames(cfg)}
	if cfg.tlsCert == "" {
		t.ca = ca
	} else if _, err := tls.LoadX509KeyPair(t.cert, t.key); err != nil {
		return nil, &explained{what: "cannot use the server's certificate", why: err.Error(), do: "check --tls-cert and --tls-key", err: err}
	}
	_, err := t.certificate()
	return t, err
}

// serverNames are the names of a certificate that the server makes for itself.
func serverNames(cfg *serverConfig) []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
	add := func(host string) {
		if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) && !slices.Contains(names, host) {
			names = append(names, host)
		}
	}
	if cfg.publicURL != nil {
		add(cfg.publicURL.Hostname())
	}
	for _, address := range []string{cfg.listen, cfg.adminListen} {
		host, _, _ := net.SplitHostPort(address)
		add(host)
	}
	return names
}

func (t *serverTLS) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return t.certificate() },
	}
}

// certificate returns the certificate to show now.
func (t *serverTLS) certificate() (*tls.Certificate, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if t.ca == nil {
		return t.fromFiles(now)
	}
	if t.current != nil && t.current.Leaf.NotAfter.Sub(now) > serverLeafLife/3 {
		return t.current, nil
	}
	leaf, err := pki.NewServerLeaf(t.ca, t.names, now, serverLeafLife)
	if err != nil && t.current == nil {
		return nil, err
	}
	if err != nil {
		t.log.Warn("renewing the server's certificate failed", slog.Any("error", err))
		return t.current, nil
	}
	t.current = leaf
	return leaf, nil
}

// fromFiles looks at what the files hold, because dates of files may stand still when
// a folder is swapped behind them. It keeps the last good pair when they cannot be
// used: a half-written file must not cut everybody off. The caller holds mu.
func (t *serverTLS) fromFiles(now time.Time) (*tls.Certificate, error) {
	if t.current != nil && now.Sub(t.checked) < certificateCheck {
		return t.current, nil
	}
	t.checked = now
	cert, certErr := os.ReadFile(t.cert)
	key, keyErr := os.ReadFile(t.key)
	err := errors.Join(certErr, keyErr)
	if err == nil && (!bytes.Equal(cert, t.seen[0]) || !bytes.Equal(key, t.seen[1])) {
		var pair tls.Certificate
		if pair, err = tls.X509KeyPair(cert, key); err == nil {
			t.current, t.seen = &pair, [2][]byte{cert, key}
		}
	}
	if err != nil && t.current != nil {
		t.log.Warn("reading the server's certificate again failed", slog.Any("error", err))
		err = nil
	}
	return t.current, err
}

// pin is what clients pass as --ca-pin: the server CA, or the last certificate of
// the file.
func (t *serverTLS) pin() (string, error) {
	if t.ca != nil {
		return pki.Pin(t.ca.Cert), nil
	}
	pair, err := t.certificate()
	if err != nil {
		return "", err
	}
	return pinOfChain(pair.Certificate)
}

// notAfter is the end of the certificate that is shown now.
func (t *serverTLS) notAfter() time.Time {
	pair, err := t.certificate()
	if err != nil || pair.Leaf == nil {
		return time.Time{}
	}
	return pair.Leaf.NotAfter
}
