// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"go.opentelemetry.io/collector/consumer/consumererror"
)

// reason says why items were not passed on. It indexes counts.refused.
type reason int

const (
	reasonNone reason = iota
	reasonNoIdentity
	reasonIdentityConflict
	reasonOriginNotVouched
	numReasons
)

var reasonNames = [numReasons]string{
	reasonNoIdentity:       "no_identity",
	reasonIdentityConflict: "identity_conflict",
	reasonOriginNotVouched: "origin_not_vouched",
}

var reasonTexts = [numReasons]string{
	reasonNoIdentity:       "no authenticated sender reached continuumidentity; the configuration of this collector is at fault",
	reasonIdentityConflict: "every resource of the request claims another identity than its sender has",
	reasonOriginNotVouched: "every resource of the request claims an origin that its sender may not relay",
}

// refusal is an error whose gRPC status reaches the sender as it is. Receivers
// read a status out of a wrapped error too, but then put the text of the wrapper
// before the reason.
type refusal struct {
	error
	status *status.Status
}

// GRPCStatus is what google.golang.org/grpc/status looks for.
func (r *refusal) GRPCStatus() *status.Status { return r.status }

// Unwrap keeps a permanent error permanent.
func (r *refusal) Unwrap() error { return r.error }

// errorDomain is ErrorInfo.domain of every refusal, as in certnameauth.
const errorDomain = "ikhnos.continuum"

// refuse returns the error of a request that is not passed on: retryable when the
// fault is ours, permanent when it is the sender's. It repeats nothing of the data.
func refuse(why reason) error {
	code := codes.InvalidArgument
	if why == reasonNoIdentity {
		code = codes.Unavailable
	}
	s := status.New(code, reasonNames[why]+" - "+reasonTexts[why])
	if detailed, err := s.WithDetails(&errdetails.ErrorInfo{Reason: reasonNames[why], Domain: errorDomain}); err == nil {
		s = detailed
	}
	if why == reasonNoIdentity {
		return s.Err()
	}
	return &refusal{error: consumererror.NewPermanent(s.Err()), status: s}
}
