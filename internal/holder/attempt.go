// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/ikhnos/continuum/internal/certfile"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
)

// Result is how a successful attempt ended.
type Result struct {
	Operation Operation
	Outcome   Outcome // OutcomeIssued or OutcomeAdopted
}

var errNoToken = errors.New("there is no certificate and no enrolment token: mint one with ikhnos token create")

// Attempt tries once to get a successor of the certificate, or a first one: it
// adopts a newer one from the store, else renews, else enrols. The error is
// always a *Failure.
func (h *Holder) Attempt(ctx context.Context) (Result, error) {
	op := OperationRenew
	if h.current() == nil {
		op = OperationEnroll
	}
	result, failure := h.attempt(ctx, op)
	h.mu.Lock()
	h.last = failure
	h.mu.Unlock()
	if failure != nil {
		return Result{Operation: failure.Operation, Outcome: failure.Outcome}, failure
	}
	return result, nil
}

func (h *Holder) attempt(ctx context.Context, op Operation) (Result, *Failure) {
	newer, pending, err := h.store.Begin(ctx, h.acceptable)
	if err != nil {
		return Result{}, storeFailure(op, err)
	}
	if newer != nil {
		if err := h.install(newer, false); err != nil {
			return Result{}, storeFailure(op, err)
		}
		return Result{op, OutcomeAdopted}, nil
	}
	key, err := parseKey(pending)
	if err != nil {
		return Result{}, storeFailure(op, err)
	}
	g, op, failure := h.ask(ctx, op, key)
	if failure != nil {
		if err := h.dropDeadKey(ctx, failure, pending); err != nil {
			return Result{}, storeFailure(op, err)
		}
		return Result{}, failure
	}
	g.Key = pending
	saved, err := h.store.Save(ctx, g, h.acceptable)
	if err != nil {
		return Result{}, storeFailure(op, err)
	}
	outcome := OutcomeIssued
	if string(saved.Certificate) != string(g.Certificate) {
		outcome = OutcomeAdopted
	}
	if err := h.install(saved, outcome == OutcomeIssued); err != nil {
		return Result{}, storeFailure(op, err)
	}
	return Result{op, outcome}, nil
}

// ask gets a checked certificate for key. A leaf that cannot be renewed any more
// gives way to the token, if there is one.
func (h *Holder) ask(ctx context.Context, op Operation, key *ecdsa.PrivateKey) (*certfile.Generation, Operation, *Failure) {
	csr, err := certificateRequest(key)
	if err != nil {
		return nil, op, storeFailure(op, err)
	}
	if op == OperationRenew {
		g, failure := h.renew(ctx, key, csr)
		if failure == nil || !leafIsDead(reasonOf(failure)) {
			return g, op, failure
		}
		g, enrolment := h.enroll(ctx, key, csr)
		if enrolment == nil || enrolment.Reason != ReasonTokenMissing {
			return g, OperationEnroll, enrolment
		}
		return nil, op, failure
	}
	g, failure := h.enroll(ctx, key, csr)
	return g, op, failure
}

// leafIsDead are the refusals after which only a token helps.
func leafIsDead(reason controlapi.Reason) bool {
	switch reason {
	case controlapi.ReasonLeafEnded, controlapi.ReasonLeafRevoked, controlapi.ReasonLeafUnknown, controlapi.ReasonLeafNotInLedger:
		return true
	}
	return false
}

// dropDeadKey forgets a pending key whose certificate was issued and has ended
// or was revoked meanwhile, or which the server knows under another name.
func (h *Holder) dropDeadKey(ctx context.Context, failure *Failure, pending []byte) error {
	switch reasonOf(failure) {
	case controlapi.ReasonKeyInUse, controlapi.ReasonLeafRevoked, controlapi.ReasonLeafEnded:
		return h.store.Drop(ctx, pending)
	}
	return nil
}

func (h *Holder) renew(ctx context.Context, key *ecdsa.PrivateKey, csr []byte) (*certfile.Generation, *Failure) {
	have := h.current()
	signer, err := have.generation.Signer()
	if err != nil {
		return nil, storeFailure(OperationRenew, err)
	}
	answer, err := h.set.Server.Renew(ctx, controlclient.Holder{Key: signer, Leaf: have.leaf.Raw}, csr)
	if err != nil {
		return nil, serverFailure(OperationRenew, err)
	}
	return h.check(ctx, OperationRenew, answer, key, func(r *received) error { return r.checkRenewal(have) })
}

