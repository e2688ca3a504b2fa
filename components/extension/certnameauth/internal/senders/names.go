// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package senders

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/big"
	"net/url"
	"strings"
)

// Canonical brings a DNS name or common name into the one form in which names of
// a list and of a certificate are compared: no white space around it, ASCII
// letters in lower case, no dot at the end. Letters beyond ASCII stay as they
// are, so that no look-alike folds onto a name.
func Canonical(name string) string {
	return strings.TrimSuffix(lowerASCII(strings.TrimSpace(name)), ".")
}

// CanonicalURI does the same for a URI: scheme and host in lower case, no dot at
// the end of the host. The path is compared as it stands. ok is false for text
// that is no absolute URI with a host.
func CanonicalURI(uri string) (canonical string, ok bool) {
	u, err := url.Parse(strings.TrimSpace(uri))
	if err != nil || u.Scheme == "" || u.Host == "" {
		return "", false
	}
	return canonicalURL(u), true
}

func canonicalURL(u *url.URL) string {
	own := *u
	own.Scheme = lowerASCII(u.Scheme)
	own.Host = strings.TrimSuffix(lowerASCII(u.Host), ".")
	return own.String()
}

// Wildcard says that a name stands for others. Such a name matches nobody.
func Wildcard(name string) bool { return strings.Contains(name, "*") }

func lowerASCII(s string) string {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			return strings.Map(func(r rune) rune {
				if 'A' <= r && r <= 'Z' {
					return r + 'a' - 'A'
				}
				return r
			}, s)
		}
	}
	return s
}

// Serial is a certificate's serial number as a map key: its bytes, aligned to
// the right. A number of more than 20 bytes, which RFC 5280 forbids, becomes a
// hash.
type Serial [20]byte

// SerialOf is the key of a serial number.
func SerialOf(n *big.Int) (s Serial) {
	if n == nil {
		return s
	}
	if n.BitLen() <= len(s)*8 {
		n.FillBytes(s[:])
		return s
	}
	return serialOfBytes(n.Bytes())
}

// ParseSerial reads a serial as policies and reports write it: hex of even
// length.
func ParseSerial(text string) (Serial, error) {
	raw, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil || len(raw) == 0 {
		return Serial{}, errors.New("not a serial number in hex of even length")
	}
	for len(raw) > 1 && raw[0] == 0 {
		raw = raw[1:]
	}
	return serialOfBytes(raw), nil
}

func serialOfBytes(raw []byte) (s Serial) {
	if len(raw) <= len(s) {
		copy(s[len(s)-len(raw):], raw)
		return s
	}
	sum := sha256.Sum256(raw)
	copy(s[:], sum[:])
	return s
}

// SerialText is the serial of a certificate as it is written everywhere:
// lower-case hex of even length.
func SerialText(n *big.Int) string {
	if n == nil {
		return ""
	}
	return hex.EncodeToString(n.Bytes())
}
