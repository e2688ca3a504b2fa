// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"bytes"
	"context"
	"crypto/x509"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/ikhnos/continuum/internal/testpki"
)

// answer is what a sender sees, on whichever protocol.
type answer struct {
	code       codes.Code
	httpStatus int
	reason     string // of ErrorInfo
	message    string
	closed     bool // Connection: close, or GOAWAY
	proto      string
}

// wire sends one request over one kept connection.
type wire struct {
	name string
	send func() answer
}

// wires are the ways into the receiver, each with a connection of its own.
func (r *rig) wires(leaf *testpki.Leaf) []wire {
	grpcClient := r.grpcClient(leaf)
	h1, h2 := r.httpClient(leaf, false), r.httpClient(leaf, true)
	return []wire{
		{"grpc", func() answer { return r.sendGRPC(grpcClient) }},
		{"http1", func() answer { return r.sendHTTP(h1, "application/x-protobuf") }},
		{"http2", func() answer { return r.sendHTTP(h2, "application/json") }},
	}
}

func (r *rig) sendGRPC(c ptraceotlp.GRPCClient) answer {
	ctx, cancel := context.WithTimeout(context.Background(), farDeadline)
	defer cancel()
	_, err := c.Export(ctx, request())
	return grpcAnswer(err)
}

func grpcAnswer(err error) answer {
	st := status.Convert(err)
	a := answer{code: st.Code(), message: st.Message()}
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			a.reason = info.Reason
		}
	}
	return a
}

func encoded(t testing.TB, contentType string) []byte {
	t.Helper()
	if contentType == contentJSON {
		body, err := request().MarshalJSON()
		require.NoError(t, err)
		return body
	}
	body, err := request().MarshalProto()
	require.NoError(t, err)
	return body
}

func (r *rig) sendHTTP(c *http.Client, contentType string) answer {
	return r.post(c, contentType, bytes.NewReader(encoded(r.t, contentType)))
}

func (r *rig) post(c *http.Client, contentType string, body io.Reader) answer {
	req, err := http.NewRequest(http.MethodPost, "https://"+r.httpAddr+"/v1/traces", body)
	require.NoError(r.t, err)
	req.Header.Set("Content-Type", contentType)
	return r.do(c, req, contentType)
}

func (r *rig) do(c *http.Client, req *http.Request, contentType string) answer {
	resp, err := c.Do(req)
	if err != nil {
		return answer{code: codes.Unknown, message: err.Error()}
	}
	return r.readAnswer(resp, contentType)
}

func (r *rig) readAnswer(resp *http.Response, contentType string) answer {
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	a := answer{httpStatus: resp.StatusCode, closed: resp.Close, proto: resp.Proto}
	if resp.StatusCode == http.StatusOK {
		return a
	}
	var st spb.Status
	require.Equal(r.t, contentType, resp.Header.Get("Content-Type"))
	if contentType == contentJSON {
		require.NoError(r.t, protojson.Unmarshal(body, &st), string(body))
	} else {
		require.NoError(r.t, proto.Unmarshal(body, &st))
	}
	got := grpcAnswer(status.FromProto(&st).Err())
	a.code, a.reason, a.message = got.code, got.reason, got.message
	return a
}

// requireRefused checks the whole form of a refusal.
func requireRefused(t *testing.T, a answer, reason string, code codes.Code) {
	t.Helper()
	require.Equal(t, reason, a.reason, a.message)
	require.Equal(t, reason, strings.Fields(a.message)[0], "first word of the message")
	require.Equal(t, code, a.code)
	if a.httpStatus != 0 {
		require.Equal(t, map[codes.Code]int{codes.Unavailable: 503, codes.PermissionDenied: 403}[code], a.httpStatus)
		if a.proto == "HTTP/1.1" {
			require.True(t, a.closed, "Connection: close")
		}
	}
}

func requireAccepted(t *testing.T, a answer) {
	t.Helper()
	require.Empty(t, a.message)
	require.Equal(t, codes.OK, a.code)
	if a.httpStatus != 0 {
		require.Equal(t, http.StatusOK, a.httpStatus)
	}
}

// TM-2 to TM-5, TM-12, A-12 and the refusal table.
func TestHandshakesAndRefusals(t *testing.T) {
	ca, foreign := testpki.NewCA(t, operatorID), testpki.NewCA(t, "op-other")
	r := newRig(t, ca, staticConfig("c1", "c2"), options{})

	t.Run("listed sender is accepted", func(t *testing.T) { // TM-2
		for _, w := range r.wires(sender(t, ca, "c1")) {
			requireAccepted(t, w.send())
			info := r.sink.last()
			require.NotNil(t, info.Auth, w.name)
			assert.Equal(t, "op-abc-export-c1", info.Auth.GetAttribute("sender.name"))
			assert.Equal(t, "c1", info.Auth.GetAttribute("sender.cluster_id"))
			assert.Equal(t, "gold", info.Auth.GetAttribute("sender.label.tier"))
			assert.NotNil(t, info.Addr, "the peer's address is kept")
			if w.name != "grpc" {
				assert.NotEmpty(t, info.Metadata.Get("Content-Type"), "metadata is kept")
			}
		}
	})
	t.Run("unlisted sender is refused", func(t *testing.T) { // PK-11, LG-6
		for _, w := range r.wires(sender(t, ca, "c9")) {
			requireRefused(t, w.send(), "sender_unknown", codes.PermissionDenied)
		}
	})
	for name, leaf := range map[string]*testpki.Leaf{
		"another operator's CA":  sender(t, foreign, "c1"),                                                                       // TM-3
		"no certificate":         nil,                                                                                            // TM-4
		"expired":                sender(t, ca, "c1", testpki.Between(time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour))), // TM-5
		"not yet valid":          sender(t, ca, "c1", testpki.Between(time.Now().Add(time.Hour), time.Now().Add(2*time.Hour))),
		"receiver's certificate": ca.Receiver(t),
		// Go's verification knows no such name; the dot is taken off where it does.
		"dot behind the DNS name": sender(t, ca, "c1", func(c *x509.Certificate) { c.DNSNames = []string{c.DNSNames[0] + "."} }),
	} {
		t.Run(name+" fails the handshake", func(t *testing.T) {
			for _, w := range r.wires(leaf) {
				a := w.send()
				assert.NotEqual(t, codes.OK, a.code, w.name)
				assert.Empty(t, a.reason, "nobody below TLS answered: %s", a.message)
			}
		})
	}
	assert.Equal(t, 3, r.sink.SpanCount())
	assert.NotEmpty(t, r.logs.FilterMessage("Requests refused").All(), "TM-12: at the default level")
}
