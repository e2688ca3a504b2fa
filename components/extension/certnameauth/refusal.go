// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"mime"
	"net/http"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/senders"
)

// errorDomain is ErrorInfo.domain of every refusal.
const errorDomain = "ikhnos.continuum"

const (
	contentProtobuf = "application/x-protobuf"
	contentJSON     = "application/json"
)

// refusal is the answer for one reason, the same for every request, so that
// refusing costs next to nothing.
type refusal struct {
	err        error // a gRPC status
	httpStatus int
	protobuf   []byte
	json       []byte
}

// sentences say what is wrong and what ends it. They tell a caller nothing about
// other senders.
var sentences = [senders.Reasons]string{
	senders.NotVerified:        "the request came without a verified client certificate; send with the certificate of this operator's CA",
	senders.Ended:              "the certificate has ended on this open connection; renew it, the data is kept until then",
	senders.NotLoaded:          "this operator has no sender policy yet; try again",
	senders.Stale:              "this operator's sender policy is older than it allows; try again",
	senders.OperatorRevoked:    "this operator was revoked and accepts nobody; send to another one",
	senders.Ambiguous:          "the names on the certificate do not belong to exactly one sender; use a certificate with one name",
	senders.Usage:              "the certificate is not one for clients alone; use a certificate with clientAuth and without serverAuth",
	senders.Unknown:            "no sender of this operator has the name on this certificate; connect the sender to this operator first",
	senders.NotYetKnown:        "the certificate is newer than this operator's sender policy, which is being refreshed; try again",
	senders.Mismatch:           "the URI name on the certificate contradicts the sender's kind or id; enrol again with a new token",
	senders.CertificateRevoked: "the certificate was revoked; enrol again with a new token",
	senders.SenderRevoked:      "the sender was cut off from this operator; restore it, then enrol again with a new token",
	senders.SenderHeld:         "the sender is on hold at this operator; it is let in again by a restore",
	senders.Timeout:            "the request was held too long; try again",
	senders.UseMiddlewares:     "certnameauth cannot see client certificates as an HTTP authenticator; remove auth and list it under middlewares of this protocol",
}

var refusals = makeRefusals()

// message opens with the reason, as one word.
func message(r senders.Reason) string { return r.String() + " - " + sentences[r] }

func makeRefusals() (all [senders.Reasons]refusal) {
	for r := senders.Accepted + 1; r < senders.Reasons; r++ {
		grpcCode, httpStatus := codes.PermissionDenied, http.StatusForbidden
		switch {
		case r == senders.UseMiddlewares:
			grpcCode, httpStatus = codes.Unauthenticated, http.StatusUnauthorized
		case r.Retryable():
			grpcCode, httpStatus = codes.Unavailable, http.StatusServiceUnavailable
		}
		all[r] = newRefusal(r, grpcCode, httpStatus)
	}
	return all
}

func newRefusal(r senders.Reason, grpcCode codes.Code, httpStatus int) refusal {
	st := status.New(grpcCode, message(r))
	if detailed, err := st.WithDetails(&errdetails.ErrorInfo{Reason: r.String(), Domain: errorDomain}); err == nil {
		st = detailed
	}
	// Neither can fail for a message that holds two known types.
	binary, _ := proto.Marshal(st.Proto())
	text, _ := protojson.Marshal(st.Proto())
	return refusal{err: st.Err(), httpStatus: httpStatus, protobuf: binary, json: text}
}

// writeHTTP answers with the OTLP Status body in the content type of the request
// (JSON when that is neither), and ends the connection.
func (f *refusal) writeHTTP(w http.ResponseWriter, requestType string) {
	contentType, body := contentJSON, f.json
	if mediaType, _, err := mime.ParseMediaType(requestType); err == nil && mediaType == contentProtobuf {
		contentType, body = contentProtobuf, f.protobuf
	}
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Connection", "close")
	header.Del("Content-Length")
	w.WriteHeader(f.httpStatus)
	_, _ = w.Write(body) // a caller that is gone needs no answer
}
