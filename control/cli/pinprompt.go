// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/internal/controlclient"
)

// isTrust reports whether err is about the server's certificate and not about
// the way to it.
func isTrust(err error) bool {
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	return errors.Is(err, controlclient.ErrPinMismatch) || errors.As(err, &verification) ||
		errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &invalid)
}

// askForPin returns the pins by which to trust a server: none when this machine
// trusts it already, else the pin of its CA if the person at the terminal says
// that it is the right one.
func askForPin(cmd *cobra.Command, server *url.URL) ([]string, error) {
	timeout, _ := cmd.Flags().GetDuration("timeout")
	ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	chain, err := presentedChain(ctx, server)
	if err != nil {
		return nil, &apiclient.UnreachableError{Err: err}
	}
	rest := x509.NewCertPool()
	for _, cert := range chain[1:] {
		rest.AddCert(cert)
	}
	now := environmentOf(cmd).now()
	if _, err := chain[0].Verify(x509.VerifyOptions{DNSName: server.Hostname(), Intermediates: rest, CurrentTime: now}); err == nil {
		return nil, nil
	}
	if !environmentOf(cmd).inTerminal {
		return nil, &exitError{exitUsage, &explained{
			what: "the certificate of " + server.Host + " is from no CA that this machine trusts",
			why:  "without a pin nobody knows whether this is the right server, and there is no terminal to ask",
			do:   "ikhnos login --ca-pin sha256:…, the pin that the server logged at its start",
		}}
	}
	return confirmPin(cmd, server, chain[len(chain)-1])
}

func confirmPin(cmd *cobra.Command, server *url.URL, root *x509.Certificate) ([]string, error) {
	sum := sha256.Sum256(root.RawSubjectPublicKeyInfo)
	digits := hex.EncodeToString(sum[:])
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), `The certificate of %s is from a CA of its own, which this machine does not know yet:
  name  %s
  ends  %s
  pin   %s
Compare the pin with the line "pin sha256:…" that the server logged at its start.
Are they the same? Type yes to trust it: `,
		server.Host, plain(root.Subject.String()), date(root.NotAfter), "sha256: "+inGroups(digits))
	answer, err := readLine(cmd)
	if err != nil || !strings.EqualFold(answer, "yes") {
		return nil, usageError("not trusted: nothing was stored")
	}
	return []string{"sha256:" + digits}, nil
}

// inGroups makes 64 hex digits comparable by eye.
func inGroups(digits string) string {
	var groups []string
	for ; len(digits) > 8; digits = digits[8:] {
		groups = append(groups, digits[:8])
	}
	return strings.Join(append(groups, digits), " ")
}

// presentedChain reads the certificates that a server presents. Nothing is sent
// over the connection: who is there is what is being asked.
func presentedChain(ctx context.Context, server *url.URL) ([]*x509.Certificate, error) {
	port := firstOf(server.Port(), "443")
	dialer := tls.Dialer{Config: &tls.Config{
		ServerName: server.Hostname(), MinVersion: tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // reads the chain, trusts nothing
	}}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(server.Hostname(), port))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates, nil
}
