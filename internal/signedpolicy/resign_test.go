// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package signedpolicy

import (
	"crypto"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
)

// resign puts a good signature under any header and payload.
func resign(t *testing.T, key crypto.Signer, text string) string {
	t.Helper()
	digest := sha256.Sum256([]byte(text))
	der, err := key.Sign(nil, digest[:], crypto.SHA256)
	require.NoError(t, err)
	var sig struct{ R, S *big.Int }
	_, err = asn1.Unmarshal(der, &sig)
	require.NoError(t, err)
	var raw [64]byte
	sig.R.FillBytes(raw[:32])
	sig.S.FillBytes(raw[32:])
	return text + "." + base64.RawURLEncoding.EncodeToString(raw[:])
}
