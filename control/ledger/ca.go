// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"time"
)

// caFacts is what issuing needs to know of a CA certificate.
type caFacts struct {
	issuer   string // subject key id, lower-case hex
	notAfter time.Time
}

// RecordCA appends the ca_created event of an operator's new CA.
func (tx *Tx) RecordCA(operatorID string, caDER []byte) error {
	cert, err := x509.ParseCertificate(caDER)
	if err != nil {
		return fmt.Errorf("parsing a CA certificate: %w", err)
	}
	spki := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	_, err = tx.Append(operatorID, map[string]any{
		"type":       EventCACreated,
		"issuer":     hex.EncodeToString(cert.SubjectKeyId),
		"spkiSha256": hex.EncodeToString(spki[:]),
		"notBefore":  cert.NotBefore.UTC().Format(time.RFC3339),
		"notAfter":   cert.NotAfter.UTC().Format(time.RFC3339),
	})
	return err
}

// EraseCA erases an operator's CA key and appends the ca_erased event. After the
// commit the key is in none of SQLite's files.
func (tx *Tx) EraseCA(operatorID string) error {
	if _, err := tx.Exec(`UPDATE operators SET client_ca_key = NULL WHERE id = $1`, operatorID); err != nil {
		return fmt.Errorf("erasing a CA key: %w", err)
	}
	tx.Scrub()
	_, err := tx.Append(operatorID, map[string]any{"type": EventCAErased})
	return err
}

// caFacts parses an operator's CA certificate once; it never changes, and ids are
// never used again.
func (s *Store) caFacts(operatorID string, caDER []byte) (caFacts, error) {
	s.caMu.RLock()
	facts, ok := s.cas[operatorID]
	s.caMu.RUnlock()
	if ok {
		return facts, nil
	}
	cert, err := x509.ParseCertificate(caDER)
	if err != nil {
		return caFacts{}, fmt.Errorf("parsing a CA certificate: %w", err)
	}
	facts = caFacts{issuer: hex.EncodeToString(cert.SubjectKeyId), notAfter: cert.NotAfter.UTC()}
	s.caMu.Lock()
	defer s.caMu.Unlock()
	s.cas[operatorID] = facts
	return facts, nil
}
