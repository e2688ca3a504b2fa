// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/crypto/argon2"
)

// Errors of opening a sealer.
var (
	ErrPassphraseMissing = errors.New("the keys are sealed and no passphrase was given")
	ErrPassphraseWrong   = errors.New("the passphrase is wrong")
	// ErrNotSealed: a passphrase was given, but the keys are stored plain.
	ErrNotSealed = errors.New("a passphrase was given, but the keys are stored without one; seal them with: ikhnos passphrase change")
)

// SealCost is the work of argon2id. It is paid once per start.
type SealCost struct {
	Time      uint32 `json:"time"`
	MemoryKiB uint32 `json:"memoryKiB"`
	Threads   uint8  `json:"threads"`
}

// DefaultSealCost is the second recommended choice of RFC 9106.
var DefaultSealCost = SealCost{Time: 3, MemoryKiB: 64 << 10, Threads: 4}

// sealSetting is the stored form of how keys are sealed, JSON.
type sealSetting struct {
	KDF   string   `json:"kdf"` // argon2id or none
	Cost  SealCost `json:"cost"`
	Salt  []byte   `json:"salt,omitempty"`
	Check []byte   `json:"check,omitempty"` // the sealed checkText
}

const (
	kdfNone     = "none"
	kdfArgon2id = "argon2id"
	checkRow    = "passphrase check"
	checkText   = "continuum"

	formPlain  = 0 // first byte of a stored key: PKCS #8 follows
	formSealed = 1 // nonce and AES-256-GCM ciphertext follow
)

// Sealer seals private keys for the store. Its key-encryption key is derived
// once; a sealer without a passphrase stores plain keys, marked as such.
type Sealer struct {
	aead cipher.AEAD // nil: plain
}

// SettingSealing is the name under which a store keeps its seal setting.
const SettingSealing = "key_sealing"

// SettingSealed reports whether keys are sealed under a stored seal setting.
func SettingSealed(setting []byte) bool {
	var st sealSetting
	return json.Unmarshal(setting, &st) == nil && st.KDF != kdfNone && st.KDF != ""
}

// NewSealSetting chooses how a new store seals its keys and returns the setting
// to keep with it. An empty passphrase means plain keys.
func NewSealSetting(passphrase []byte, cost SealCost) ([]byte, error) {
	setting := sealSetting{KDF: kdfNone}
	if len(passphrase) > 0 {
		setting = sealSetting{KDF: kdfArgon2id, Cost: cost, Salt: make([]byte, 16)}
		_, _ = rand.Read(setting.Salt) // never fails
		s, err := derive(passphrase, setting)
		if err != nil {
			return nil, err
		}
		setting.Check = s.Seal(checkRow, []byte(checkText))
	}
	raw, err := json.Marshal(setting)
	if err != nil {
		return nil, fmt.Errorf("encoding the seal setting: %w", err)
	}
	return raw, nil
}

// OpenSealer returns the sealer of a stored setting. A wrong or missing
// passphrase, and one that is not needed, is an error.
func OpenSealer(passphrase, setting []byte) (*Sealer, error) {
	var st sealSetting
	if err := json.Unmarshal(setting, &st); err != nil {
		return nil, fmt.Errorf("reading the seal setting: %w", err)
	}
	switch {
	case st.KDF == kdfNone && len(passphrase) == 0:
		return &Sealer{}, nil
	case st.KDF == kdfNone:
		return nil, ErrNotSealed
	case st.KDF != kdfArgon2id:
		return nil, fmt.Errorf("reading the seal setting: unknown key derivation %q", st.KDF)
	case len(passphrase) == 0:
		return nil, ErrPassphraseMissing
	}
	s, err := derive(passphrase, st)
	if err != nil {
		return nil, err
	}
	if text, err := s.Open(checkRow, st.Check); err != nil || string(text) != checkText {
		return nil, ErrPassphraseWrong
	}
	return s, nil
}

func derive(passphrase []byte, st sealSetting) (*Sealer, error) {
	if st.Cost.Time < 1 || st.Cost.Threads < 1 || st.Cost.MemoryKiB > 4<<20 || len(st.Salt) < 16 {
		return nil, errors.New("reading the seal setting: its argon2id parameters are out of range")
	}
	key := argon2.IDKey(passphrase, st.Salt, st.Cost.Time, st.Cost.MemoryKiB, st.Cost.Threads, 32)
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("making the key-encryption key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("making the key-encryption key: %w", err)
	}
	return &Sealer{aead: aead}, nil
}

// Sealed reports whether keys are sealed, not plain.
func (s *Sealer) Sealed() bool { return s.aead != nil }

// Seal returns the stored form of a secret that belongs to row; it opens under
// no other row.
func (s *Sealer) Seal(row string, secret []byte) []byte {
	if s.aead == nil {
		return append([]byte{formPlain}, secret...)
	}
	return s.aead.Seal([]byte{formSealed}, nil, secret, []byte(row)) //nolint:gosec // the AEAD draws its nonce itself and takes none
}

// Open returns the secret of a stored form.
func (s *Sealer) Open(row string, stored []byte) ([]byte, error) {
	switch {
	case len(stored) == 0:
		return nil, errors.New("there is no sealed key")
	case stored[0] == formPlain && s.aead == nil:
		return stored[1:], nil
	case stored[0] == formSealed && s.aead != nil:
		secret, err := s.aead.Open(nil, nil, stored[1:], []byte(row))
		if err != nil {
			return nil, fmt.Errorf("opening a sealed key: %w", err)
		}
		return secret, nil
	}
	return nil, errors.New("a stored key is not in the form that this server's setting names")
}

// SealKey seals a private key for row: the operator's id.
func (s *Sealer) SealKey(row string, key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return s.Seal(row, der), nil
}

// OpenKey opens what SealKey sealed.
func (s *Sealer) OpenKey(row string, stored []byte) (*ecdsa.PrivateKey, error) {
	der, err := s.Open(row, stored)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("parsing a sealed key: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("a sealed key is not an ECDSA key")
	}
	return key, nil
}

// Reseal moves a stored secret of row from this sealer to another one, when the
// passphrase changes.
func (s *Sealer) Reseal(to *Sealer, row string, stored []byte) ([]byte, error) {
	secret, err := s.Open(row, stored)
	if err != nil {
		return nil, err
	}
	return to.Seal(row, secret), nil
}
