// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	"github.com/ikhnos/continuum/control/install"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/control/pki"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// check fills the defaults of a request and refuses what it cannot have: keys are for
// administrators (IN-10), in the formats that can print them.
func (in *InstallRequest) check(role operators.AdminRole) error {
	if in.Format == "" {
		in.Format = install.Shell
	}
	if in.Keys == "" {
		in.Keys = operators.KeysEnrolled
	}
	var faults []controlapi.FieldError
	fault := func(field, format string, args ...any) {
		faults = append(faults, controlapi.FieldError{Field: field, Detail: fmt.Sprintf(format, args...)})
	}
	if !slices.Contains(install.Formats(), in.Format) {
		fault("format", "must be one of: %v", install.Formats())
	}
	switch in.Keys {
	case operators.KeysEnrolled:
	case operators.KeysPrinted:
		if !role.Allows(operators.RoleAdmin) {
			return controlapi.NewProblem(controlapi.ReasonForbidden, "Keys are printed for administrators alone.")
		}
		if len(faults) == 0 && !slices.Contains(install.KeyFormats(), in.Format) {
			fault("keys", "printed needs one of the formats: %v; for a machine, enrol in a folder elsewhere and carry that over", install.KeyFormats())
		}
	default:
		fault("keys", "must be one of: %s, %s", operators.KeysEnrolled, operators.KeysPrinted)
	}
	if len(faults) > 0 {
		return controlapi.Invalid(faults...)
	}
	return nil
}

// installCredential mints what a holder comes to its certificate with: a token, or
// the certificate itself with its key.
func (s *Server) installCredential(ctx context.Context, r *request, from operators.KeySource, operatorID string, t operators.TokenRequest) (install.Secret, *install.Keys, error) {
	token, err := s.cfg.Operators.MintToken(ctx, r.actor, operatorID, t)
	if err != nil || from == operators.KeysEnrolled {
		return install.Secret{Value: token.Token, EndsAt: token.ExpiresAt}, nil, err
	}
	keys, err := s.enrolled(ctx, r, token.Token)
	return install.Secret{}, keys, err
}

// enrolled spends a token for a key that is made here, for a holder that cannot
// reach the server. It is an enrolment like any other; the key is in the answer
// and nowhere else.
func (s *Server) enrolled(ctx context.Context, r *request, token string) (*install.Keys, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate request: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	cert, err := s.cfg.Issuer.Issue(ctx, pki.Request{
		CSR:       string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr})),
		TokenHash: controlapi.HashSecret(token), RequestID: r.actor.RequestID, Address: r.actor.Address,
	})
	if err != nil {
		s.metrics.issued.WithLabelValues("enroll", "refused").Inc()
		return nil, err
	}
	s.metrics.issued.WithLabelValues("enroll", "issued").Inc()
	return &install.Keys{
		Certificate: cert.Answer.Certificate, CA: cert.Answer.CA, EndsAt: cert.Answer.NotAfter,
		Key: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	}, nil
}

// warnOfKeys says what printed keys mean.
func (i *Install) warnOfKeys(operatorID string, until time.Time) {
	i.warn("Private keys stand in this answer: who keeps it can be %s and its senders. Enrolment by token makes keys that never leave their pods.", operatorID)
	i.warn("Where %s cannot reach the server, nothing renews: print again before %s. It gets no policy either: "+
		"list its senders in certnameauth's configuration, in the place of policy.", operatorID, until.UTC().Format(time.RFC3339))
}
