// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/policystate"
	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/senders"
	"github.com/ikhnos/continuum/internal/controlclient"
)

var errProofKey = errors.New("the key of the receiver's certificate cannot sign")

// holder reads the receiver's pair, for one call. Between two generations the
// files may not match for a moment; the next try finds them whole.
func (p *ProofConfig) holder() (controlclient.Holder, *x509.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(p.CertFile, p.KeyFile)
	if err != nil {
		return controlclient.Holder{}, nil, fmt.Errorf("reading the receiver's certificate: %w", err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return controlclient.Holder{}, nil, errProofKey
	}
	return controlclient.Holder{Key: key, Leaf: pair.Certificate[0]}, pair.Leaf, nil
}

// verifier reads the CA that signs policies.
func (p *ProofConfig) verifier(operatorID string) (policystate.Verifier, error) {
	data, err := os.ReadFile(p.CAFile)
	if err != nil {
		return policystate.Verifier{}, fmt.Errorf("reading the operator's CA: %w", err)
	}
	cas, err := senders.ParseCertificates(data)
	if err != nil {
		return policystate.Verifier{}, fmt.Errorf("reading the operator's CA: %w", err)
	}
	return policystate.Verifier{CAs: cas, OperatorID: operatorID}, nil
}
