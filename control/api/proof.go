// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/holderproof"
)

// verified is a holder proof that has passed everything but the ledger.
type verified struct {
	ledger.Proof
	leaf []byte // DER
}

// verifyProof checks a holder proof up to the ledger, in the contract's order:
// shape, the leaf's signature by one of our CAs, the proof's own signature and
// that it is for this very request, then the clock. A proof that only the clock
// is against comes back with that error.
func (s *Server) verifyProof(r *http.Request, route string, body []byte) (*verified, error) {
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return nil, proofInvalid("Exactly one Authorization header is needed.")
	}
	proof, err := holderproof.Parse(headers[0])
	if err != nil {
		return nil, proofInvalid(sentence(err))
	}
	operatorID, err := s.issuerOf(r.Context(), proof.Leaf)
	if err != nil {
		return nil, err
	}
	if err := proof.VerifySignature(); err != nil {
		return nil, proofInvalid(sentence(err))
	}
	if err := proof.Matches(holderproof.Request{Method: r.Method, Route: route, Body: body}); err != nil {
		return nil, proofInvalid(sentence(err))
	}
	key := sha256.Sum256(proof.Leaf.RawSubjectPublicKeyInfo)
	v := &verified{
		Proof: ledger.Proof{
			OperatorID: operatorID,
			Serial:     hex.EncodeToString(proof.Leaf.SerialNumber.Bytes()),
			SPKI:       hex.EncodeToString(key[:]),
			JTI:        proof.Claims.JTI,
			Expires:    time.Unix(proof.Claims.EXP, 0).UTC(),
		},
		leaf: proof.Leaf.Raw,
	}
	if err := proof.CheckClock(s.now()); err != nil {
		p := controlapi.NewProblem(controlapi.ReasonClockSkew, "")
		serverTime := controlapi.Seconds(s.now())
		p.ServerTime = &serverTime
		return v, p
	}
	return v, nil
}

func proofInvalid(detail string) error {
	return controlapi.NewProblem(controlapi.ReasonProofInvalid, detail)
}

// caNamePrefix is what the common name of every operator's CA starts with.
const caNamePrefix = "Ikhnos operator CA "

// issuerOf returns the operator whose CA signed the leaf, or leaf_unknown.
func (s *Server) issuerOf(ctx context.Context, leaf *x509.Certificate) (string, error) {
	operatorID, ok := strings.CutPrefix(leaf.Issuer.CommonName, caNamePrefix)
	if !ok {
		return "", controlapi.NewProblem(controlapi.ReasonLeafUnknown, "")
	}
	ca, err := s.authorities.get(ctx, operatorID)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(leaf.Raw)
	if s.genuine.has(sum) {
		return operatorID, nil
	}
	if ca == nil || !bytes.Equal(leaf.RawIssuer, ca.RawSubject) || leaf.CheckSignatureFrom(ca) != nil {
		return "", controlapi.NewProblem(controlapi.ReasonLeafUnknown, "")
	}
	s.genuine.add(sum)
	return operatorID, nil
}

// maxGenuine bounds each of the two generations of genuine leaves.
const maxGenuine = 1 << 15

// genuine remembers by their hash the leaves whose signature by one of our CAs
// was checked: an operator proves itself by the same leaf for every poll and
// report. Neither the leaf nor its CA can change; whether the leaf is still good
// is the ledger's to say.
type genuine struct {
	mu         sync.Mutex
	young, old map[[sha256.Size]byte]struct{} // guarded by mu
}

func (g *genuine) has(leaf [sha256.Size]byte) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, young := g.young[leaf]
	_, old := g.old[leaf]
	return young || old
}

// add remembers a leaf; when there are too many, those not added lately go.
func (g *genuine) add(leaf [sha256.Size]byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.young == nil || len(g.young) >= maxGenuine {
		g.old, g.young = g.young, map[[sha256.Size]byte]struct{}{}
	}
	g.young[leaf] = struct{}{}
}

// maxAuthorities bounds the CA certificates that are kept parsed.
const maxAuthorities = 1 << 14

// authorities keeps the CA certificates of operators. An operator never gets
// another CA and its id is never used again, so what is here stays right.
type authorities struct {
	read func(ctx context.Context, operatorID string) ([]byte, error) // nil DER: no such operator

	mu    sync.RWMutex
	certs map[string]*x509.Certificate // guarded by mu
}

// get returns the CA certificate of an operator, revoked and deleted ones
// included, or nil when there is no such operator.
func (a *authorities) get(ctx context.Context, operatorID string) (*x509.Certificate, error) {
	a.mu.RLock()
	ca := a.certs[operatorID]
	a.mu.RUnlock()
	if ca != nil {
		return ca, nil
	}
	der, err := a.read(ctx, operatorID)
	if err != nil || der == nil {
		return nil, err
	}
	if ca, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("parsing the CA certificate of an operator: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.certs == nil || len(a.certs) >= maxAuthorities {
		a.certs = map[string]*x509.Certificate{}
	}
	a.certs[operatorID] = ca
	return ca, nil
}
