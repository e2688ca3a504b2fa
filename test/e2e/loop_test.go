// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ikhnos/continuum/control/cli/demo"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
	"github.com/ikhnos/continuum/internal/testpki"
	"github.com/ikhnos/continuum/test/testbed"
)

// TestLoop drives enrolment, renewal, identity and cut-off through the API of one
// fleet and checks every record that reaches the sink. Its parts share the fleet,
// because starting five collectors is what takes the time.
func TestLoop(t *testing.T) {
	if testing.Short() {
		t.Skip("starts six processes")
	}
	ctx := testbed.Context(t, 15*time.Minute)
	var checked recordCheck
	fleet, err := demo.Start(ctx, demo.Config{
		Ikhnos: testbed.Program(t, "ikhnos"), Collector: testbed.Program(t, "continuum-collector"),
		Dir: testbed.Dir(t), PortBase: 24300, LeafLifetime: time.Minute,
		Now: time.Now, OnRecord: checked.record,
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		fleet.Stop()
		http.DefaultClient.CloseIdleConnections()
		fleet.API.CloseIdleConnections()
	})

	e := &environment{fleet: fleet, server: testbed.Attach(t, fleet.API, fleet.URL, fleet.Pin), operatorCA: receiverCA(t, fleet)}
	t.Run("all signals arrive stamped", e.allSignalsArrive)
	t.Run("a forged log arrives as its sender's", e.forged)                    // ID-1, ID-6, A-30
	t.Run("a direct sender over gRPC and HTTP", e.directSender)                // TM-2, A-5
	t.Run("handshakes that fail", e.handshakes)                                // TM-3, TM-4, PK-6, A-12
	t.Run("an expired certificate", e.expired)                                 // TM-5
	t.Run("every leaf renews itself and nothing stops", e.renewals)            // RN-1, RN-5
	t.Run("heartbeats make operators online", e.online)                        // HB-20 to HB-22
	t.Run("the ledger names every leaf and verifies", e.ledger)                // LG-1, LG-2, PK-17
	t.Run("a cut-off bites on the open connection and nowhere else", e.cutOff)
	require.NoError(t, fleet.Failure())
	checked.verify(t)
}

type environment struct {
	fleet      *demo.Fleet
	server     *testbed.Server
	operatorCA []byte // PEM, of the regional operator
}

// recordCheck keeps the first record that does not carry exactly the identity of
// its authenticated sender. Every record passes through it.
type recordCheck struct {
	mu    sync.Mutex
	err   error
	total int
}

func (c *recordCheck) record(r demo.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total++
	if c.err == nil {
		c.err = checkRecord(r)
	}
}

// checkRecord accepts a record of a cluster, stamped by both operators, or an
// operator's own, which names the operator and no cluster.
func checkRecord(r demo.Record) error {
	if err := demo.Clean(r); err != nil {
		return err
	}
	cluster := r.Attribute(identity.KeyClusterID)
	switch {
	case cluster != "":
		return demo.Stamped(r, cluster)
	case r.Attribute(identity.KeyOperatorID) == demo.RegionalID, r.Attribute("service.name") == "continuum-central-operator":
		return nil
	}
	return fmt.Errorf("%s record %q has no origin: %v", r.Signal, r.Summary, r.Resource)
}

func (c *recordCheck) verify(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.NoError(t, c.err)
	require.Positive(t, c.total)
	t.Logf("%d records checked", c.total)
}

func (e *environment) allSignalsArrive(t *testing.T) {
	ctx := testbed.Context(t, 5*time.Minute)
	for _, want := range []struct{ sender, signal string }{
		{demo.ClusterID, demo.SignalMetrics}, {demo.ClusterID, demo.SignalLogs}, {demo.ClusterID, demo.SignalTraces},
		{demo.ForgerID, demo.SignalMetrics}, {demo.ForgerID, demo.SignalLogs},
	} {
		_, err := e.fleet.Sink.Wait(ctx, func(r demo.Record) bool { return r.Sender() == want.sender && r.Signal == want.signal })
		require.NoError(t, err, "%s of %s", want.signal, want.sender)
	}
}

func (e *environment) forged(t *testing.T) {
	ctx := testbed.Context(t, 5*time.Minute)
	require.NoError(t, e.fleet.SendLog(ctx, demo.ForgerID, "forged by c2", demo.Forgery))
	r, err := e.fleet.Sink.Wait(ctx, func(r demo.Record) bool { return r.Summary == "forged by c2" })
	require.NoError(t, err)
	require.NoError(t, demo.Stamped(r, demo.ForgerID))
	require.NoError(t, demo.Clean(r))
}

