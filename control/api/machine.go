// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/pki"
	"github.com/ikhnos/continuum/control/policy"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// Security schemes of machine paths in the API document, and the media type of a
// signed policy.
const (
	holderProof     = "holderProof"
	heartbeatSecret = "heartbeatSecret"
	policyMedia     = "application/jose"
)

// machinePaths registers what collectors call.
func (s *Server) machinePaths() {
	machine[controlapi.EnrollRequest, controlapi.Certificate](s, endpoint{
		method: http.MethodPost, path: controlapi.RouteEnroll,
		summary: "Enrol: a one-use token and a certificate request for a certificate",
	}, s.enroll)
	machine[controlapi.RenewRequest, controlapi.Certificate](s, endpoint{
		method: http.MethodPost, path: controlapi.RouteRenew, security: holderProof,
		summary: "Renew: a holder proof and a certificate request for the next certificate",
	}, s.renew)
	machine[none, none](s, endpoint{
		method: http.MethodGet, path: controlapi.RoutePolicy, query: []string{"wait"}, security: holderProof, media: policyMedia, conditional: true,
		summary: "The signed sender policy (compact JWS), with If-None-Match and a long poll",
	}, s.getPolicy)
	machine[controlapi.Report, none](s, endpoint{
		method: http.MethodPost, path: controlapi.RoutePolicyReport, security: holderProof,
		summary: "What an operator instance enforces and whom it has accepted",
	}, s.report)
	machine[controlapi.Heartbeat, none](s, endpoint{
		method: http.MethodPost, path: controlapi.RouteHeartbeat, status: http.StatusOK, bodyOptional: true, security: heartbeatSecret,
		summary: "A collector is alive",
	}, s.heartbeat)
	machine[none, none](s, endpoint{
		method: http.MethodGet, path: controlapi.RouteCRL("{id}"), media: controlapi.CRLContentType, conditional: true,
		summary: "The revocation list of an operator's CA (DER)",
	}, s.crl)
	machine[none, probe](s, endpoint{method: http.MethodGet, path: "/healthz", summary: "The process answers"}, s.healthz)
	machine[none, probe](s, endpoint{method: http.MethodGet, path: "/readyz", summary: "The database answers and takes writes"}, s.readyz)
}

// machine registers a machine path; In and Out stand in the API document alone.
func machine[In, Out any](s *Server, e endpoint, fn func(w http.ResponseWriter, r *http.Request) error) {
	s.machineAPI.Handle(s.describe(e, reflect.TypeFor[In](), reflect.TypeFor[Out]()), func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		callOf(r.Context()).machine = true
		if err := fn(w, r); err != nil {
			s.refuse(w, r, refusal(err))
		}
	})
}

func (s *Server) enroll(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, controlapi.MaxBodyBytes, false)
	if err != nil {
		return err
	}
	var in controlapi.EnrollRequest
	if err := decodeStrict(body, &in); err != nil {
		return malformed(sentence(err))
	}
	token, _, err := controlapi.ParseSecret(controlapi.SecretEnrollment, in.Token)
	if err != nil {
		return controlapi.NewProblem(controlapi.ReasonTokenUnknown, "")
	}
	c := callOf(r.Context())
	cert, err := s.cfg.Issuer.Issue(r.Context(), pki.Request{
		CSR: in.CSR, TokenHash: controlapi.HashSecret(token), RequestID: c.requestID, Address: c.address.String(),
	})
	return s.issued(w, r, "enroll", cert, err)
}

func (s *Server) renew(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, controlapi.MaxBodyBytes, false)
	if err != nil {
		return err
	}
	v, err := s.verifyProof(r, controlapi.RouteRenew, body)
	if err != nil {
		return s.noteRefused(r, v, err)
	}
	var in controlapi.RenewRequest
	if err := decodeStrict(body, &in); err != nil {
		return s.afterProof(r, v, malformed(sentence(err)))
	}
	c := callOf(r.Context())
	cert, err := s.cfg.Issuer.Issue(r.Context(), pki.Request{
		CSR: in.CSR, Proof: (*pki.Proof)(&v.Proof), RequestID: c.requestID, Address: c.address.String(),
	})
	if p := (*controlapi.Problem)(nil); errors.As(err, &p) && (p.Reason == controlapi.ReasonCSRInvalid || p.Reason == controlapi.ReasonKeyUnsupported) {
		err = s.afterProof(r, v, p)
	}
	return s.issued(w, r, "renew", cert, s.noteRefused(r, v, s.keepLeaf(r, v, err)))
}

// afterProof is what to say of a body that cannot be used: what the ledger has
// against the proof comes first, and the proof is spent.
func (s *Server) afterProof(r *http.Request, v *verified, body error) error {
	err := s.cfg.Store.Update(r.Context(), func(tx *ledger.Tx) error {
		_, err := tx.CheckProof(v.Proof, "", false)
		return err
	})
	if err != nil {
		return refusal(err)
	}
	return body
}

