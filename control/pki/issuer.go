// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"time"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// Request asks for one leaf, by an enrolment token or by a proof of holding the
// leaf to renew: exactly one of the two.
type Request struct {
	CSR       string // PEM
	TokenHash []byte
	Proof     *Proof
	RequestID string
	Address   string
}

// Proof is a holder proof whose shape, signatures and clock are already checked.
type Proof struct {
	OperatorID string // of the CA that signed the leaf
	Serial     string // lower-case hex
	SPKI       string // SHA-256 of the leaf's public key, lower-case hex
	JTI        string
	Expires    time.Time
}

// Recorder writes the ledger entry of a leaf; spki is the SHA-256 of the request's
// public key in lower-case hex. Record calls sign when the entry is written, and
// returns nil when it is durable and sign has succeeded; it may call sign again
// for another entry when the first one came to nothing. It refuses with an error
// that Issue passes on as it is.
type Recorder interface {
	Record(ctx context.Context, req Request, spki string, sign func(Record) error) error
}

// Issued is a certificate (DER) and the answer that holds it.
type Issued struct {
	DER    []byte
	Answer controlapi.Certificate
}

// Issuer turns requests into certificates. It never signs what its recorder has
// not written down, and gives away nothing that is not durable.
type Issuer struct {
	recorder  Recorder
	keys      *Keyring
	localhost bool
}

// NewIssuer returns an issuer. With localhost, which the demo alone sets,
// receivers are also good for the name localhost.
func NewIssuer(recorder Recorder, keys *Keyring, localhost bool) (*Issuer, error) {
	if recorder == nil || keys == nil {
		return nil, fmt.Errorf("an issuer needs a recorder and a keyring")
	}
	return &Issuer{recorder: recorder, keys: keys, localhost: localhost}, nil
}

// Issue reads the request, has it recorded, signs and checks. Errors are
// *controlapi.Problem for a bad CSR, whatever the recorder refused with, or a
// fault of the server. After a fault the same request may come again: the
// recorder answers the same entry and the certificate is the same.
func (i *Issuer) Issue(ctx context.Context, req Request) (*Issued, error) {
	pub, err := ParseCSR(req.CSR)
	if err != nil {
		return nil, err
	}
	spki, hash, err := spkiOf(pub)
	if err != nil {
		return nil, err
	}
	var cert *Issued
	err = i.recorder.Record(ctx, req, hash, func(rec Record) (err error) {
		cert, err = i.sign(rec, pub, spki)
		return err
	})
	if err != nil {
		return nil, err
	}
	return cert, nil
}

// sign makes and checks the certificate of a record.
func (i *Issuer) sign(rec Record, pub *ecdsa.PublicKey, spki []byte) (*Issued, error) {
	ca, err := i.keys.CA(rec.OperatorID, rec.CACert, rec.CAKey)
	if err != nil {
		return nil, err
	}
	t, err := Template(rec, i.localhost)
	if err != nil {
		return nil, err
	}
	der, err := SignLeaf(t, spki, ca)
	if err != nil {
		return nil, err
	}
	if err := Check(der, t, pub, ca); err != nil {
		return nil, err
	}
	return &Issued{DER: der, Answer: controlapi.Certificate{
		Certificate: CertPEM(der),
		CA:          CertPEM(ca.Cert.Raw),
		Serial:      rec.Serial,
		Role:        rec.Role,
		Name:        rec.Holder,
		NotBefore:   rec.NotBefore,
		NotAfter:    rec.NotAfter,
		RenewAfter:  rec.RenewAfter,
		RenewBy:     rec.RenewBy,
	}}, nil
}