// directSender enrols a sender of its own and sends to the regional operator
// without a collector in between, on both protocols.
func (e *environment) directSender(t *testing.T) {
	ctx := testbed.Context(t, 5*time.Minute)
	leaf := e.enrolSender(ctx, t, "direct")
	config := e.clientTLS(t, &leaf)
	require.NoError(t, testbed.SendGRPC(ctx, t, e.grpcAddress(), config, "direct over gRPC"))
	code, err := testbed.SendHTTP(ctx, e.httpAddress(), config, "direct over HTTP")
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, code)
	for _, body := range []string{"direct over gRPC", "direct over HTTP"} {
		r, err := e.fleet.Sink.Wait(ctx, func(r demo.Record) bool { return r.Summary == body })
		require.NoError(t, err)
		require.NoError(t, demo.Stamped(r, "direct"))
	}
}

func (e *environment) handshakes(t *testing.T) {
	ctx := testbed.Context(t, 5*time.Minute)
	foreign := testpki.NewCA(t, demo.RegionalID).Sender(t, controlapi.KindCluster, demo.ClusterID)
	receiver, err := tls.LoadX509KeyPair(
		filepath.Join(e.fleet.Collector(demo.RegionalID).StateDir, "receiver", "tls.crt"),
		filepath.Join(e.fleet.Collector(demo.RegionalID).StateDir, "receiver", "tls.key"))
	require.NoError(t, err)
	export, err := tls.LoadX509KeyPair( // of the central operator's CA
		filepath.Join(e.fleet.Collector(demo.RegionalID).StateDir, "export", "tls.crt"),
		filepath.Join(e.fleet.Collector(demo.RegionalID).StateDir, "export", "tls.key"))
	require.NoError(t, err)
	for name, leaf := range map[string]*tls.Certificate{
		"no certificate":                     nil,
		"a CA that only looks alike":         &foreign.TLS,
		"another operator's CA":              &export,
		"a receiver's certificate as sender": &receiver,
	} {
		t.Run(name, func(t *testing.T) {
			config := e.clientTLS(t, leaf)
			err := testbed.SendGRPC(ctx, t, e.grpcAddress(), config, "must not arrive: "+name)
			assert.Equal(t, codes.Unavailable, status.Code(err), "a failed handshake is retryable: %v", err)
			_, err = testbed.SendHTTP(ctx, e.httpAddress(), config, "must not arrive: "+name)
			assert.Error(t, err)
		})
	}
}