func (h *Holder) enroll(ctx context.Context, key *ecdsa.PrivateKey, csr []byte) (*certfile.Generation, *Failure) {
	token, caSPKI, err := h.token()
	if err != nil {
		return nil, &Failure{Operation: OperationEnroll, Outcome: OutcomeRefused, Reason: ReasonTokenMissing, Person: true, err: err}
	}
	hash := tokenHash(token)
	if hash == h.deadToken {
		return nil, serverFailure(OperationEnroll, h.deadCause)
	}
	if have := h.current(); have != nil && hash == have.generation.Token {
		// Spent by ourselves: to send it again would look like a theft in the audit.
		return nil, serverFailure(OperationEnroll, controlapi.NewProblem(controlapi.ReasonTokenSpent, "The present certificate came by this token."))
	}
	replaces := h.replaces()
	if replaces != nil && !namesOneOf(caSPKI, replaces.authorities) {
		return nil, rejected(OperationEnroll, OutcomeInvalid, ReasonCAChanged, errTokenCA) // and the token is not spent
	}
	answer, err := h.set.Server.Enroll(ctx, token, csr)
	if err != nil {
		switch reasonOf(err) {
		case controlapi.ReasonTokenSpent, controlapi.ReasonTokenExpired, controlapi.ReasonTokenRevoked:
			h.deadToken, h.deadCause = hash, err // asking again would only fill the audit
		}
		return nil, serverFailure(OperationEnroll, err)
	}
	g, failure := h.check(ctx, OperationEnroll, answer, key, func(r *received) error {
		err := r.checkEnrolment(caSPKI)
		if err == nil && replaces != nil {
			err = r.checkRenewal(replaces)
		}
		return err
	})
	if failure != nil {
		return nil, failure
	}
	g.Token = hash
	if replaces != nil {
		g.CA = replaces.generation.CA
	}
	return g, nil
}

// replaces is the pair that an enrolment has to agree with: a good one. In the
// place of one that has ended anything may come.
func (h *Holder) replaces() *state {
	if !h.Usable() {
		return nil
	}
	return h.current()
}

// token reads the token and the hash of the CA that it names.
func (h *Holder) token() (string, []byte, error) {
	if h.set.Token == nil {
		return "", nil, errNoToken
	}
	text, err := h.set.Token()
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", errNoToken, err)
	}
	token, caSPKI, err := controlapi.ParseSecret(controlapi.SecretEnrollment, text)
	if err != nil {
		return "", nil, fmt.Errorf("reading the enrolment token: %w", err)
	}
	return token, caSPKI, nil
}

// check tests an answer before anything is replaced, and makes a generation of
// it, still without its key.
func (h *Holder) check(ctx context.Context, op Operation, answer *controlapi.Certificate, key *ecdsa.PrivateKey, more func(*received) error) (*certfile.Generation, *Failure) {
	r, err := parseAnswer(answer)
	if err == nil {
		err = r.checkLeaf(key.Public())
	}
	if err == nil {
		err = more(r)
	}
	switch {
	case errors.Is(err, errCAChanged) || errors.Is(err, errTokenCA):
		return nil, rejected(op, OutcomeInvalid, ReasonCAChanged, err)
	case err != nil:
		return nil, rejected(op, OutcomeInvalid, ReasonLeafRejected, err)
	}
	if err := h.awaitValid(ctx, r.leaf); err != nil {
		return nil, rejected(op, OutcomeClockSkew, string(controlapi.ReasonClockSkew), err)
	}
	ca := []byte(answer.CA)
	token := ""
	if op == OperationRenew {
		have := h.current().generation
		ca, token = have.CA, have.Token // the CA as it is, a bundle included
	}
	g := certfile.New([]byte(answer.Certificate), nil, ca)
	g.RenewAfter, g.RenewBy, g.Token = answer.RenewAfter, answer.RenewBy, token
	return g, nil
}

// certificateRequest is a PKCS#10 of which only the key counts.
func certificateRequest(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}
