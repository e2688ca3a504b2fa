// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"

	"github.com/ikhnos/continuum/test/testbed"
)

// TestCertificateMatrix is requirements 9, TM-2 to TM-11, over gRPC and HTTP, on
// certificates of the server's own signing code: our collector as receiver, and as
// sender once our collector and once one of the same release without our
// components. The reload interval is a second (TM-14).
func TestCertificateMatrix(t *testing.T) {
	if testing.Short() {
		t.Skip("starts four processes")
	}
	t.Parallel()
	for name, program := range map[string]func(testing.TB, string) string{
		"continuum-collector": testbed.Program,
		"otelcol-stock":       testbed.Tool,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMatrix(t)
			m.startReceiver()
			m.startSender(program(t, name))
			m.accepts()
			m.refuses()
			m.swapClientCA() // before TM-8, so that both recover at once: gRPC waits longer after each failure
			m.renewedClient()
			m.swappedClientCA()
			m.renewedReceiver()
			m.replacedDestinationCA()
			m.verify()
		})
	}
}

// accepts is TM-2: a certificate of the operator's CA, dialling a name on the
// server's certificate.
func (m *matrix) accepts() {
	m.send("first")
	for _, row := range []string{"tm2", "tm10-old", "tm11"} {
		m.arrives(row, "first")
	}
}

// refusals are TM-3 to TM-7, and rows whose turn comes later: what is wrong, as the
// sender logs it at its default level (TM-13).
var refusals = map[string]string{
	"tm3":      "remote error: tls: unknown certificate authority",
	"tm4":      "remote error: tls: certificate required",
	"tm5":      "remote error: tls: expired certificate",
	"tm6":      "certificate is valid for " + matrixOperator,
	"tm7":      "certificate signed by unknown authority",
	"tm8":      "remote error: tls: expired certificate",
	"tm10-new": "remote error: tls: unknown certificate authority",
}

func (m *matrix) refuses() {
	for row, reason := range refusals {
		for _, protocol := range matrixProtocols {
			m.sender.WaitLog("Exporting failed. Will retry", exporterID(row, protocol), reason)
		}
	}
}

// renewedClient is TM-8: a client certificate is overwritten, and the sender is not
// restarted. One that worked is used from the next connections on; one that had
// expired recovers with what was queued meanwhile (trap-13).
func (m *matrix) renewedClient() {
	end := time.Now().Add(20 * 24 * time.Hour).Truncate(time.Second)
	for _, protocol := range matrixProtocols {
		for _, row := range []string{"tm2", "tm8"} {
			m.ca.sender(m.t, holderID(row, protocol), time.Now().Add(-time.Hour), end).write(m.clientDir(row, protocol))
		}
	}
	m.arrives("tm8", "first")
	looks := 0
	testbed.Eventually(m.t, "new connections with the renewed certificate", func(ctx context.Context) error {
		looks++
		m.send(fmt.Sprintf("renewed-%d", looks))
		for _, protocol := range matrixProtocols {
			if err := m.leafEnds(ctx, holderID("tm2", protocol), end); err != nil {
				return err
			}
		}
		return nil
	})
}

// renewedReceiver is TM-9: new connections meet the receiver's renewed certificate
// without a restart, one that is open stays on the old, and senders go on.
func (m *matrix) renewedReceiver() {
	old, held := m.probe(), m.hold()
	m.ca.receiver(m.t).write(m.receiverDir("receiver"))
	testbed.Eventually(m.t, "the renewed certificate on new connections", func(context.Context) error {
		if serial := m.probe(); serial == old {
			return fmt.Errorf("still the one with serial %s", old)
		}
		return nil
	})
	held.sendAgain()
	assert.Equal(m.t, []string{old, old}, held.serials(), "one connection for each protocol, with the old certificate")
	m.send("after TM-9")
	m.arrives("tm2", "after TM-9")
}

func (m *matrix) swapClientCA() {
	testbed.WriteFile(m.t, m.receiverDir("swap")+"/ca.crt", m.otherCA.pem())
}

