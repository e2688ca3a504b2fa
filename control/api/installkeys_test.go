// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/ikhnos/continuum/control/audit/trail"
	"github.com/ikhnos/continuum/control/install"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// newKeysHarness is an operator that sends to another, with a cluster named at its
// creation.
func newKeysHarness(t *testing.T) *harness {
	t.Helper()
	h := newInstallHarness(t)
	admin1[operators.Cluster](h, http.MethodPut, "/clusters/c1", operators.ClusterRequest{})
	admin1[operators.Cluster](h, http.MethodPost, "/clusters/c1/approve", nil)
	admin1[operators.Operator](h, http.MethodPut, "/operators/op-air", operators.OperatorRequest{
		Name: "Air", SourceClusterIDs: []string{"c1"},
		Destination: &operators.Destination{Kind: operators.DestinationOperator, OperatorID: "op-central"},
	})
	return h
}

// TestInstallWithKeys: A-8, LG-1, PK-4: every certificate of the installation comes
// with its key, by an enrolment that is in the ledger and the audit; the key is in
// the answer and nowhere else.
func TestInstallWithKeys(t *testing.T) {
	h := newKeysHarness(t)
	seen := map[string]bool{}
	for _, format := range install.KeyFormats() {
		resp := h.send(h.request(http.MethodPost, "/api/v1/orgs/default/operators/op-air/install", h.token, InstallRequest{Format: format, Keys: operators.KeysPrinted}))
		require.Equal(t, http.StatusOK, resp.StatusCode, "%s", resp.body)
		assert.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
		var out Install
		resp.decode(t, &out)
		text := ""
		secrets := map[string]*corev1.Secret{}
		for _, b := range out.Blocks {
			text += b.Text
			if _, manifest, ok := strings.Cut(b.Text, "--filename=- <<'END'\n"); ok {
				var secret corev1.Secret
				require.NoError(t, yaml.UnmarshalStrict([]byte(strings.TrimSuffix(manifest, "END\n")), &secret))
				secrets[secret.Name] = &secret
				assert.Contains(t, b.Title, "shown once")
				assert.True(t, strings.HasPrefix(b.Text, "kubectl apply --server-side "), "no annotation repeats the key")
			}
		}
		assert.Empty(t, printedToken.FindAllString(text, -1), "%s: keys need no tokens", format)
		require.Len(t, secrets, 3)
		for name, holder := range map[string]struct{ operator, name string }{
			"op-air-receiver-tls": {"op-air", "op-air"}, "op-air-export-tls": {"op-central", "op-central-export-op-air"},
			"op-air-export-c1-tls": {"op-air", "op-air-export-c1"},
		} {
			serial, key := checkPrinted(t, secrets[name])
			assert.False(t, seen[serial], "a new one each time")
			seen[serial] = true
			entry := admin1[operators.List[ledger.Entry]](h, http.MethodGet, "/operators/"+holder.operator+"/certificates?holder="+holder.name+"&state=valid", nil).Items
			require.Len(t, entry, 1)
			assert.Equal(t, serial, entry[0].Serial)
			nowhere(t, h, key)
		}
		assert.GreaterOrEqual(t, len(out.Warnings), 2)
		assert.WithinDuration(t, h.clock.now().Add(720*time.Hour), out.ExpiresAt, time.Minute)
	}
	reissues := admin1[operators.List[trail.Record]](h, http.MethodGet, "/audit?event=operator-install-reissued", nil).Items
	require.Len(t, reissues, len(install.KeyFormats()))
	assert.Equal(t, "printed", reissues[0].Detail["keys"]) // IN-13
	clients := admin1[operators.List[trail.Record]](h, http.MethodGet, "/audit?event=operator-client-cert-reissued", nil).Items
	require.Len(t, clients, 2*(len(install.KeyFormats())-1))
	assert.Equal(t, "operator", clients[0].Detail["ca"]) // IS-10
}

// checkPrinted wants one good pair by its CA in a Secret.
func checkPrinted(t *testing.T, secret *corev1.Secret) (serial string, key []byte) {
	t.Helper()
	require.NotNil(t, secret)
	assert.Equal(t, "continuum-system", secret.Namespace)
	require.Len(t, secret.Data, 3)
	pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(secret.Data["ca.crt"]))
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	require.NoError(t, err)
	return hex.EncodeToString(pair.Leaf.SerialNumber.Bytes()), secret.Data["tls.key"]
}

// nowhere looks for a key in the log and in every file of the database.
func nowhere(t *testing.T, h *harness, key []byte) {
	t.Helper()
	var number int
	var name, path string
	require.NoError(t, h.store.View(t.Context(), func(tx *ledger.Tx) error {
		return tx.QueryRow("PRAGMA database_list").Scan(&number, &name, &path)
	}))
	line := strings.Split(string(key), "\n")[2]
	require.Len(t, line, 64)
	raw, err := base64.StdEncoding.DecodeString(line)
	require.NoError(t, err)
	assert.NotContains(t, h.log.String(), line)
	for _, file := range []string{path, path + "-wal"} {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, form := range [][]byte{[]byte(line), raw} {
			assert.NotContains(t, string(content), string(form), file)
		}
	}
}

// A-8, IN-10: keys are for administrators, and in formats that can print them; what is
// refused makes nothing.
func TestInstallWithKeysRefused(t *testing.T) {
	h := newKeysHarness(t)
	const path = "/api/v1/orgs/default/operators/op-air/install"
	connector := admin1[operators.AdminToken](h, http.MethodPost, "/admin-tokens", operators.AdminTokenRequest{Name: "carol", Role: operators.RoleConnector}).Token
	refused(t, h.send(h.request(http.MethodPost, path, connector, InstallRequest{Keys: operators.KeysPrinted})), controlapi.ReasonForbidden)
	assert.Equal(t, http.StatusOK, h.send(h.request(http.MethodPost, path, connector, InstallRequest{Keys: operators.KeysEnrolled})).StatusCode)
	for _, format := range install.Formats() {
		if slices.Contains(install.KeyFormats(), format) {
			continue
		}
		p := refused(t, h.send(h.request(http.MethodPost, path, h.token, InstallRequest{Format: format, Keys: operators.KeysPrinted})), controlapi.ReasonValidationFailed)
		require.Len(t, p.Errors, 1)
		assert.Equal(t, "keys", p.Errors[0].Field)
	}
	p := refused(t, h.send(h.request(http.MethodPost, path, h.token, `{"format":"shell","keys":"borrowed"}`)), controlapi.ReasonValidationFailed)
	assert.Equal(t, "keys", p.Errors[0].Field)
	assert.Empty(t, admin1[operators.List[ledger.Entry]](h, http.MethodGet, "/operators/op-air/certificates", nil).Items)
}
