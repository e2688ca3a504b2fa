// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"errors"
	"fmt"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
)

// Operation is what an attempt asked the server for.
type Operation string

// Operations.
const (
	OperationEnroll Operation = "enroll"
	OperationRenew  Operation = "renew"
)

// Outcome is how an attempt ended, the value of the metric's attribute.
type Outcome string

// Outcomes.
const (
	OutcomeIssued      Outcome = "issued"
	OutcomeAdopted     Outcome = "adopted"
	OutcomeRefused     Outcome = "refused"
	OutcomeUnreachable Outcome = "unreachable"
	OutcomeClockSkew   Outcome = "clock_skew"
	OutcomeInvalid     Outcome = "invalid"
	OutcomeWriteFailed Outcome = "write_failed"
)

// Reasons that only a holder has; the others are the server's.
const (
	ReasonCAChanged         = "ca_changed"
	ReasonLeafRejected      = "leaf_rejected"
	ReasonPinMismatch       = "pin_mismatch"
	ReasonSecretConflict    = "secret_conflict"
	ReasonServerUnreachable = "server_unreachable"
	ReasonTokenMissing      = "token_missing"
	ReasonWriteFailed       = "write_failed"
)

// Failure is why an attempt did not end in a certificate. Person says that
// trying again alone does not help: somebody has to do something first.
type Failure struct {
	Operation Operation
	Outcome   Outcome
	Reason    string
	Person    bool

	err error
}

// Error is the cause in one line, without any secret.
func (f *Failure) Error() string { return f.err.Error() }

// Unwrap returns the cause: a *controlapi.Problem when the server refused.
func (f *Failure) Unwrap() error { return f.err }

// serverFailure classifies what a call returned.
func serverFailure(op Operation, err error) *Failure {
	f := &Failure{Operation: op, Outcome: OutcomeUnreachable, Reason: ReasonServerUnreachable, err: err}
	var problem *controlapi.Problem
	switch {
	case errors.As(err, &problem) && problem.Reason == controlapi.ReasonClockSkew:
		f.Outcome, f.Reason = OutcomeClockSkew, string(problem.Reason)
	case errors.As(err, &problem) && problem.Status >= 500:
		f.Reason = string(problem.Reason)
	case errors.As(err, &problem):
		f.Outcome, f.Reason, f.Person = OutcomeRefused, string(problem.Reason), !problem.Retryable
	case errors.Is(err, controlclient.ErrPinMismatch):
		f.Reason, f.Person = ReasonPinMismatch, true
	}
	return f
}

// rejected is for an answer, or a token, that is not used.
func rejected(op Operation, outcome Outcome, reason string, err error) *Failure {
	return &Failure{Operation: op, Outcome: outcome, Reason: reason, Person: outcome == OutcomeInvalid,
		err: fmt.Errorf("checking the new certificate: %w", err)}
}

// storeFailure is for a directory or a Secret that could not be read or written.
func storeFailure(op Operation, err error) *Failure {
	f := &Failure{Operation: op, Outcome: OutcomeWriteFailed, Reason: ReasonWriteFailed, err: err}
	if errors.Is(err, ErrSecretConflict) {
		f.Reason = ReasonSecretConflict
	}
	return f
}

func reasonOf(err error) controlapi.Reason {
	var problem *controlapi.Problem
	if errors.As(err, &problem) {
		return problem.Reason
	}
	return ""
}
