// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
)

// leafBackdate is how long before its issue a leaf becomes valid.
const leafBackdate = 10 * time.Minute

// Recognize reads back the record of a leaf that a restored ledger has lost, and
// the hash of its key. The CA must have signed it and it must follow the profile
// in every field. When it was to be renewed is not in it and is computed anew.
func Recognize(der []byte, operatorID string, ca *x509.Certificate) (rec Record, issuedAt time.Time, spki string, err error) {
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return rec, issuedAt, "", fmt.Errorf("parsing a leaf: %w", err)
	}
	pub, ok := leaf.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return rec, issuedAt, "", errors.New("the leaf's key is not an ECDSA key")
	}
	if err := leaf.CheckSignatureFrom(ca); err != nil {
		return rec, issuedAt, "", fmt.Errorf("checking a leaf's signature: %w", err)
	}
	if rec, err = recordOf(leaf, operatorID); err != nil {
		return rec, issuedAt, "", err
	}
	want, err := Template(rec, slices.Contains(leaf.DNSNames, "localhost"))
	if err != nil {
		return rec, issuedAt, "", err
	}
	if err := Check(der, want, pub, &CA{Cert: ca}); err != nil {
		return rec, issuedAt, "", err
	}
	issuedAt = rec.NotBefore.Add(leafBackdate)
	life := rec.NotAfter.Sub(issuedAt)
	rec.RenewAfter = issuedAt.Add((life / 3).Truncate(time.Second))
	rec.RenewBy = rec.RenewAfter.Add((life / 15).Truncate(time.Second))
	spki, err = SPKIHash(pub)
	return rec, issuedAt, spki, err
}

// recordOf reads whose leaf it says it is.
func recordOf(leaf *x509.Certificate, operatorID string) (Record, error) {
	rec := Record{
		OperatorID: operatorID, Serial: hex.EncodeToString(leaf.SerialNumber.Bytes()),
		NotBefore: leaf.NotBefore.UTC(), NotAfter: leaf.NotAfter.UTC(),
	}
	switch {
	case slices.Equal(leaf.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}):
		rec.Role, rec.Kind, rec.HolderID, rec.Holder = controlapi.RoleReceiver, controlapi.KindOperator, operatorID, operatorID
		return rec, nil
	case len(leaf.URIs) != 1:
		return rec, errors.New("the leaf is of no role")
	}
	domain, kind, holderID, ok := identity.ParseSenderURI(leaf.URIs[0])
	if !ok || domain != operatorID {
		return rec, errors.New("the leaf names no sender of this operator")
	}
	rec.Role, rec.Kind, rec.HolderID, rec.Holder = controlapi.RoleSender, kind, holderID, identity.SenderName(operatorID, holderID)
	return rec, nil
}
