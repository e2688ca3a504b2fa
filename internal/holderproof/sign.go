// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package holderproof

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// What a proof is made of, and its bounds.
const (
	// Scheme is the authentication scheme of the Authorization header.
	Scheme = "Holder"
	// MaxHeaderBytes is the longest Authorization header that is read.
	MaxHeaderBytes = 8 << 10
	// ClockTolerance is how far iat may be from the server's time.
	ClockTolerance = 60 * time.Second

	algorithm = "ES256"
	proofType = "ikhnos-proof"
	life      = 30 // seconds that a proof of ours lives
	maxLife   = 60 // seconds that any proof may live
	jtiBytes  = 16
	scalar    = 32 // bytes of each half of an ES256 signature
)

// Request is what a proof is bound to. Route is the path as the contract prints
// it, its ids filled in, without scheme, host, prefix or query; Body is the body
// as sent, nil for GET.
type Request struct {
	Method, Route string
	Body          []byte
}

// Claims is the payload of a proof: method in capitals, route, seconds since
// 1970, an id that is good once, and the base64url SHA-256 of the body.
type Claims struct {
	HTM string `json:"htm"`
	HTU string `json:"htu"`
	IAT int64  `json:"iat"`
	EXP int64  `json:"exp"`
	JTI string `json:"jti"`
	BH  string `json:"bh"`
}

// header is the protected header, exactly.
type header struct {
	Alg string   `json:"alg"`
	Typ string   `json:"typ"`
	X5C []string `json:"x5c"`
}

var errKeyUnsupported = errors.New("a holder proof needs an ECDSA P-256 key")

// Sign returns a new proof for one attempt of req, a compact JWS that lives 30
// seconds from now: the caller puts it after [Scheme] and a blank. key belongs
// to the certificate leafDER.
func Sign(key crypto.Signer, leafDER []byte, req Request, now time.Time) (string, error) {
	if pub, ok := key.Public().(*ecdsa.PublicKey); !ok || pub.Curve != elliptic.P256() {
		return "", errKeyUnsupported
	}
	jti := make([]byte, jtiBytes)
	_, _ = rand.Read(jti) // never fails: crypto/rand ends the process instead
	protected, err := encodePart(header{Alg: algorithm, Typ: proofType, X5C: []string{base64.StdEncoding.EncodeToString(leafDER)}})
	if err != nil {
		return "", err
	}
	payload, err := encodePart(Claims{
		HTM: req.Method,
		HTU: req.Route,
		IAT: now.Unix(),
		EXP: now.Unix() + life,
		JTI: base64.RawURLEncoding.EncodeToString(jti),
		BH:  bodyHash(req.Body),
	})
	if err != nil {
		return "", err
	}
	input := protected + "." + payload
	signature, err := signES256(key, []byte(input))
	if err != nil {
		return "", fmt.Errorf("signing the holder proof: %w", err)
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

func encodePart(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encoding the holder proof: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(text), nil
}

func bodyHash(body []byte) string {
	sum := sha256.Sum256(body)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// signES256 signs in the form of RFC 7518: both scalars, 32 bytes each.
func signES256(key crypto.Signer, input []byte) ([]byte, error) {
	digest := sha256.Sum256(input)
	der, err := key.Sign(rand.Reader, digest[:], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	var parts struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &parts); err != nil {
		return nil, err
	}
	signature := make([]byte, 2*scalar)
	parts.R.FillBytes(signature[:scalar])
	parts.S.FillBytes(signature[scalar:])
	return signature, nil
}
