// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package signedpolicy

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// MaxBytes bounds a signed policy: 10,000 senders and 1,000,000 revoked serials
// stay well below it.
const MaxBytes = 128 << 20

// maxVersion is the first value that JSON numbers of other languages cannot hold.
const maxVersion = 1 << 53

var (
	// ErrSignature says that the text is not a policy signed by this CA.
	ErrSignature = errors.New("not a policy signed by this operator's CA")
	// ErrPayload says that the signature is good and the content cannot be used.
	ErrPayload = errors.New("signed policy cannot be used")

	errKey = errors.New("the operator's CA does not have an ECDSA P-256 key")
)

// header is the whole protected header, and the only one that Verify accepts
// (members in any order).
const header = `{"alg":"ES256","typ":"` + controlapi.PolicyJWSType + `"}`

// Sign returns p as a compact JWS under key, which must be the key of ca. The
// signature is deterministic (RFC 6979): the same policy gives the same text, so
// that replicas answer with the same ETag.
func Sign(p *controlapi.Policy, ca *x509.Certificate, key crypto.Signer) (string, error) {
	public, err := publicKey(ca)
	if err != nil {
		return "", fmt.Errorf("signing policy: %w", err)
	}
	if !public.Equal(key.Public()) {
		return "", errors.New("signing policy: the key is not the one of the CA certificate")
	}
	payload, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("signing policy: %w", err)
	}
	text := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString(payload)
	digest := sha256.Sum256([]byte(text))
	der, err := key.Sign(nil, digest[:], crypto.SHA256)
	if err != nil {
		return "", fmt.Errorf("signing policy: %w", err)
	}
	var sig struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &sig); err != nil {
		return "", fmt.Errorf("signing policy: %w", err)
	}
	var raw [64]byte
	sig.R.FillBytes(raw[:32])
	sig.S.FillBytes(raw[32:])
	return text + "." + base64.RawURLEncoding.EncodeToString(raw[:]), nil
}

// Verify checks that jws is a policy signed by ca and returns it. The protected
// header must hold exactly alg ES256 and typ ikhnos-policy; payload fields that
// this release does not know are ignored. The error is ErrSignature or
// ErrPayload. Whose policy it is (OperatorID) and whether it is newer than
// another (Version) is for the caller to judge.
func Verify(jws string, ca *x509.Certificate) (*controlapi.Policy, error) {
	public, err := publicKey(ca)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	if len(jws) > MaxBytes {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrSignature, MaxBytes)
	}
	if err := checkHeader(jws); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	parsed, err := jose.ParseSignedCompact(jws, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	payload, err := parsed.Verify(public)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	return parsePayload(payload)
}

func publicKey(ca *x509.Certificate) (*ecdsa.PublicKey, error) {
	public, ok := ca.PublicKey.(*ecdsa.PublicKey)
	if !ok || public.Curve != elliptic.P256() {
		return nil, errKey
	}
	return public, nil
}

// checkHeader looks at the protected header itself: the library tolerates and
// interprets members that have no business in a policy.
func checkHeader(jws string) error {
	if strings.ContainsAny(jws, "\r\n") {
		return errors.New("line break inside") // base64 decoders skip it
	}
	encoded, _, _ := strings.Cut(jws, ".")
	raw, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return errors.New("protected header is not base64url")
	}
	members, err := stringMembers(raw)
	if err != nil {
		return err
	}
	if len(members) != 2 || members["alg"] != "ES256" || members["typ"] != controlapi.PolicyJWSType {
		return errors.New("protected header is not exactly alg ES256 and typ " + controlapi.PolicyJWSType)
	}
	return nil
}

// stringMembers reads one JSON object whose values are strings, each name once.
func stringMembers(raw []byte) (map[string]string, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		return nil, errors.New("protected header is not a JSON object")
	}
	members := map[string]string{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, errors.New("protected header is not JSON")
		}
		value, err := dec.Token()
		text, ok := value.(string)
		if err != nil || !ok {
			return nil, errors.New("protected header has a value that is not a string")
		}
		key := name.(string) // the decoder lets nothing else stand there
		if _, twice := members[key]; twice {
			return nil, errors.New("protected header has a member twice")
		}
		members[key] = text
	}
	if _, err := dec.Token(); err != nil {
		return nil, errors.New("protected header is not JSON")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("protected header is followed by other text")
	}
	return members, nil
}

func parsePayload(payload []byte) (*controlapi.Policy, error) {
	p := new(controlapi.Policy)
	if err := json.Unmarshal(payload, p); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPayload, err)
	}
	switch {
	case p.OperatorID == "":
		return nil, fmt.Errorf("%w: it names no operator", ErrPayload)
	case p.Mode != controlapi.PolicyEnforce && p.Mode != controlapi.PolicyDenyAll:
		return nil, fmt.Errorf("%w: its mode is not known to this release", ErrPayload)
	case p.Epoch < 0 || p.Epoch >= maxVersion || p.Number < 0 || p.Number >= maxVersion:
		return nil, fmt.Errorf("%w: its epoch or number is out of range", ErrPayload)
	case p.IssuedAt.IsZero():
		return nil, fmt.Errorf("%w: it has no time of issue", ErrPayload)
	}
	return p, nil
}