// expired waits until a leaf of a minute has ended: the handshake fails.
func (e *environment) expired(t *testing.T) {
	ctx := testbed.Context(t, 5*time.Minute)
	leaf := e.enrolSender(ctx, t, "expiring")
	config := e.clientTLS(t, &leaf)
	require.NoError(t, testbed.SendGRPC(ctx, t, e.grpcAddress(), config, "before the end"))
	parsed, err := x509.ParseCertificate(leaf.Certificate[0])
	require.NoError(t, err)
	timer := time.NewTimer(time.Until(parsed.NotAfter.Add(2 * time.Second)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
	err = testbed.SendGRPC(ctx, t, e.grpcAddress(), config, "after the end")
	assert.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
}

// renewals looks at what happened while the other parts ran: each collector has
// renewed each of its certificates, by itself, and its data goes on.
func (e *environment) renewals(t *testing.T) {
	ctx := testbed.Context(t, 5*time.Minute)
	for _, want := range []struct{ operator, holder string }{
		{demo.CentralID, demo.CentralID},
		{demo.RegionalID, demo.RegionalID},
		{demo.CentralID, identity.SenderName(demo.CentralID, demo.RegionalID)},
		{demo.RegionalID, identity.SenderName(demo.RegionalID, demo.ClusterID)},
		{demo.RegionalID, identity.SenderName(demo.RegionalID, demo.ForgerID)},
	} {
		var entries []ledger.Entry
		testbed.Eventually(t, "a renewal of "+want.holder, func(context.Context) error {
			entries = e.server.Entries(want.operator, want.holder)
			if !slices.ContainsFunc(entries, func(entry ledger.Entry) bool { return entry.Parent != "" }) {
				return errors.New("it has not renewed")
			}
			return nil
		})
		keys := map[string]bool{}
		for _, entry := range entries {
			keys[entry.SPKI] = true
		}
		assert.Len(t, keys, len(entries), "%s used a key twice", want.holder)
	}
	for _, id := range []string{demo.ClusterID, demo.ForgerID} {
		body := "after renewals of " + id
		require.NoError(t, e.fleet.SendLog(ctx, id, body, nil))
		_, err := e.fleet.Sink.Wait(ctx, func(r demo.Record) bool { return r.Summary == body && r.Sender() == id })
		require.NoError(t, err)
	}
}

func (e *environment) online(t *testing.T) {
	ctx := testbed.Context(t, 5*time.Minute)
	for _, id := range []string{demo.CentralID, demo.RegionalID} {
		operator, err := e.fleet.API.Operator(ctx, id)
		require.NoError(t, err)
		require.NotNil(t, operator.Health)
		assert.Equal(t, "online", operator.Health.State, id)
	}
}

func (e *environment) ledger(t *testing.T) {
	entries := e.server.Entries(demo.RegionalID, "")
	serials := map[string]bool{}
	for _, entry := range entries {
		serials[entry.Serial] = true
		assert.NotEmpty(t, entry.Holder)
		assert.NotEmpty(t, entry.Issuer)
		assert.False(t, entry.NotAfter.IsZero())
	}
	for _, path := range []string{
		filepath.Join(e.fleet.Collector(demo.RegionalID).StateDir, "receiver", "tls.crt"),
		filepath.Join(e.fleet.Collector(demo.ClusterID).StateDir, "export", "tls.crt"),
	} {
		leaf := readLeaf(t, path)
		assert.True(t, serials[hex.EncodeToString(leaf.SerialNumber.Bytes())], "the ledger does not know the leaf of %s", path)
	}
}

// cutOff revokes a sender that holds an open connection: its next request on that
// connection is refused for good, and its neighbour's is not.
func (e *environment) cutOff(t *testing.T) {
	ctx := testbed.Context(t, 5*time.Minute)
	leaf := e.enrolSender(ctx, t, "cutoff")
	client := plogotlp.NewGRPCClient(testbed.DialOTLP(t, e.grpcAddress(), e.clientTLS(t, &leaf)))
	_, err := client.Export(ctx, testbed.Logs("before the cut-off"))
	require.NoError(t, err)

	for confirmed := false; !confirmed; { // a repeated revoke answers the first receipt
		receipt, err := e.fleet.API.RevokeSender(ctx, demo.RegionalID, "cutoff", operators.RevokeCompromised, "", 10*time.Second)
		require.NoError(t, err)
		require.NotEmpty(t, receipt.Instances)
		confirmed = !slices.ContainsFunc(receipt.Instances, func(i controlapi.ReceiptInstance) bool { return i.State != controlapi.ReceiptConfirmed })
	}
	_, err = client.Export(ctx, testbed.Logs("after the cut-off"))
	assert.Equal(t, codes.PermissionDenied, status.Code(err), "%v", err)

	require.NoError(t, e.fleet.SendLog(ctx, demo.ClusterID, "the neighbour goes on", nil))
	_, err = e.fleet.Sink.Wait(ctx, func(r demo.Record) bool { return r.Summary == "the neighbour goes on" })
	require.NoError(t, err)
	for _, r := range e.fleet.Sink.Records("cutoff", demo.SignalLogs) {
		assert.NotEqual(t, "after the cut-off", r.Summary)
	}
}

// enrolSender registers, approves and connects a cluster with a label, and enrols a
// leaf for it with the client that components use.
func (e *environment) enrolSender(ctx context.Context, t *testing.T, id string) tls.Certificate {
	t.Helper()
	_, err := e.fleet.API.PutCluster(ctx, id, operators.ClusterRequest{Kind: operators.ClusterHost, Labels: map[string]string{"env": "demo"}})
	require.NoError(t, err)
	_, err = e.fleet.API.ApproveCluster(ctx, id)
	require.NoError(t, err)
	_, err = e.fleet.API.ConnectSender(ctx, demo.RegionalID, id, "")
	require.NoError(t, err)
	leaf := e.server.Enroll(demo.RegionalID, id)
	assert.Equal(t, identity.SenderName(demo.RegionalID, id), leaf.Name)
	e.admit(t, &leaf.TLS, id)
	return leaf.TLS
}

// admit sends until the operator's policy has come to know the sender, as an
// exporter does: until then it is refused retryably.
func (e *environment) admit(t *testing.T, leaf *tls.Certificate, id string) {
	t.Helper()
	config := e.clientTLS(t, leaf)
	testbed.Eventually(t, "the operator to admit "+id, func(ctx context.Context) error {
		return testbed.SendGRPC(ctx, t, e.grpcAddress(), config, "the first of "+id)
	})
}

func (e *environment) clientTLS(t *testing.T, leaf *tls.Certificate) *tls.Config {
	t.Helper()
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(e.operatorCA))
	config := &tls.Config{RootCAs: roots, ServerName: identity.StableName(demo.RegionalID), MinVersion: tls.VersionTLS13}
	if leaf != nil {
		// Sent whatever the server asks for, as a careless or hostile client does.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return leaf, nil }
	}
	return config
}

func (e *environment) grpcAddress() string {
	return fmt.Sprintf("127.0.0.1:%d", e.fleet.Collector(demo.RegionalID).GRPCPort)
}

func (e *environment) httpAddress() string {
	return fmt.Sprintf("127.0.0.1:%d", e.fleet.Collector(demo.RegionalID).HTTPPort)
}

func receiverCA(t *testing.T, fleet *demo.Fleet) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(fleet.Collector(demo.RegionalID).StateDir, "receiver", "ca.crt"))
	require.NoError(t, err)
	return text
}

func readLeaf(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	block, _ := pem.Decode(text)
	require.NotNil(t, block)
	leaf, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return leaf
}