// swappedClientCA is TM-10: the client CA is another one, without a restart. From
// then on its clients get in, with what they had queued, and the old one's do not.
func (m *matrix) swappedClientCA() {
	m.arrives("tm10-new", "first")
	for _, protocol := range matrixProtocols {
		m.refusedWhenSent("tm10-old", protocol, "remote error: tls: unknown certificate authority")
	}
}

// replacedDestinationCA is TM-11 and case-2: the receiver has a certificate of a new
// CA. The sender reads its ca.crt once, so replacing that file is not enough.
func (m *matrix) replacedDestinationCA() {
	m.otherCA.receiver(m.t).write(m.receiverDir("moved"))
	for _, protocol := range matrixProtocols {
		testbed.WriteFile(m.t, m.clientDir("tm11", protocol)+"/ca.crt", m.otherCA.pem())
		m.refusedWhenSent("tm11", protocol, "certificate signed by unknown authority")
	}
	m.sender.Kill() // what it holds for refused rows is in memory and would be tried until the end
	m.sender.Start()
	m.send("after TM-11")
	m.arrives("tm11", "after TM-11")
}

// refusedWhenSent waits until the sender reports a failure of what was sent now: a
// handshake later than the change that came before.
func (m *matrix) refusedWhenSent(row, protocol, reason string) {
	words := []string{"Exporting failed. Will retry", exporterID(row, protocol), reason}
	before := len(m.sender.Logged(words...))
	looks := 0
	testbed.Eventually(m.t, row+" to be refused over "+protocol, func(context.Context) error {
		looks++
		m.send(fmt.Sprintf("%s-%s-%d", row, protocol, looks))
		if lines := len(m.sender.Logged(words...)); lines < before+2 { // one may have been under way
			return fmt.Errorf("%d lines more", lines-before)
		}
		return nil
	})
}

// verify: nothing arrived in a name that has no right, and refused data was kept.
func (m *matrix) verify() {
	allowed := map[string]bool{heldID: true}
	for _, row := range []string{"tm2", "tm8", "tm10-old", "tm10-new", "tm11"} {
		for _, protocol := range matrixProtocols {
			allowed[holderID(row, protocol)] = true
		}
	}
	for _, holder := range m.arrived.senders() {
		assert.True(m.t, allowed[holder], "records of %s arrived", holder)
	}
	assert.Empty(m.t, m.sender.Logged("Dropping data"))
}

// send hands one record to the sender, which passes it to every row.
func (m *matrix) send(id string) {
	m.t.Helper()
	require.NoError(m.t, testbed.SendGRPC(m.t.Context(), m.t, m.listen, nil, id))
}

// arrives waits until a record came over both protocols in the row's own name.
func (m *matrix) arrives(row, id string) {
	m.t.Helper()
	for _, protocol := range matrixProtocols {
		testbed.Eventually(m.t, fmt.Sprintf("%q of %s over %s", id, row, protocol), func(context.Context) error {
			if m.arrived.count(holderID(row, protocol), id) == 0 {
				return fmt.Errorf("it has not arrived")
			}
			return nil
		}, m.receiver.Process, m.sender.Process)
	}
}

// held are connections that stay open.
type held struct {
	m    *matrix
	grpc plogotlp.GRPCClient
	http *http.Client
	seen *handshakes
}

// hold opens a connection for each protocol and sends over it.
func (m *matrix) hold() *held {
	m.t.Helper()
	leaf := m.ca.sender(m.t, heldID, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	h := &held{m: m, seen: &handshakes{}}
	config := leaf.clientTLS(m.ca, h.seen)
	h.grpc = plogotlp.NewGRPCClient(testbed.DialOTLP(m.t, m.address("keep", protocolGRPC), config))
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	m.t.Cleanup(transport.CloseIdleConnections)
	h.http = &http.Client{Transport: transport}
	h.sendAgain()
	return h
}

func (h *held) sendAgain() {
	h.m.t.Helper()
	_, err := h.grpc.Export(h.m.t.Context(), testbed.Logs("held"))
	require.NoError(h.m.t, err)
	code, err := testbed.PostLogs(h.m.t.Context(), h.http, "https://"+h.m.address("keep", protocolHTTP), "held")
	require.NoError(h.m.t, err)
	require.Equal(h.m.t, http.StatusOK, code)
}

func (h *held) serials() []string { return h.seen.serials() }