// issued counts an issue and answers it. A request that never came to an issue,
// for example with a wrong proof, is counted among the refusals alone.
func (s *Server) issued(w http.ResponseWriter, r *http.Request, kind string, cert *pki.Issued, err error) error {
	if err != nil {
		s.metrics.issued.WithLabelValues(kind, "refused").Inc()
		return err
	}
	s.metrics.issued.WithLabelValues(kind, "issued").Inc()
	s.genuine.add(sha256.Sum256(cert.DER))
	callOf(r.Context()).actor = cert.Answer.Name
	s.reply(w, r, http.StatusOK, cert.Answer)
	return nil
}

func (s *Server) getPolicy(w http.ResponseWriter, r *http.Request) error {
	if err := checkMedia(r); err != nil {
		return err
	}
	v, err := s.verifyProof(r, controlapi.RoutePolicy, nil)
	if err != nil {
		return err
	}
	if err := checkQuery(r.URL.RawQuery, []string{"wait"}); err != nil {
		return err
	}
	wait, err := waitOf(r.URL.Query(), controlapi.MaxPolicyWait*time.Second)
	if err != nil {
		return err
	}
	entry, err := s.checkProof(r, v, func(*ledger.Tx, ledger.Entry) error { return nil })
	if err != nil {
		return err
	}
	signed, changed, err := s.cfg.Policy.Wait(r.Context(), policy.Poll{
		OperatorID: entry.OperatorID, Serial: entry.Serial, IfNoneMatch: joined(r.Header.Values("If-None-Match")), Wait: wait,
	})
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", signed.ETag)
	if !changed {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	w.Header().Set("Content-Type", policyMedia)
	_, _ = w.Write([]byte(signed.JWS))
	return nil
}

func (s *Server) report(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, controlapi.MaxReportBytes, false)
	if err != nil {
		return err
	}
	v, err := s.verifyProof(r, controlapi.RoutePolicyReport, body)
	if err != nil {
		return err
	}
	in, unusable := readReport(body)
	var done policy.Recorded
	entry, err := s.checkProof(r, v, func(tx *ledger.Tx, entry ledger.Entry) (err error) {
		if unusable == nil { // otherwise the proof is spent and nothing else
			done, err = s.cfg.Policy.Record(tx, entry.OperatorID, in)
		}
		return err
	})
	if err = cmp.Or(err, unusable); err != nil {
		return err
	}
	s.cfg.Policy.Reported()
	for _, took := range done.Confirmed {
		s.metrics.confirm.Observe(took.Seconds())
	}
	for _, sender := range done.Rekeyed {
		if err := s.cfg.Operators.CompleteRekey(r.Context(), entry.OperatorID, sender.Name, sender.Serial); err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func readReport(body []byte) (*controlapi.Report, error) {
	var in controlapi.Report
	if err := decodeStrict(body, &in); err != nil {
		return nil, malformed(sentence(err))
	}
	return &in, policy.CheckReport(&in)
}

// checkProof does the ledger's part of a receiver's proof and then, in the same
// transaction, what the proof is for.
func (s *Server) checkProof(r *http.Request, v *verified, then func(*ledger.Tx, ledger.Entry) error) (ledger.Entry, error) {
	var entry ledger.Entry
	err := s.cfg.Store.Update(r.Context(), func(tx *ledger.Tx) (err error) {
		if entry, err = tx.CheckProof(v.Proof, ledger.RoleReceiver, true); err != nil {
			return err
		}
		return then(tx, entry)
	})
	callOf(r.Context()).actor = entry.Holder
	return entry, s.keepLeaf(r, v, err)
}

// heartbeat takes any body of at most 1 MiB and keeps it when it is one of ours.
// Every failure is the same answer, so nothing tells which operators exist.
func (s *Server) heartbeat(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, controlapi.MaxHeartbeatBytes, true)
	if err != nil {
		body = nil
		w.Header().Set("Connection", "close")
	}
	id, err := s.cfg.Liveness.Beat(r.Context(), bearer(r), beatOf(body))
	if err != nil {
		return err
	}
	callOf(r.Context()).actor = id
	w.WriteHeader(http.StatusOK)
	return nil
}

func beatOf(body []byte) *controlapi.Heartbeat {
	var beat controlapi.Heartbeat
	if len(body) == 0 || len(body) > controlapi.MaxBodyBytes || decodeStrict(body, &beat) != nil {
		return nil
	}
	return &beat
}

func (s *Server) crl(w http.ResponseWriter, r *http.Request) error {
	list, err := s.cfg.Policy.CRL(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	w.Header().Set("ETag", list.ETag)
	w.Header().Set("Cache-Control", "no-cache")
	if policy.Matches(joined(r.Header.Values("If-None-Match")), list.ETag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	w.Header().Set("Content-Type", controlapi.CRLContentType)
	_, _ = w.Write(list.DER)
	return nil
}

func (s *Server) healthz(w http.ResponseWriter, r *http.Request) error {
	return writeStatus(w, "ok")
}

// probe answers /healthz and /readyz.
type probe struct {
	Status string `json:"status"`
}

func writeStatus(w http.ResponseWriter, status string) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(probe{status})
}
