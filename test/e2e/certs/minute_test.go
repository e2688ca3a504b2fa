// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/test/testbed"
)

// leafLife is the shortest that the server issues.
const leafLife = time.Minute

// TestMinuteLeaves is trap-1 and case-1: every certificate of a chain of collectors
// lives a minute, and load runs through it over gRPC and HTTP for many lives. Every
// certificate is replaced in time, every record arrives, and no export fails. A
// sender that was off for longer than its certificate lives comes back beside it.
func TestMinuteLeaves(t *testing.T) {
	if testing.Short() {
		t.Skip("takes two minutes")
	}
	t.Parallel()
	s := testbed.StartServer(t, "--leaf-lifetime", leafLife.String())
	sink := testbed.StartSink(t, nil)
	central := startCentral(t, s, sink)
	regional := startRegional(t, s, central)
	n := newSender(t, s, regional, "c1")
	n.Start()
	began := time.Now()
	overGRPC := testbed.StartLoad(t, n.grpc, "grpc", 5, 100*time.Millisecond)
	overHTTP := testbed.StartLoad(t, n.http, "http", 5, 100*time.Millisecond)

	offForLonger(t, s, regional, sink)

	lives := count(2, 20)
	holders := map[string]string{ // of each certificate, by operator
		centralID: centralID, regionalID: regionalID, n.holder: regionalID,
		centralID + "-export-" + regionalID: centralID,
	}
	testbed.Within(t, time.Duration(lives+10)*leafLife, fmt.Sprintf("%d lives to pass", lives), func(context.Context) error {
		if time.Since(began) < time.Duration(lives)*leafLife {
			return errors.New("not yet")
		}
		return nil
	}, s.Process, central.Process, regional.Process, n.Process)

	ids := append(overGRPC.Stop(), overHTTP.Stop()...)
	sink.Wait(ids...)
	twice := 0
	for _, id := range ids {
		twice += sink.Count(id) - 1
	}
	for holder, operatorID := range holders {
		entries := s.Entries(operatorID, holder)
		assert.GreaterOrEqual(t, len(entries), 2*lives, "%s: renewed after a third of each life", holder)
		for i := range len(entries) - 1 { // newest first
			assert.Equal(t, entries[i+1].Serial, entries[i].Parent, "%s: each renewal was asked for with the certificate before (case-10)", holder)
			assert.True(t, entries[i].IssuedAt.Before(entries[i+1].NotAfter), "%s was without a certificate", holder)
		}
		t.Logf("%s: %d certificates", holder, len(entries))
	}
	for _, c := range []*testbed.Collector{n.Collector, regional.Collector, central.Collector} {
		assert.Empty(t, c.Logged("Exporting failed"), c.Name)
		assert.Empty(t, c.Logged("Dropping data"), c.Name)
	}
	t.Logf("%d records in %s, %d of them twice; %d descriptors open", len(ids), time.Since(began).Round(time.Second), twice, files(t, n.Collector))
}

// offForLonger is trap-2, trap-13 and case-11: the collector of a sender was off
// until its certificate had ended. It starts with it and says so; its data waits in
// its queue, and one new token brings everything back without a restart.
func offForLonger(t *testing.T, s *testbed.Server, to *operator, sink *testbed.Sink) {
	t.Helper()
	n := newSender(t, s, to, "c2")
	n.Start()
	n.Kill()
	leaf, err := n.pair().Leaf()
	require.NoError(t, err)
	testbed.Eventually(t, "the end of the certificate", func(context.Context) error {
		if time.Now().After(leaf.NotAfter.Add(time.Second)) {
			return nil
		}
		return errors.New("not yet")
	})

	n.Start()
	n.WaitLog("certificate has ended; the collector starts with it and goes on trying")
	n.WaitLog("certificate could not be renewed", "reason")
	require.NoError(t, testbed.SendGRPC(t.Context(), t, n.grpc, nil, "queued over gRPC"))
	require.NoError(t, testbed.SendGRPC(t.Context(), t, n.http, nil, "queued over HTTP"))
	n.WaitLog("Exporting failed. Will retry", `"otlp_grpc"`, "expired certificate")
	n.WaitLog("Exporting failed. Will retry", `"otlp_http"`, "expired certificate")
	assert.Equal(t, 1, n.entries(), "nothing is issued for a certificate that has ended")

	s.TokenFile(n.tokenFile(), to.id, "c2")
	sink.Wait("queued over gRPC", "queued over HTTP")
	assert.Empty(t, n.Logged("Dropping data"))
	n.Kill()
}

func files(t testing.TB, c *testbed.Collector) int {
	t.Helper()
	open, err := c.OpenFiles()
	require.NoError(t, err)
	return open
}
