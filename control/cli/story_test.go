// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
	"github.com/ikhnos/continuum/internal/identity"
)

// stepClock is a clock that the test sets.
type stepClock struct {
	mu  sync.Mutex
	now time.Time // guarded by mu
}

func (c *stepClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *stepClock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

// fleetStory is a fleet of 12 operators and 200 senders on a real server, whose
// operators report over the API as collectors do.
type fleetStory struct {
	*realServer
	server *runningServer
	clock  *stepClock
	actor  operators.Actor
}

// The senders and operators that something is wrong with.
const (
	deadOperator     = "op-03" // has seven senders
	silentSender     = "c020"
	refusedSender    = "c040"
	lateSender       = "c060"
	cutSender        = "c080"
	oldOperator      = "op-12" // its CA ends soon
	storyOperators   = 12
	storySenders     = 200
	storyDeadSenders = 7
)

func TestMorningStatus(t *testing.T) {
	f := newFleetStory(t)

	got := f.run("status")
	assert.Equal(t, exitFound, got.code)
	lines := strings.Split(got.stdout, "\n")
	require.Equal(t, "PROBLEMS (7)", lines[0], got.stdout)
	for i, want := range [][]string{
		{"✕", "not confirmed", "op-08-export-c080", "ikhnos receipt get rcp-"},
		{"▲ op-03 offline", "since", "its 7 senders are not measured", "ikhnos operator get op-03"},
		{"▲ c020 silent", "since", "others behind op-02 send", "ikhnos sender get c020 --operator op-02"},
		{"◷ c060 renewal failing", "its certificate ends in 16 d", "ikhnos sender get c060 --operator op-06"},
		{"⬣ c040 refused", "usage_wrong", "ikhnos sender get c040 --operator op-04"},
		{"◷ op-12 ca ends", "ends in 90 d", "ikhnos ca show op-12"},
		{"◌ 3 clusters waiting for approval", "ikhnos cluster list --state pending"},
	} {
		for _, part := range want {
			assert.Contains(t, lines[1+i], part)
		}
	}
	assert.Contains(t, got.stdout, "12 operators: 11 online, 1 offline")
	assert.Contains(t, got.stdout, "203 clusters: 200 approved, 3 pending")
	assert.Contains(t, got.stdout, "200 senders: 189 active, 7 not measured, 1 refused, 1 renewal failing, 1 revoked, 1 silent")
	assert.Contains(t, got.stdout, "policy confirmed by 10 of 11")

	f.sameInTheSummary()
	f.sameInTheMetrics()
}

// sameInTheSummary finds each fact once in what the API answers.
func (f *fleetStory) sameInTheSummary() {
	f.t.Helper()
	var summary liveness.Summary
	require.NoError(f.t, json.Unmarshal([]byte(f.run("status", "-o", "json").stdout), &summary))
	var kinds []string
	for _, a := range summary.Attention {
		kinds = append(kinds, a.Kind)
	}
	assert.Equal(f.t, []string{
		liveness.AttentionUnconfirmed, liveness.AttentionOperator, liveness.AttentionSilent, liveness.AttentionRenewal,
		liveness.AttentionRefused, liveness.AttentionCA, liveness.AttentionPending,
	}, kinds)
}

// sameInTheMetrics finds each fact in what Prometheus scrapes.
func (f *fleetStory) sameInTheMetrics() {
	f.t.Helper()
	resp, err := http.Get(f.server.metricsURL + "/metrics")
	require.NoError(f.t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(f.t, err)
	metrics := string(text)
	state := func(operator, cluster, word string) string {
		return fmt.Sprintf("ikhnos_sender_state{operator=%q,org=%q,sender=%q,state=%q} 1\n",
			operator, operators.DefaultOrg, identity.SenderName(operator, cluster), word)
	}
	assert.Contains(f.t, metrics, state("op-02", silentSender, liveness.StatusSilent))
	assert.Contains(f.t, metrics, state("op-04", refusedSender, liveness.StatusRefused))
	assert.Contains(f.t, metrics, state("op-06", lateSender, liveness.StatusRenewalFailing))
	assert.Contains(f.t, metrics, state("op-08", cutSender, liveness.StatusRevoked))
	assert.Equal(f.t, storyDeadSenders, strings.Count(metrics, `state="not_measured"} 1`))
	assert.Equal(f.t, storySenders, strings.Count(metrics, "ikhnos_sender_state{"))
	assert.Contains(f.t, metrics, "ikhnos_policy_unconfirmed_instances 1\n")
	assert.Contains(f.t, metrics, fmt.Sprintf("ikhnos_operator_last_seen_timestamp_seconds{operator=%q,org=%q} ", deadOperator, operators.DefaultOrg))
	assert.Contains(f.t, metrics, fmt.Sprintf("ikhnos_ca_not_after_timestamp_seconds{operator=%q,org=%q} ", oldOperator, operators.DefaultOrg))
}

// newFleetStory builds the fleet along time: a CA of almost five years ago, a leaf
// of two weeks ago, an operator last heard ten minutes ago, the rest now.
func newFleetStory(t *testing.T) *fleetStory {
	t.Helper()
	now := time.Now().Truncate(time.Second)
	f := &fleetStory{clock: &stepClock{now: now.AddDate(-5, 0, 90)}}
	f.start(t)
	f.create(12) // the one operation that a client of today could not ask the server of then

	f.clock.Set(now.Add(-14 * 24 * time.Hour))
	for i := 1; i < storyOperators; i++ {
		f.create(i)
	}
	receivers := map[string]controlclient.Holder{}
	f.connect(lateSender, "op-06")

	f.clock.Set(now.Add(-10 * time.Minute))
	names := f.connectAll()
	for i := 1; i <= storyOperators; i++ {
		id := operatorID(i)
		receivers[id] = f.enrollHolder(id, "")
		f.beat(id)
		f.tell(receivers[id], names[id], 0)
	}

	f.clock.Set(now)
	for i := range 3 {
		f.ok("cluster", "add", fmt.Sprintf("new-%d", i))
	}
	f.exec(exitNotConfirmed, "sender", "revoke", cutSender, "--operator", "op-08", "--wait", "0s")
	for id, receiver := range receivers {
		if id == deadOperator {
			continue
		}
		f.beat(id)
		behind := int64(0)
		if id == "op-08" {
			behind = 1 // it still runs the policy from before the cut-off
		}
		f.tell(receiver, names[id], behind)
	}
	return f
}

func operatorID(i int) string { return fmt.Sprintf("op-%02d", i) }

// start runs the server on the story's clock.
func (f *fleetStory) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	dir := t.TempDir()
	cfg := &serverConfig{listen: "127.0.0.1:0", metricsListen: "127.0.0.1:0", dataDir: dir, leafLifetime: maxLeafLifetime}
	var err error
	f.server, err = startServer(ctx, cfg, slog.New(slog.DiscardHandler), f.clock.Now)
	require.NoError(t, err)
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, f.server.wait())
		http.DefaultClient.CloseIdleConnections()
	})
	m := newMachine(t, nil)
	m.env.now = f.clock.Now
	token := strings.TrimSpace(m.ok("admin-token", "show-initial", "--data-dir", dir))
	m.env.vars["IKHNOS_SERVER"], m.env.vars["IKHNOS_CA_PIN"], m.env.vars["IKHNOS_TOKEN"] = f.server.url, f.server.pin, token
	f.actor, err = f.server.ops.Authenticate(t.Context(), token)
	require.NoError(t, err)
	transport, err := controlclient.PinnedTransport([]string{f.server.pin}, nil)
	require.NoError(t, err)
	t.Cleanup(transport.CloseIdleConnections)
	client, err := controlclient.New(&http.Client{Transport: transport}, f.server.url, f.clock.Now)
	require.NoError(t, err)
	f.realServer = &realServer{machine: m, client: client}
}

