// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package controlapi

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Problem is the body of every error answer: RFC 9457 with a reason from the
// closed list, whether a retry can help, and what to do. Title says what is wrong,
// Detail why, of the case itself where more is known. Neither repeats input or a
// secret; an object is named only as the server has it, to those who may read it.
type Problem struct {
	Type       string       `json:"type"`
	Title      string       `json:"title"`
	Status     int          `json:"status"`
	Detail     string       `json:"detail"`
	Reason     Reason       `json:"reason"`
	Retryable  bool         `json:"retryable"`
	Remedy     string       `json:"remedy"`
	RequestID  string       `json:"requestId"`
	ServerTime *time.Time   `json:"serverTime,omitempty"`
	Errors     []FieldError `json:"errors,omitempty"`
	Dependents *Dependents  `json:"dependents,omitempty"`
}

// FieldError names one field of a request that breaks a rule.
type FieldError struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// Dependents are what still uses an operator that somebody wants to remove:
// operators by name, and how many clusters and other things.
type Dependents struct {
	Operators []string `json:"operators"`
	Clusters  int      `json:"clusters"`
}

// NewProblem returns the problem of a reason. An empty detail becomes the
// reason's title; the server answers [ReasonInfo.Detail] in its place.
func NewProblem(r Reason, detail string) *Problem {
	info := r.Info()
	if detail == "" {
		detail = info.Title
	}
	return &Problem{
		Type:      "/help/errors/" + string(r),
		Title:     info.Title,
		Status:    info.Status,
		Detail:    detail,
		Reason:    r,
		Retryable: info.Retryable,
		Remedy:    info.Remedy,
	}
}

// Invalid returns the validation_failed of fields that break a rule.
func Invalid(faults ...FieldError) *Problem {
	var fields []string
	for _, fault := range faults {
		if !slices.Contains(fields, fault.Field) {
			fields = append(fields, fault.Field)
		}
	}
	p := NewProblem(ReasonValidationFailed, "These fields break a rule: "+strings.Join(fields, ", ")+". Each stands under errors with its rule.")
	p.Errors = faults
	return p
}

// Error makes a problem an error, in one line with its reason.
func (p *Problem) Error() string { return fmt.Sprintf("%s (reason: %s)", p.Detail, p.Reason) }
