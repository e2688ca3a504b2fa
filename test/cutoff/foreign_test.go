// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cutoff

import (
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/testpki"
	"github.com/ikhnos/continuum/test/testbed"
)

// requestLimit is far above what any request or build here needs.
const requestLimit = 5 * time.Minute

// foreignManifest is what somebody else would write: stock components and ours,
// here from this checkout.
const foreignManifest = `
dist: {module: example.com/foreign, name: foreign, version: 1.0.0, output_path: %[1]q}
extensions:
  - {gomod: github.com/ikhnos/continuum v0.0.0, import: github.com/ikhnos/continuum/components/extension/certnameauth, path: %[2]q}
receivers: [{gomod: go.opentelemetry.io/collector/receiver/otlpreceiver %[3]s}]
exporters: [{gomod: go.opentelemetry.io/collector/exporter/debugexporter %[3]s}]
providers:
  - {gomod: go.opentelemetry.io/collector/confmap/provider/envprovider %[4]s}
  - {gomod: go.opentelemetry.io/collector/confmap/provider/fileprovider %[4]s}
`

const foreignConfig = `
extensions:
  certnameauth:
    operator_id: op-cut
    senders:
      - {name: op-cut-export-c1, kind: cluster, org_id: default, cluster_id: c1}
      - {name: op-cut-export-c2, kind: cluster, org_id: default, cluster_id: c2}
    crl: {file: "${env:STATE}/crl.der", ca_file: "${env:STATE}/ca.crt"}
    guard: {mode: "${env:GUARD}"}
receivers:
  otlp:
    protocols:
      grpc:
        endpoint: ${env:GRPC}
        middlewares: [{id: certnameauth}]
        tls: &tls {cert_file: "${env:STATE}/tls.crt", key_file: "${env:STATE}/tls.key", client_ca_file: "${env:STATE}/ca.crt"}
      http: {endpoint: "${env:HTTP}", middlewares: [{id: certnameauth}], tls: *tls}
exporters: {debug: {verbosity: detailed}}
service:
  extensions: [certnameauth]
  telemetry: {metrics: {level: none}}
  pipelines: {logs: {receivers: [otlp], exporters: [debug]}}
`

// TestForeignBuild: a plain build by ocb of a manifest that has nothing of ours but
// certnameauth, with a list and a revocation list and no control server (LG-6,
// LG-7). About ten seconds of processor time once the module and build caches are
// warm.
func TestForeignBuild(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a collector")
	}
	ca := testpki.NewCA(t, operatorID)
	spec := testbed.CollectorSpec{
		Name: "foreign", Config: []string{foreignConfig}, Dir: testbed.Dir(t), Program: buildForeign(t),
		Env: []string{"GRPC=" + testbed.Address(t), "HTTP=" + testbed.Address(t), "GUARD=enforce"},
	}
	ca.Receiver(t).WriteDir(t, spec.Dir, ca)
	leaf := func(cluster string) *testbed.Leaf {
		l := ca.Sender(t, controlapi.KindCluster, cluster)
		return &testbed.Leaf{Certificate: &controlapi.Certificate{CA: string(ca.PEM)}, Cert: l.Cert, TLS: l.TLS}
	}
	allowed, revoked := leaf("c1"), leaf("c2")
	writeCRL(t, ca, spec.Dir, 1, revoked)

	// Its guard knows what this build cannot have, and says how to go without.
	guarded := testbed.NewCollector(t, spec)
	guarded.Launch()
	select {
	case <-guarded.Done():
		require.Error(t, guarded.Err())
		require.Contains(t, guarded.Tail(20), "no continuumidentity with sender comes first")
	case <-testbed.Context(t, requestLimit).Done():
		t.Fatal("it started past its guard")
	}

	spec.Name, spec.Env[2] = "foreign-warned", "GUARD=warn"
	s := &site{T: t, grpc: strings.TrimPrefix(spec.Env[0], "GRPC="), http: strings.TrimPrefix(spec.Env[1], "HTTP=")}
	s.collector = testbed.StartCollector(t, spec)
	assert.NotEmpty(t, s.collector.Logged("Data can pass without a verified sender"))
	require.Empty(t, s.send(allowed, "allowed"))
	require.Equal(t, refused, s.send(revoked, "revoked"))
	require.Equal(t, "PermissionDenied sender_unknown, HTTP 403", s.send(leaf("c9"), "unknown"))
	s.collector.WaitLog("Str(allowed grpc)")
	s.collector.WaitLog("Str(allowed http)")

	// The list is looked at every ten seconds.
	writeCRL(t, ca, spec.Dir, 2, revoked, allowed)
	s.pushUntilRefused(true, allowed.ClientTLS(operatorID), "allowed")
	require.Equal(t, refused, s.send(allowed, "late"))
	for _, id := range []string{"revoked", "unknown", "late"} {
		assert.Empty(t, s.collector.Logged("Str("+id))
	}
}

// writeCRL replaces the revocation list.
func writeCRL(t *testing.T, ca *testpki.CA, dir string, number int64, revoked ...*testbed.Leaf) {
	t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(number), ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour)}
	for _, leaf := range revoked {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: leaf.Cert.SerialNumber, RevocationTime: time.Now()})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, ca.Cert, ca.Key)
	require.NoError(t, err)
	testbed.WriteFile(t, filepath.Join(dir, "crl.der"), der)
}

// buildForeign runs ocb over the manifest and returns the program.
func buildForeign(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "continuum")
	require.NoError(t, os.Symlink(testbed.Root(t), root)) // ocb takes no path with a space
	out := filepath.Join(dir, "out")
	manifest := filepath.Join(dir, "manifest.yaml")
	text := fmt.Sprintf(foreignManifest, out, root,
		versionOf(t, root, "go.opentelemetry.io/collector/receiver/otlpreceiver"),
		versionOf(t, root, "go.opentelemetry.io/collector/confmap/provider/fileprovider"))
	require.NoError(t, os.WriteFile(manifest, []byte(text), 0o600))
	cmd := exec.CommandContext(testbed.Context(t, 2*requestLimit), testbed.Tool(t, "ocb"), "--config", manifest)
	cmd.Env = goEnvironment()
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, string(said))
	return filepath.Join(out, "foreign")
}

// goEnvironment is what Go needs of the environment: ocb takes every other variable
// for a setting of its own.
func goEnvironment() []string {
	var keep []string
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if name == "PATH" || name == "HOME" || name == "XDG_CACHE_HOME" || strings.HasPrefix(name, "GO") {
			keep = append(keep, pair)
		}
	}
	return keep
}

// versionOf is the version that this checkout has of a module.
func versionOf(t *testing.T, root, module string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(module) + ` (v\S+)`).FindSubmatch(text)
	require.NotNil(t, found, module)
	return string(found[1])
}
