// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/ikhnos/continuum/internal/certfile"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// clockWait is how long a leaf that is not valid yet is waited for. Leaves are
// backdated by ten minutes, so even that means a wrong clock.
const clockWait = 2 * time.Minute

var (
	errCAChanged = errors.New("the answer brings another CA than the one on disk")
	errTokenCA   = errors.New("the answer brings another CA than the one that the token names")
	errOtherKey  = errors.New("the certificate is for another key")
	errUsage     = errors.New("the certificate is not for exactly one of server and client")
	errRole      = errors.New("the certificate is for another role")
	errNames     = errors.New("the certificate has other names")
	errSerial    = errors.New("the certificate has another serial than the answer says")
	errOneBlock  = errors.New("the answer does not hold one certificate and one CA")
	errNotYet    = errors.New("the certificate is not valid yet by this machine's clock: correct the clock")
	errEnded     = errors.New("the certificate has ended by this machine's clock: correct the clock")
	usageOfRole  = map[controlapi.Role]x509.ExtKeyUsage{controlapi.RoleReceiver: x509.ExtKeyUsageServerAuth, controlapi.RoleSender: x509.ExtKeyUsageClientAuth}
)

// received is an answer being checked.
type received struct {
	answer   *controlapi.Certificate
	leaf, ca *x509.Certificate
}

// parseAnswer takes an answer apart.
func parseAnswer(answer *controlapi.Certificate) (*received, error) {
	leaves, err := certfile.ParseCertificates([]byte(answer.Certificate))
	if err != nil || len(leaves) != 1 {
		return nil, errOneBlock
	}
	authorities, err := certfile.ParseCertificates([]byte(answer.CA))
	if err != nil || len(authorities) != 1 {
		return nil, errOneBlock
	}
	return &received{answer: answer, leaf: leaves[0], ca: authorities[0]}, nil
}

// checkLeaf tests what holds for every leaf: our key, one usage, the serial, and
// a chain to the CA in the answer, whatever the date.
func (r *received) checkLeaf(key crypto.PublicKey) error {
	public, ok := r.leaf.PublicKey.(*ecdsa.PublicKey)
	switch {
	case !ok || !public.Equal(key):
		return errOtherKey
	case !singleUsage(r.leaf):
		return errUsage
	case r.answer.Serial != serialOf(r.leaf):
		return errSerial
	}
	return verifyChain(r.leaf, []*x509.Certificate{r.ca}, r.leaf.NotBefore.Add(time.Second))
}

// checkEnrolment tests what the token and the answer promise.
func (r *received) checkEnrolment(caSPKI []byte) error {
	switch {
	case !namesOneOf(caSPKI, []*x509.Certificate{r.ca}):
		return errTokenCA
	case usageOfRole[r.answer.Role] != r.leaf.ExtKeyUsage[0]:
		return errRole
	case r.leaf.Subject.CommonName != r.answer.Name || !slices.Contains(r.leaf.DNSNames, r.answer.Name):
		return errNames
	}
	return nil
}

// namesOneOf reports whether a token's hash is that of one of the CAs.
func namesOneOf(caSPKI []byte, authorities []*x509.Certificate) bool {
	return slices.ContainsFunc(authorities, func(ca *x509.Certificate) bool {
		sum := sha256.Sum256(ca.RawSubjectPublicKeyInfo)
		return bytes.Equal(sum[:controlapi.SPKIPrefixBytes], caSPKI)
	})
}

// checkRenewal tests the leaf against the one that it replaces.
func (r *received) checkRenewal(have *state) error {
	switch {
	case !slices.ContainsFunc(have.authorities, r.ca.Equal):
		return errCAChanged
	case len(have.leaf.ExtKeyUsage) > 0 && !slices.Contains(have.leaf.ExtKeyUsage, r.leaf.ExtKeyUsage[0]):
		return errRole
	case !sameNames(have.leaf, r.leaf):
		return errNames
	}
	return nil
}

// sameNames reports whether next is for the same holder as leaf: the same common
// name and URIs, and no DNS name less.
func sameNames(leaf, next *x509.Certificate) bool {
	for _, name := range leaf.DNSNames {
		if !slices.Contains(next.DNSNames, name) {
			return false
		}
	}
	sameURI := func(a, b *url.URL) bool { return a.String() == b.String() }
	return leaf.Subject.CommonName == next.Subject.CommonName && slices.EqualFunc(leaf.URIs, next.URIs, sameURI)
}

func singleUsage(leaf *x509.Certificate) bool {
	return len(leaf.ExtKeyUsage) == 1 && len(leaf.UnknownExtKeyUsage) == 0 &&
		(leaf.ExtKeyUsage[0] == x509.ExtKeyUsageServerAuth || leaf.ExtKeyUsage[0] == x509.ExtKeyUsageClientAuth)
}

func verifyChain(leaf *x509.Certificate, authorities []*x509.Certificate, at time.Time) error {
	roots := x509.NewCertPool()
	for _, ca := range authorities {
		roots.AddCert(ca)
	}
	options := x509.VerifyOptions{Roots: roots, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	if _, err := leaf.Verify(options); err != nil {
		return fmt.Errorf("verifying the certificate: %w", err)
	}
	return nil
}

// awaitValid returns when leaf is valid by our clock, waiting a bounded time for
// its beginning.
func (h *Holder) awaitValid(ctx context.Context, leaf *x509.Certificate) error {
	now := h.set.Now()
	if now.After(leaf.NotAfter) {
		return errEnded
	}
	early := leaf.NotBefore.Sub(now)
	if early <= 0 {
		return nil
	}
	if early > clockWait {
		return errNotYet
	}
	if !Sleep(ctx, early) {
		return errNotYet
	}
	return nil
}

func serialOf(leaf *x509.Certificate) string {
	text := leaf.SerialNumber.Text(16)
	if len(text)%2 == 1 {
		text = "0" + text
	}
	return text
}
