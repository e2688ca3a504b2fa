// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package holderproof

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Shape errors name the part that is wrong and never repeat it.
var (
	errHeaderSize   = errors.New("the Authorization header is longer than 8 KiB")
	errScheme       = errors.New("the Authorization header does not use the scheme Holder")
	errCompact      = errors.New("the proof is not a compact JWS of three base64url parts")
	errProtected    = errors.New("the protected header is not exactly alg ES256, typ ikhnos-proof and x5c with one certificate")
	errCertificate  = errors.New("x5c does not hold one certificate that can be read")
	errClaims       = errors.New("the claims are not exactly htm, htu, iat, exp, jti and bh with their types")
	errClaimHTM     = errors.New("htm is not a method in capitals")
	errClaimHTU     = errors.New("htu is not a path")
	errClaimLife    = errors.New("exp is not 1 to 60 s after iat")
	errClaimJTI     = errors.New("jti is not 16 to 64 characters of base64url")
	errClaimBH      = errors.New("bh is not the base64url of a SHA-256")
	errSignatureLen = errors.New("the signature is not 64 bytes")
)

// Proof is a holder proof of good shape. Nothing of it is verified yet: Leaf is
// whatever the client sent.
type Proof struct {
	Leaf   *x509.Certificate
	Claims Claims

	input     []byte // what was signed
	signature []byte
}

// Parse reads the value of an Authorization header and checks the shape of the
// proof in it: size, scheme, the exact protected header and the exact claims
// with their types and bounds. Members that are unknown, missing, written twice
// or in another case are refused.
func Parse(authorization string) (*Proof, error) {
	if len(authorization) > MaxHeaderBytes {
		return nil, errHeaderSize
	}
	scheme, jws, ok := strings.Cut(authorization, " ")
	if !ok || !strings.EqualFold(scheme, Scheme) {
		return nil, errScheme
	}
	parts := strings.Split(strings.Trim(jws, " "), ".")
	if len(parts) != 3 {
		return nil, errCompact
	}
	var raw [3][]byte
	for i, part := range parts {
		var err error
		if raw[i], err = decodeBase64(base64.RawURLEncoding, part); err != nil {
			return nil, errCompact
		}
	}
	leaf, err := parseProtected(raw[0])
	if err != nil {
		return nil, err
	}
	claims, err := parseClaims(raw[1])
	if err != nil {
		return nil, err
	}
	if len(raw[2]) != 2*scalar {
		return nil, errSignatureLen
	}
	return &Proof{Leaf: leaf, Claims: claims, input: []byte(parts[0] + "." + parts[1]), signature: raw[2]}, nil
}

// The protected header as Sign writes it, around the one certificate.
const (
	headerBegin = `{"alg":"` + algorithm + `","typ":"` + proofType + `","x5c":["`
	headerEnd   = `"]}`
)

func parseProtected(text []byte) (*x509.Certificate, error) {
	encoded, begins := strings.CutPrefix(string(text), headerBegin)
	encoded, ends := strings.CutSuffix(encoded, headerEnd)
	der, err := decodeBase64(base64.StdEncoding, encoded)
	if !begins || !ends || err != nil { // another spelling, or broken
		if der, err = readProtected(text); err != nil {
			return nil, err
		}
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, errCertificate
	}
	return leaf, nil
}

// readProtected reads the protected header in any spelling and returns the
// certificate in it (DER).
func readProtected(text []byte) ([]byte, error) {
	members, err := parseObject(text)
	if err != nil || len(members) != 3 || members["alg"] != algorithm || members["typ"] != proofType {
		return nil, errProtected
	}
	chain, ok := members["x5c"].([]any)
	if !ok || len(chain) != 1 {
		return nil, errProtected
	}
	encoded, ok := chain[0].(string)
	if !ok {
		return nil, errProtected
	}
	der, err := decodeBase64(base64.StdEncoding, encoded)
	if err != nil {
		return nil, errCertificate
	}
	return der, nil
}

func parseClaims(text []byte) (Claims, error) {
	c, ok := scanClaims(string(text))
	if !ok { // another spelling, or broken
		var err error
		if c, err = readClaims(text); err != nil {
			return Claims{}, err
		}
	}
	return c, c.check()
}

