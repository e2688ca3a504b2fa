// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package load

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
	"github.com/ikhnos/continuum/internal/process"
)

// setupWorkers is how many calls at a time prepare a server. They share commits.
const setupWorkers = 16

// server is one `ikhnos server` on SQLite with its defaults.
type server struct {
	*process.Process
	dir string
	url string
	pin string
	api *apiclient.Client
	// roots verify the server's certificate.
	roots *x509.CertPool
}

var (
	pinPattern = regexp.MustCompile(`sha256:[0-9a-f]{64}`)
	urlPattern = regexp.MustCompile(` url=(https://\S+)`)
)

// startServer starts it in a new folder under o.Dir.
func startServer(ctx context.Context, o Options, on disk) (*server, error) {
	dir, err := os.MkdirTemp(o.Dir, "ikhnos")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	s := &server{dir: dir}
	if s.Process, err = on.start(dir, "ikhnos", o.Ikhnos, "server", "--data-dir", data,
		"--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	err = await(ctx, s.Process, func(context.Context) error {
		log, err := s.Output()
		if err != nil {
			return err
		}
		url := urlPattern.FindStringSubmatch(log)
		if s.pin = pinPattern.FindString(log); url == nil || s.pin == "" {
			return errors.New("the server has not said where it listens")
		}
		s.url = url[1]
		return nil
	})
	if err == nil {
		err = errors.Join(s.administer(filepath.Join(data, "admin.token")), s.learnRoots(ctx))
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *server) administer(tokenFile string) error {
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return err
	}
	s.api, err = apiclient.New(apiclient.Config{Server: s.url, Token: strings.TrimSpace(string(token)), CAPins: []string{s.pin}})
	return err
}

// learnRoots keeps the certificates that the server shows for its name and whose
// key is pinned, for connections without the product's own client.
func (s *server) learnRoots(ctx context.Context) error {
	transport, err := controlclient.PinnedTransport([]string{s.pin}, nil)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/healthz", nil)
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	s.roots = x509.NewCertPool()
	chain := response.TLS.PeerCertificates
	s.roots.AddCert(chain[len(chain)-1]) // the pin was checked
	return nil
}

// client returns a client with a connection of its own that speaks what
// collectors do, and a function that ends that connection.
func (s *server) client() (*controlclient.Client, func(), error) {
	transport, err := controlclient.PinnedTransport([]string{s.pin}, nil)
	if err != nil {
		return nil, nil, err
	}
	client, err := controlclient.New(&http.Client{Transport: transport, Timeout: time.Minute}, s.url, time.Now)
	return client, transport.CloseIdleConnections, err
}

// putOperator makes a regional operator.
func (s *server) putOperator(ctx context.Context, id string, heartbeat operators.Switch) error {
	_, err := s.api.PutOperator(ctx, id, operators.OperatorRequest{
		Name: id, Role: operators.RoleRegional, Heartbeat: heartbeat,
		Destination: &operators.Destination{Kind: operators.DestinationOTLP, Endpoint: "store.example.com:4317"},
	})
	return err
}

// putCluster registers a cluster and approves it.
func (s *server) putCluster(ctx context.Context, id string) error {
	if _, err := s.api.PutCluster(ctx, id, operators.ClusterRequest{Kind: operators.ClusterHost}); err != nil {
		return err
	}
	_, err := s.api.ApproveCluster(ctx, id)
	return err
}

// enroll mints a token and spends it; sender is empty for the operator's receiver.
func (s *server) enroll(ctx context.Context, c *controlclient.Client, operatorID, sender string, r keyRequest) (controlclient.Holder, error) {
	role := controlapi.RoleReceiver
	if sender != "" {
		role = controlapi.RoleSender
	}
	token, err := s.api.CreateToken(ctx, operatorID, role, sender, time.Hour)
	if err != nil {
		return controlclient.Holder{}, err
	}
	certificate, err := c.Enroll(ctx, token.Token, r.csr)
	if err != nil {
		return controlclient.Holder{}, fmt.Errorf("enrolling at %s: %w", operatorID, err)
	}
	return holderOf(certificate, r)
}

// holderOf is who proves itself by the certificate just issued for r.
func holderOf(certificate *controlapi.Certificate, r keyRequest) (controlclient.Holder, error) {
	block, _ := pem.Decode([]byte(certificate.Certificate))
	if block == nil {
		return controlclient.Holder{}, errors.New("the answer holds no certificate")
	}
	return controlclient.Holder{Key: r.key, Leaf: block.Bytes}, nil
}
