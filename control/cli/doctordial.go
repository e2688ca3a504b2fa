// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/ikhnos/continuum/internal/identity"
)

// greeting opens an HTTP/2 connection: the preface and empty settings. It asks for
// nothing, and the other side answers with its settings.
const greeting = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// operator checks the way to an operator, its name, and that it takes the
// certificate. A server of TLS 1.3 refuses one only after the handshake, so the
// answer to a greeting is waited for.
func (d *doctor) operator(p *pairOf, address string) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(strings.Trim(address, "[]"), "4317")
	}
	timeout, _ := d.cmd.Flags().GetDuration("timeout")
	ctx, cancel := context.WithTimeout(d.cmd.Context(), timeout)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		d.problem("operator", "check the address (ikhnos operator get "+p.operatorID+"), the firewall, and that the collector runs",
			"%s does not answer: %v", address, err)
		return
	}
	defer func() { _ = raw.Close() }()
	stable := identity.StableName(p.operatorID)
	conn := tls.Client(raw, &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: stable, RootCAs: p.ca, NextProtos: []string{"h2"},
		Certificates: []tls.Certificate{p.tls}, Time: environmentOf(d.cmd).now,
	})
	if err := conn.HandshakeContext(ctx); err != nil {
		d.handshake(p, address, stable, err)
		return
	}
	d.ok("operator", "%s answers as %s", address, stable)
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	frame := make([]byte, 9)
	_, err = conn.Write([]byte(greeting))
	if err == nil {
		_, err = io.ReadFull(conn, frame)
	}
	if err != nil {
		d.problem("operator", "see ikhnos sender get on the administrator's machine and the operator's log: the certificate has ended, or is from another CA",
			"%s does not accept the certificate in %s: %v", address, p.dir, err)
		return
	}
	d.ok("operator", "it accepts the handshake of the certificate in %s; whether it accepts the sender, ikhnos sender get tells", p.dir)
}

// handshake says why a handshake failed.
func (d *doctor) handshake(p *pairOf, address, stable string, err error) {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &host):
		names := strings.Join(host.Certificate.DNSNames, ", ")
		d.problem("operator", "check the address; a proxy in between must pass TLS through and not end it", "%s answers as %s, not as %s", address, firstOf(names, "nobody named"), stable)
	case errors.As(err, &authority):
		d.problem("operator", "check the address; when the operator was created anew, enrol again in an empty folder",
			"%s presents a certificate that ca.crt in %s did not sign", address, p.dir)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		d.problem("operator", "see why the operator's own certificate is not renewed: ikhnos operator get "+p.operatorID, "the certificate of %s has ended", address)
	default:
		d.problem("operator", "check that an OTLP/gRPC receiver with TLS listens there, and that nothing in between ends TLS", "%s: the TLS handshake fails: %v", address, err)
	}
}
