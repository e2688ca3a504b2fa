// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/x509"
	"fmt"
	"math/big"
	"time"
)

// CRLLife is how long a revocation list of a living operator is good; it is made
// again with every change and well before its end.
const CRLLife = 24 * time.Hour

// RevokedLeaf is one line of a revocation list. Reason is the ledger's word.
type RevokedLeaf struct {
	Serial    string // lower-case hex
	RevokedAt time.Time
	Reason    string
}

// CRLNumber orders revocation lists as policies are ordered: by epoch, then by
// number.
func CRLNumber(epoch, number int64) *big.Int {
	n := new(big.Int).Lsh(big.NewInt(epoch), 64)
	return n.Add(n, big.NewInt(number))
}

// SignCRL signs a revocation list (RFC 5280, version 2) and returns its DER. A
// nextUpdate after the CA's end is cut to it; give the CA's end for a last list.
func SignCRL(ca *CA, number *big.Int, revoked []RevokedLeaf, thisUpdate, nextUpdate time.Time) ([]byte, error) {
	if nextUpdate.After(ca.Cert.NotAfter) {
		nextUpdate = ca.Cert.NotAfter
	}
	t := &x509.RevocationList{
		Number:     number,
		ThisUpdate: thisUpdate.UTC().Truncate(time.Second),
		NextUpdate: nextUpdate.UTC().Truncate(time.Second),
	}
	for _, r := range revoked {
		serial, ok := new(big.Int).SetString(r.Serial, 16)
		if !ok {
			return nil, fmt.Errorf("signing a revocation list: serial %q is not hex", r.Serial)
		}
		t.RevokedCertificateEntries = append(t.RevokedCertificateEntries, x509.RevocationListEntry{
			SerialNumber:   serial,
			RevocationTime: r.RevokedAt.UTC().Truncate(time.Second),
			ReasonCode:     reasonCodes[r.Reason],
		})
	}
	der, err := x509.CreateRevocationList(nil, t, ca.Cert, ca.Key)
	if err != nil {
		return nil, fmt.Errorf("signing a revocation list: %w", err)
	}
	return der, nil
}

// reasonCodes are the CRL reasons (RFC 5280, 5.3.1) of the ledger's words; any
// other word is unspecified, which is written as no reason at all.
var reasonCodes = map[string]int{
	"compromised": 1, // keyCompromise
	"replaced":    4, // superseded
	"retired":     5, // cessationOfOperation
}