func (f *fleetStory) create(i int) {
	f.t.Helper()
	_, _, err := f.server.ops.PutOperator(f.t.Context(), f.actor, operators.OperatorRequest{
		ID: operatorID(i), Name: operatorID(i), Heartbeat: operators.SwitchOn,
		Destination: &operators.Destination{Kind: operators.DestinationOTLP, Endpoint: "store.example.com:4317"},
	})
	require.NoError(f.t, err)
}

// connectAll connects the clusters, seven to the operator that dies and the others
// by turns, and returns the names of each operator's senders.
func (f *fleetStory) connectAll() map[string][]string {
	f.t.Helper()
	fixed := map[string]string{silentSender: "op-02", refusedSender: "op-04", lateSender: "op-06", cutSender: "op-08"}
	names := map[string][]string{}
	var others []string
	for i := 1; i <= storyOperators; i++ {
		if id := operatorID(i); id != deadOperator {
			others = append(others, id)
		}
	}
	for i := 1; i <= storySenders; i++ {
		cluster := fmt.Sprintf("c%03d", i)
		operator, special := fixed[cluster]
		switch {
		case special:
		case i <= storyDeadSenders:
			operator = deadOperator
		default:
			operator = others[i%len(others)]
		}
		if cluster != lateSender { // connected two weeks ago
			f.connect(cluster, operator)
		}
		names[operator] = append(names[operator], identity.SenderName(operator, cluster))
	}
	return names
}

