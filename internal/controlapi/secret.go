// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package controlapi

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
)

// SecretKind is the prefix that tells what a secret opens.
type SecretKind string

// Kinds of secret.
const (
	SecretAdmin      SecretKind = "ikadm_"
	SecretEnrollment SecretKind = "iktok_"
	SecretHeartbeat  SecretKind = "ikhb_"
)

const (
	secretRandomBytes = 32
	// SPKIPrefixBytes is how much of the operator CA's SPKI hash an enrolment
	// token carries, for the client to compare.
	SPKIPrefixBytes = 16
)

// errSecretMalformed never repeats the secret.
var errSecretMalformed = errors.New("not a secret of this kind, or mistyped: its checksum is wrong")

// NewSecret makes a secret of 256 random bits and a CRC-32 checksum. An
// enrolment token also carries the first SPKIPrefixBytes of caSPKI, the SHA-256
// of its operator CA's public key; other kinds take nil.
func NewSecret(kind SecretKind, caSPKI []byte) string {
	raw := make([]byte, secretRandomBytes, secretRandomBytes+SPKIPrefixBytes+4)
	_, _ = rand.Read(raw) // never fails: crypto/rand ends the process instead
	if kind == SecretEnrollment {
		raw = append(raw, caSPKI[:SPKIPrefixBytes]...)
	}
	raw = binary.BigEndian.AppendUint32(raw, crc32.ChecksumIEEE(raw))
	return string(kind) + base64.RawURLEncoding.EncodeToString(raw)
}

// ParseSecret checks prefix, length and checksum of s, white space around it
// ignored, and returns its canonical text. For an enrolment token it also
// returns the prefix of the CA's SPKI hash.
func ParseSecret(kind SecretKind, s string) (canonical string, caSPKI []byte, err error) {
	s = strings.TrimSpace(s)
	body, ok := strings.CutPrefix(s, string(kind))
	if !ok {
		return "", nil, errSecretMalformed
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(body)
	want := secretRandomBytes + 4
	if kind == SecretEnrollment {
		want += SPKIPrefixBytes
	}
	if err != nil || len(raw) != want {
		return "", nil, errSecretMalformed
	}
	payload, sum := raw[:len(raw)-4], raw[len(raw)-4:]
	if binary.BigEndian.Uint32(sum) != crc32.ChecksumIEEE(payload) {
		return "", nil, errSecretMalformed
	}
	if kind == SecretEnrollment {
		caSPKI = payload[secretRandomBytes:]
	}
	return s, caSPKI, nil
}

// HashSecret returns the SHA-256 under which the server keeps a canonical
// secret. A plain hash suffices: the secret has 256 random bits.
func HashSecret(canonical string) []byte {
	sum := sha256.Sum256([]byte(canonical))
	return sum[:]
}
