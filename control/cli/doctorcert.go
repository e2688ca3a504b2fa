// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"

	"github.com/ikhnos/continuum/internal/certfile"
	"github.com/ikhnos/continuum/internal/identity"
)

// pairOf is a certificate directory that can be used.
type pairOf struct {
	dir        string
	tls        tls.Certificate
	ca         *x509.CertPool
	operatorID string // to which it sends, "" for a receiver's
}

// directory checks a certificate directory and, with it, the way to the operator.
func (d *doctor) directory(dir string) {
	generation, err := certfile.Load(dir)
	if err != nil {
		d.problem("certificate", "enrol: ikhnos enroll --dir "+shellWords(dir)+" --enrollment-token-file FILE", "%s: %v", dir, err)
		return
	}
	pair, err := tls.X509KeyPair(generation.Certificate, generation.Key)
	if err != nil {
		d.problem("certificate", "enrol again with a new token", "%s: %v", dir, err)
		return
	}
	authorities, err := generation.Authorities()
	if err != nil {
		d.problem("certificate", "enrol again with a new token", "%s: %v", dir, err)
		return
	}
	p := &pairOf{dir: dir, tls: pair, ca: x509.NewCertPool()}
	for _, ca := range authorities {
		p.ca.AddCert(ca)
	}
	d.pair(p, generation)
	d.keyMode(dir)
	if address := text(d.cmd, "operator-address"); address != "" && p.operatorID != "" {
		d.operator(p, address)
	}
}

// pair checks the dates, the chain and the names of a certificate.
func (d *doctor) pair(p *pairOf, generation *certfile.Generation) {
	now, leaf := environmentOf(d.cmd).now(), p.tls.Leaf
	facts := inspect(leaf)
	name := firstOf(leaf.Subject.CommonName, strings.Join(facts.Names, ", "))
	for _, uri := range leaf.URIs {
		if operatorID, _, _, ok := identity.ParseSenderURI(uri); ok {
			p.operatorID = operatorID
		}
	}
	faults := faultsOf(leaf, &facts, now)
	if by := generation.RenewBy; !by.IsZero() && now.After(by) && now.Before(leaf.NotAfter) && len(faults) == 0 {
		faults = append(faults, "its renewal is overdue: it ends "+until(leaf.NotAfter, now))
	}
	// Its own dates were looked at above; here at who signed it.
	_, err := leaf.Verify(x509.VerifyOptions{Roots: p.ca, CurrentTime: leaf.NotBefore, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		faults = append(faults, "ca.crt beside it did not sign it")
	}
	for _, fault := range faults {
		do := "see why its renewer fails, or renew here: ikhnos renew --dir " + shellWords(p.dir)
		if now.After(leaf.NotAfter) || err != nil {
			do = "enrol again with a new token: ikhnos token create on the administrator's machine, then ikhnos enroll"
		}
		d.problem("certificate", do, "%s in %s: %s", name, p.dir, fault)
	}
	if len(faults) == 0 {
		d.ok("certificate", "%s in %s is a %s, ends %s", name, p.dir, facts.Role, until(leaf.NotAfter, now))
	}
	if p.operatorID == "" && text(d.cmd, "operator-address") != "" {
		d.problem("operator", "give the --dir of the certificate with which this machine sends", "%s holds no sender's certificate", p.dir)
	}
}

func (d *doctor) keyMode(dir string) {
	path := filepath.Join(dir, "tls.key")
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o007 != 0 {
		d.problem("private key", "chmod 0600 "+shellWords(path), "%s may be read by everybody (mode %04o)", path, info.Mode().Perm())
	}
}
