// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/signedpolicy"
)

// sign computes and signs the policy of an active operator from one state of the
// store.
func (h *Hub) sign(ctx context.Context, operatorID string) (signed *Signed, err error) {
	err = h.store.View(ctx, func(tx *ledger.Tx) error {
		in, err := operators.ReadPolicyInput(tx, operatorID)
		if err != nil {
			return err
		}
		if in.State != operators.OperatorActive { // revoked since the caller looked
			signed, err = parseLast(in.LastPolicy)
			return err
		}
		ca, err := h.keys.CA(operatorID, in.CACert, in.CAKey)
		if err != nil {
			return err
		}
		p, err := payload(tx, in, controlapi.PolicyEnforce)
		if err != nil {
			return err
		}
		p.Senders = in.Senders
		jws, err := signedpolicy.Sign(p, ca.Cert, ca.Key)
		signed = &Signed{Version: in.Version, JWS: jws, ETag: etagOf(in.Version)}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("computing the policy of an operator: %w", err)
	}
	return signed, nil
}

// payload is a policy without senders.
func payload(tx *ledger.Tx, in operators.PolicyInput, mode controlapi.PolicyMode) (*controlapi.Policy, error) {
	revoked, err := tx.RevokedSerials(in.OperatorID)
	if err != nil {
		return nil, fmt.Errorf("reading revoked serials: %w", err)
	}
	serials := make([]string, len(revoked))
	for i, r := range revoked {
		serials[i] = r.Serial
	}
	return &controlapi.Policy{
		OperatorID:     in.OperatorID,
		Version:        in.Version,
		IssuedAt:       tx.Now(),
		Mode:           mode,
		Operator:       controlapi.PolicyOperator{Name: in.Name, Labels: in.Labels},
		Senders:        []controlapi.PolicySender{},
		RevokedSerials: serials,
		CRL:            controlapi.RouteCRL(in.OperatorID),
	}, nil
}

// Last signs what a revoked operator goes on answering with: a policy that denies
// all, and a revocation list good to the end of its CA. It implements
// operators.LastWords.
func (h *Hub) Last(tx *ledger.Tx, operatorID string) (policy string, crl []byte, err error) {
	in, err := operators.ReadPolicyInput(tx, operatorID)
	if err != nil {
		return "", nil, err
	}
	ca, err := h.keys.CA(operatorID, in.CACert, in.CAKey)
	if err != nil {
		return "", nil, err
	}
	defer h.keys.Erase(operatorID)
	p, err := payload(tx, in, controlapi.PolicyDenyAll)
	if err != nil {
		return "", nil, err
	}
	if policy, err = signedpolicy.Sign(p, ca.Cert, ca.Key); err != nil {
		return "", nil, err
	}
	crl, err = crlOf(tx, ca, in.OperatorID, in.Version, ca.Cert.NotAfter)
	return policy, crl, err
}

// parseLast reads the version of a last policy, which this server signed itself.
func parseLast(jws string) (*Signed, error) {
	parts := strings.Split(jws, ".")
	if len(parts) != 3 {
		return nil, fmt.Errorf("reading a last policy: %d parts", len(parts))
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, fmt.Errorf("reading a last policy: %w", err)
	}
	var version controlapi.Version
	if err := json.Unmarshal(text, &version); err != nil {
		return nil, fmt.Errorf("reading a last policy: %w", err)
	}
	return &Signed{Version: version, JWS: jws, ETag: etagOf(version)}, nil
}

var _ operators.LastWords = (*Hub)(nil)
