// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ikhnos/continuum/internal/identity"
)

// inspected is what matters of one certificate.
type inspected struct {
	Subject   string    `json:"subject"`
	Names     []string  `json:"names"`
	Role      string    `json:"role"`
	NotBefore time.Time `json:"notBefore"`
	NotAfter  time.Time `json:"notAfter"`
	Serial    string    `json:"serial"`
	Key       string    `json:"key"`
	SPKI      string    `json:"spkiSha256"`
	Chain     string    `json:"chain"`
}

func inspect(cert *x509.Certificate) inspected {
	names := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	for _, uri := range cert.URIs {
		names = append(names, uri.String())
	}
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return inspected{
		Subject:   cert.Subject.String(),
		Names:     append([]string{}, names...),
		Role:      roleOf(cert),
		NotBefore: cert.NotBefore.UTC(),
		NotAfter:  cert.NotAfter.UTC(),
		Serial:    serialText(cert),
		Key:       keyText(cert.PublicKey),
		SPKI:      hex.EncodeToString(sum[:]),
	}
}

// serialText is lower-case hex of even length.
func serialText(cert *x509.Certificate) string {
	s := cert.SerialNumber.Text(16)
	if len(s)%2 == 1 {
		s = "0" + s
	}
	return s
}

func roleOf(cert *x509.Certificate) string {
	server := slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	client := slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	switch {
	case cert.IsCA:
		return "CA"
	case server && client:
		return "server and client"
	case server:
		return "receiver (serverAuth)"
	case client:
		return "sender (clientAuth)"
	default:
		return "none"
	}
}

func keyText(key any) string {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		return "ECDSA " + k.Curve.Params().Name
	case *rsa.PublicKey:
		return fmt.Sprintf("RSA %d", k.N.BitLen())
	case ed25519.PublicKey:
		return "Ed25519"
	default:
		return "of an unknown kind"
	}
}

// backdate is how far before its issue a leaf of ours begins.
const backdate = 10 * time.Minute

// faultsOf lists what is wrong with one certificate at a time. The zero time
// checks no dates.
func faultsOf(cert *x509.Certificate, facts *inspected, now time.Time) []string {
	var faults []string
	issued := cert.NotBefore.Add(backdate)
	ours := strings.HasPrefix(cert.Issuer.CommonName, "Ikhnos operator CA ")
	switch {
	case now.IsZero():
	case now.After(cert.NotAfter):
		faults = append(faults, "it ended "+until(cert.NotAfter, now))
	case now.Before(cert.NotBefore):
		faults = append(faults, "it is not valid yet, only "+until(cert.NotBefore, now)+": is this clock right?")
	case ours && !cert.IsCA && now.Sub(issued) > cert.NotAfter.Sub(issued)*9/20:
		// A collector renews after a third of the life, at the latest after 13/30.
		faults = append(faults, "its renewal is overdue: it ends "+until(cert.NotAfter, now))
	}
	if cert.IsCA {
		return faults
	}
	if facts.Role == "none" {
		faults = append(faults, "it has neither serverAuth nor clientAuth, so neither side accepts it")
	}
	if len(facts.Names) == 0 {
		faults = append(faults, "it has no SAN; a name in the CN alone is not accepted")
	}
	return append(faults, nameFaults(cert)...)
}

// nameFaults finds a sender's certificate whose URI and DNS name disagree.
func nameFaults(cert *x509.Certificate) []string {
	var faults []string
	for _, uri := range cert.URIs {
		operatorID, _, holderID, ok := identity.ParseSenderURI(uri)
		if ok && !slices.Contains(cert.DNSNames, identity.SenderName(operatorID, holderID)) {
			faults = append(faults, "its URI "+uri.String()+" and its DNS names are not of the same sender")
		}
	}
	return faults
}

// checkKeys finds a private key that belongs to none of the certificates.
func (f *pemFile) checkKeys() {
	if len(f.parsed) == 0 {
		return
	}
	for _, key := range f.keys {
		signer, ok := key.(crypto.Signer)
		if !ok {
			continue
		}
		public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
		if ok && !slices.ContainsFunc(f.parsed, func(c *x509.Certificate) bool { return public.Equal(c.PublicKey) }) {
			f.problem("the private key belongs to none of the certificates")
		}
	}
}

// checkChains says for each certificate who signed it: another one of the file,
// one of more, itself, or somebody who is not here.
func (f *pemFile) checkChains(more []*x509.Certificate) {
	for i, cert := range f.parsed {
		f.Certificates[i].Chain = f.chainOf(i, cert, more)
	}
}

func (f *pemFile) chainOf(i int, cert *x509.Certificate, more []*x509.Certificate) string {
	if bytes.Equal(cert.RawIssuer, cert.RawSubject) {
		if cert.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature) != nil {
			f.problem("certificate %d: it names itself as its issuer and is not signed by its own key", i+1)
		}
		return "signed by itself"
	}
	named := false
	for j, issuer := range slices.Concat(f.parsed, more) {
		if !bytes.Equal(cert.RawIssuer, issuer.RawSubject) {
			continue
		}
		if cert.CheckSignatureFrom(issuer) == nil {
			if j < len(f.parsed) {
				return fmt.Sprintf("signed by certificate %d", j+1)
			}
			return "signed by ca.crt beside it"
		}
		named = true
	}
	switch {
	case named:
		f.problem("certificate %d: a CA with its issuer's name is here, and did not sign it", i+1)
	case len(more) > 0:
		f.problem("certificate %d: ca.crt beside it is another CA", i+1)
	}
	return "signed by " + firstOf(cert.Issuer.String(), "nobody named") + ", which is not here"
}

func writePEMFile(w io.Writer, f *pemFile, now time.Time) {
	for i := range f.Certificates {
		c := &f.Certificates[i]
		_, _ = fmt.Fprintf(w, "certificate %d of %d: %s\n", i+1, len(f.Certificates), plain(firstOf(c.Subject, "(no subject)")))
		fields(w, "  names", strings.Join(c.Names, ", "), "  role", c.Role,
			"  valid", date(c.NotBefore)+" to "+date(c.NotAfter)+" ("+until(c.NotAfter, now)+")",
			"  chain", c.Chain, "  key", c.Key+", sha256:"+c.SPKI, "  serial", c.Serial)
	}
	for _, subject := range f.Requests {
		_, _ = fmt.Fprintf(w, "certificate request: %s\n", plain(subject))
	}
	for _, l := range f.Lists {
		_, _ = fmt.Fprintf(w, "revocation list %s of %s: %d revoked, next update %s\n", l.Number, plain(l.Issuer), l.Revoked, date(l.NextUpdate))
	}
	if f.Keys > 0 {
		_, _ = fmt.Fprintln(w, count(f.Keys, "private key"))
	}
	for _, problem := range f.Problems {
		_, _ = fmt.Fprintf(w, "problem: %s\n", plain(problem))
	}
	if len(f.Problems) == 0 {
		_, _ = fmt.Fprintln(w, "no problem found")
	}
}