func (f *fleetStory) connect(cluster, operator string) {
	f.t.Helper()
	ctx := f.t.Context()
	_, err := f.server.ops.CreateCluster(ctx, f.actor, operators.ClusterRequest{ID: cluster})
	require.NoError(f.t, err)
	_, err = f.server.ops.ApproveCluster(ctx, f.actor, cluster)
	require.NoError(f.t, err)
	_, _, err = f.server.ops.ConnectSender(ctx, f.actor, operator, cluster, operators.SenderRequest{})
	require.NoError(f.t, err)
	f.enrollHolder(operator, cluster)
}

// enrollHolder gets a certificate for a sender or, without one, for the receiver.
func (f *fleetStory) enrollHolder(operator, cluster string) controlclient.Holder {
	f.t.Helper()
	request := operators.TokenRequest{Role: controlapi.RoleReceiver}
	if cluster != "" {
		request = operators.TokenRequest{Role: controlapi.RoleSender, Sender: cluster}
	}
	token, err := f.server.ops.MintToken(f.t.Context(), f.actor, operator, request)
	require.NoError(f.t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(f.t, err)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	require.NoError(f.t, err)
	issued, err := f.client.Enroll(f.t.Context(), token.Token, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}))
	require.NoError(f.t, err)
	leaf, _ := pem.Decode([]byte(issued.Certificate))
	return controlclient.Holder{Key: key, Leaf: leaf.Bytes}
}

func (f *fleetStory) beat(operator string) {
	f.t.Helper()
	minted, err := f.server.ops.MintHeartbeat(f.t.Context(), f.actor, operator)
	require.NoError(f.t, err)
	require.NoError(f.t, f.client.Heartbeat(f.t.Context(), minted.Secret, &controlapi.Heartbeat{
		Version: "test", Instance: operator, StartedAt: f.clock.Now(), Status: controlapi.HealthOK, Certificates: []controlapi.HeartbeatCertificate{},
	}))
}

// tell reports all senders of an operator as just accepted, but for the two that
// something is wrong with, under the policy that lies behind the present one by
// some changes.
func (f *fleetStory) tell(receiver controlclient.Holder, senders []string, behind int64) {
	f.t.Helper()
	now := controlapi.Seconds(f.clock.Now())
	answer, err := f.client.Policy(f.t.Context(), receiver, "", 0)
	require.NoError(f.t, err)
	var version controlapi.Version
	require.NoError(f.t, json.Unmarshal(decoded(f.t, strings.Split(answer.JWS, ".")[1]), &version))
	report := &controlapi.Report{
		Instance: "9f1c", Version: "test", StartedAt: now,
		Policy: controlapi.ReportPolicy{Version: controlapi.Version{Epoch: version.Epoch, Number: version.Number - behind}, AppliedAt: now},
	}
	for _, name := range senders {
		at := now
		one := controlapi.ReportSender{Name: name, Accepted: controlapi.SignalCounts{Logs: 10}}
		switch {
		case strings.HasSuffix(name, silentSender):
			at = now.Add(-time.Hour)
		case strings.HasSuffix(name, refusedSender):
			one.Refused = map[string]int64{"usage_wrong": 3}
			one.FirstRefusedAtMs = now.UnixMilli() + 1
		}
		one.LastAcceptedAt, one.LastAcceptedAtMs = &at, at.UnixMilli()
		report.Senders = append(report.Senders, one)
	}
	require.NoError(f.t, f.client.Report(f.t.Context(), receiver, report))
}
