// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certfile

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// ErrDamaged says that certificate, key and CA cannot be read or do not belong
// together.
var ErrDamaged = errors.New("certificate, key and CA are not a usable set")

// Generation is one set of certificate, key and CA, each PEM, the window in which
// the server wants it renewed (zero when nobody said), and the hash of the
// enrolment token that it, or the first one before it, came by (in hex).
type Generation struct {
	Certificate, Key, CA []byte
	RenewAfter, RenewBy  time.Time
	Token                string
}

// Window is the form of what a [Generation] has beside the files.
type window struct {
	RenewAfter time.Time `json:"renewAfter"`
	RenewBy    time.Time `json:"renewBy"`
	Token      string    `json:"token,omitempty"`
}

// Leaf returns the first certificate of tls.crt.
func (g *Generation) Leaf() (*x509.Certificate, error) {
	pair, err := g.pair()
	if err != nil {
		return nil, err
	}
	return pair.Leaf, nil
}

// Signer returns the private key.
func (g *Generation) Signer() (crypto.Signer, error) {
	pair, err := g.pair()
	if err != nil {
		return nil, err
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%w: the key cannot sign", ErrDamaged)
	}
	return signer, nil
}

// pair parses certificate and key and checks that they belong together.
func (g *Generation) pair() (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(g.Certificate, g.Key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%w: tls.crt and tls.key: %w", ErrDamaged, err)
	}
	return pair, nil
}

// Authorities returns the certificates of ca.crt, at least one.
func (g *Generation) Authorities() ([]*x509.Certificate, error) {
	return ParseCertificates(g.CA)
}

// Check reports whether the set is usable, with [ErrDamaged] if not. Dates do
// not count.
func (g *Generation) Check() error {
	if _, err := g.pair(); err != nil {
		return err
	}
	if _, err := g.Authorities(); err != nil {
		return fmt.Errorf("%w: ca.crt: %w", ErrDamaged, err)
	}
	return nil
}

// ParseCertificates reads the certificates of a PEM text, at least one. Other
// blocks and text between blocks are passed over.
func ParseCertificates(text []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	rest := normalize(text)
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parsing a certificate: %w", err)
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, errors.New("no certificate in it")
	}
	return certs, nil
}

// MarshalWindow encodes RenewAfter, RenewBy and Token the way they are kept
// beside the files; nil when nobody said.
func (g *Generation) MarshalWindow() []byte {
	if g.RenewAfter.IsZero() {
		return nil
	}
	text, _ := json.Marshal(window{g.RenewAfter.UTC(), g.RenewBy.UTC(), g.Token}) // times of this century always encode
	return append(text, '\n')
}

// UnmarshalWindow sets RenewAfter, RenewBy and Token from what MarshalWindow
// made. Anything else leaves them zero: there is a rule for that.
func (g *Generation) UnmarshalWindow(text []byte) {
	var w window
	if json.Unmarshal(text, &w) == nil {
		g.RenewAfter, g.RenewBy, g.Token = w.RenewAfter, w.RenewBy, w.Token
	}
}

// New makes a generation of PEM texts from any source; byte order marks and
// carriage returns are removed, because not every reader knows them.
func New(certificate, key, ca []byte) *Generation {
	return &Generation{Certificate: normalize(certificate), Key: normalize(key), CA: normalize(ca)}
}

func normalize(text []byte) []byte {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
}
