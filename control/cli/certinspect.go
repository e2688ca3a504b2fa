// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
)

// pemFile is what stands in a PEM file.
type pemFile struct {
	Certificates []inspected `json:"certificates"`
	Requests     []string    `json:"requests,omitempty"` // subjects of certificate requests
	Lists        []crlFacts  `json:"revocationLists,omitempty"`
	Keys         int         `json:"privateKeys,omitempty"`
	Problems     []string    `json:"problems"`

	parsed []*x509.Certificate
	keys   []any
}

// crlFacts are what matters of a revocation list.
type crlFacts struct {
	Issuer     string    `json:"issuer"`
	Number     string    `json:"number"`
	Revoked    int       `json:"revoked"`
	NextUpdate time.Time `json:"nextUpdate"`
}

func newCertInspectCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "inspect FILE",
		Short: "Explain any PEM file, offline; exit code 10 when something is wrong with it",
		Long: `Explain the certificates, keys, requests and revocation lists of a PEM file: names,
role, days left, chain, and what is wrong. A ca.crt beside the file is used to
check the chain. Nothing is sent anywhere.`,
		Args: exactArgs("a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			content, err := os.ReadFile(args[0])
			if err != nil {
				return fmt.Errorf("reading the file: %w", err)
			}
			now := environmentOf(cmd).now()
			file := parsePEM(content, now)
			file.checkMode(args[0])
			file.checkKeys()
			file.checkChains(siblingCA(args[0]))
			if err := show(cmd, file, func(w io.Writer) { writePEMFile(w, file, now) }); err != nil {
				return err
			}
			if len(file.Problems) > 0 {
				return &exitError{code: exitFound}
			}
			return nil
		},
	}
}

// parsePEM reads every block; what cannot be read is a problem, never an error.
func parsePEM(content []byte, now time.Time) *pemFile {
	file := &pemFile{Certificates: []inspected{}, Problems: []string{}}
	blocks := 0
	for {
		var b *pem.Block
		if b, content = pem.Decode(content); b == nil {
			break
		}
		blocks++
		if err := file.add(b, now); err != nil {
			file.problem("block %d (%s) cannot be read: %v", blocks, b.Type, err)
		}
	}
	if blocks == 0 {
		file.problem("there is no PEM block in it")
	}
	return file
}

func (f *pemFile) problem(format string, args ...any) {
	f.Problems = append(f.Problems, fmt.Sprintf(format, args...))
}

func (f *pemFile) add(b *pem.Block, now time.Time) error {
	switch b.Type {
	case "CERTIFICATE":
		cert, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return err
		}
		f.parsed = append(f.parsed, cert)
		facts := inspect(cert)
		f.Certificates = append(f.Certificates, facts)
		for _, fault := range faultsOf(cert, &facts, now) {
			f.problem("certificate %d: %s", len(f.parsed), fault)
		}
	case "CERTIFICATE REQUEST":
		request, err := x509.ParseCertificateRequest(b.Bytes)
		if err != nil {
			return err
		}
		f.Requests = append(f.Requests, firstOf(request.Subject.String(), "(no subject)"))
		if err := request.CheckSignature(); err != nil {
			f.problem("the certificate request is not signed by its own key")
		}
	case "X509 CRL":
		return f.addCRL(b.Bytes, now)
	case "PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY":
		key, err := parseKey(b)
		if err != nil {
			return fmt.Errorf("it is not a private key of a known form") //nolint:err113 // the cause could repeat the key
		}
		f.Keys++
		f.keys = append(f.keys, key)
	}
	return nil
}

func (f *pemFile) addCRL(der []byte, now time.Time) error {
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return err
	}
	facts := crlFacts{Issuer: list.Issuer.String(), Revoked: len(list.RevokedCertificateEntries), NextUpdate: list.NextUpdate}
	if list.Number != nil {
		facts.Number = list.Number.String()
	}
	f.Lists = append(f.Lists, facts)
	if now.After(list.NextUpdate) {
		f.problem("the revocation list should have been replaced %s", until(list.NextUpdate, now))
	}
	return nil
}

func parseKey(b *pem.Block) (any, error) {
	switch b.Type {
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(b.Bytes)
	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(b.Bytes)
	default:
		return x509.ParsePKCS8PrivateKey(b.Bytes)
	}
}

// checkMode finds a private key that others may read.
func (f *pemFile) checkMode(path string) {
	if info, err := os.Stat(path); err == nil && f.Keys > 0 && info.Mode().Perm()&0o077 != 0 {
		f.problem("the private key may be read by others (mode %04o; 0600 is right)", info.Mode().Perm())
	}
}

// siblingCA reads the ca.crt beside a certificate, as in a certificate directory.
func siblingCA(path string) []*x509.Certificate {
	beside := filepath.Join(filepath.Dir(path), "ca.crt")
	if filepath.Clean(path) == beside {
		return nil
	}
	content, err := os.ReadFile(beside)
	if err != nil {
		return nil
	}
	return parsePEM(content, time.Time{}).parsed
}