// scanClaims reads the claims as Sign writes them; not ok is any other spelling.
func scanClaims(text string) (c Claims, ok bool) {
	s := scanner{rest: text}
	s.text(`{"htm":`, &c.HTM)
	s.text(`,"htu":`, &c.HTU)
	s.number(`,"iat":`, &c.IAT)
	s.number(`,"exp":`, &c.EXP)
	s.text(`,"jti":`, &c.JTI)
	s.text(`,"bh":`, &c.BH)
	return c, !s.failed && s.rest == "}"
}

// scanner reads values that stand behind known text.
type scanner struct {
	rest   string
	failed bool
}

// text reads a string that is written as it is.
func (s *scanner) text(before string, out *string) {
	rest, begins := strings.CutPrefix(s.rest, before+`"`)
	value, rest, ends := strings.Cut(rest, `"`)
	s.failed = s.failed || !begins || !ends || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' || r == '\\' })
	*out, s.rest = value, rest
}

// number reads digits.
func (s *scanner) number(before string, out *int64) {
	rest, begins := strings.CutPrefix(s.rest, before)
	length := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
	value, err := strconv.ParseUint(rest[:length], 10, 62)
	s.failed = s.failed || !begins || err != nil || rest[0] == '0'
	*out, s.rest = int64(value), rest[length:]
}

// readClaims reads the claims in any spelling.
func readClaims(text []byte) (Claims, error) {
	members, err := parseObject(text)
	if err != nil || len(members) != 6 {
		return Claims{}, errClaims
	}
	var c Claims
	for name, field := range map[string]*string{"htm": &c.HTM, "htu": &c.HTU, "jti": &c.JTI, "bh": &c.BH} {
		value, ok := members[name].(string)
		if !ok {
			return Claims{}, errClaims
		}
		*field = value
	}
	for name, field := range map[string]*int64{"iat": &c.IAT, "exp": &c.EXP} {
		number, ok := members[name].(json.Number)
		if !ok {
			return Claims{}, errClaims
		}
		// The text must be digits alone, so no sign, fraction or exponent.
		value, err := strconv.ParseUint(number.String(), 10, 62)
		if err != nil {
			return Claims{}, errClaims
		}
		*field = int64(value)
	}
	return c, nil
}

// check tests the bounds of every claim.
func (c *Claims) check() error {
	switch {
	case c.HTM == "" || strings.Trim(c.HTM, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "":
		return errClaimHTM
	case !strings.HasPrefix(c.HTU, "/"):
		return errClaimHTU
	case c.EXP-c.IAT < 1 || c.EXP-c.IAT > maxLife:
		return errClaimLife
	case len(c.JTI) < 16 || len(c.JTI) > 64 || !isBase64URL(c.JTI):
		return errClaimJTI
	}
	if sum, err := decodeBase64(base64.RawURLEncoding, c.BH); err != nil || len(sum) != scalar {
		return errClaimBH
	}
	return nil
}

// parseObject reads one JSON object whose members are scalars or arrays of
// scalars. Unlike encoding/json it refuses a member written twice, and it never
// matches a name in another case.
func parseObject(text []byte) (map[string]any, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		return nil, errors.New("not an object")
	}
	members := map[string]any{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("reading a name: %w", err)
		}
		key, _ := name.(string)
		if _, twice := members[key]; twice {
			return nil, errors.New("a member stands twice")
		}
		var value any
		if err := dec.Decode(&value); err != nil {
			return nil, fmt.Errorf("reading a value: %w", err)
		}
		members[key] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("reading the end: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("text after the object")
	}
	return members, nil
}

// decodeBase64 accepts the one canonical spelling. The standard decoder skips
// line breaks even when strict.
func decodeBase64(encoding *base64.Encoding, text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, errors.New("not the canonical spelling")
	}
	return encoding.Strict().DecodeString(text)
}

func isBase64URL(s string) bool {
	for i := range len(s) {
		c := s[i]
		if ('A' > c || c > 'Z') && ('a' > c || c > 'z') && ('0' > c || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}
