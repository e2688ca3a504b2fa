// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"fmt"
	"time"

	"github.com/ikhnos/continuum/control/pki"
)

// SealedCAs makes operator CAs and seals their keys under the server's
// passphrase (PK-1, PK-8).
type SealedCAs struct {
	Sealer *pki.Sealer
}

// New makes the CA of one operator; see CAs.
func (s SealedCAs) New(operatorID string, now time.Time) (certDER, sealedKey []byte, spki string, err error) {
	ca, err := pki.NewOperatorCA(operatorID, now)
	if err != nil {
		return nil, nil, "", err
	}
	if sealedKey, err = s.Sealer.SealKey(operatorID, ca.Key); err != nil {
		return nil, nil, "", fmt.Errorf("sealing a CA key: %w", err)
	}
	if spki, err = pki.SPKIHash(&ca.Key.PublicKey); err != nil {
		return nil, nil, "", err
	}
	return ca.Cert.Raw, sealedKey, spki, nil
}
