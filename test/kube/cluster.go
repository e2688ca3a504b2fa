// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ikhnos/continuum/internal/process"
	"github.com/ikhnos/continuum/test/testbed"
)

const adminToken = "administrator" // of a server that lives for one test

const auditPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [{"level": "Metadata"}]}`

// Cluster is a Kubernetes API server that ends with its test.
type Cluster struct {
	*kubernetes.Clientset              // of an administrator
	Config                *rest.Config // the same

	t   testing.TB
	dir string
}

// Start starts a cluster and waits until it is ready.
func Start(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{t: t, dir: testbed.Dir(t)}
	store := "http://" + testbed.Address(t)
	peer := "http://" + testbed.Address(t)
	etcd := c.run("etcd", "--data-dir", filepath.Join(c.dir, "etcd"), "--unsafe-no-fsync", "--log-level", "warn",
		"--listen-client-urls", store, "--advertise-client-urls", store, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)

	port := testbed.Port(t)
	accounts := c.write("accounts.key", newKey(t))
	api := c.run("kube-apiserver", "--etcd-servers", store, "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1",
		"--secure-port", fmt.Sprint(port), "--cert-dir", c.dir, "--endpoint-reconciler-type", "none",
		"--authorization-mode", "RBAC", "--token-auth-file", c.write("tokens.csv", []byte(adminToken+",admin,admin,system:masters\n")),
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", accounts, "--service-account-signing-key-file", accounts,
		"--disable-admission-plugins", "ServiceAccount", // which asks for a controller that makes accounts
		"--allow-privileged", "--service-cluster-ip-range", "10.0.0.0/24",
		"--audit-policy-file", c.write("audit.json", []byte(auditPolicy)), "--audit-log-path", c.auditLog())

	c.Config = &rest.Config{
		Host: fmt.Sprintf("https://127.0.0.1:%d", port), BearerToken: adminToken,
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(c.dir, "apiserver.crt")}, // which it makes at its start
		QPS:             -1,
		WarningHandler:  rest.NoWarnings{}, // of Secrets that are still empty
	}
	testbed.Eventually(t, "the API server to be ready", c.ready, etcd, api)
	return c
}

func (c *Cluster) auditLog() string { return filepath.Join(c.dir, "audit.log") }

// run starts one of the two programs.
func (c *Cluster) run(name string, args ...string) *process.Process {
	c.t.Helper()
	p, err := process.Start(c.dir, name, nil, testbed.Tool(c.t, name), args...)
	require.NoError(c.t, err)
	c.t.Cleanup(func() {
		p.Kill()
		if c.t.Failed() {
			c.t.Logf("the end of the log of %s:\n%s", name, p.Tail(40))
		}
	})
	return p
}

func (c *Cluster) ready(ctx context.Context) (err error) {
	if c.Clientset == nil {
		if c.Clientset, err = kubernetes.NewForConfig(c.Config); err != nil {
			c.Clientset = nil // its certificate is not there yet
			return err
		}
	}
	return c.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

func (c *Cluster) write(name string, text []byte) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	require.NoError(c.t, os.WriteFile(path, text, 0o600))
	return path
}

func newKey(t testing.TB) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalECPrivateKey(key) // the one form in which it finds the public key
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}
