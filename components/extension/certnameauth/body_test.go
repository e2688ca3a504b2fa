// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/testpki"
)

const exportTraces = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

// slowRequest is a request whose headers have reached the receiver and whose
// body has not.
type slowRequest struct {
	name   string
	finish func() answer // sends the rest and reads the answer
	wait   func() answer // reads the answer without sending the rest
}

// slowRequests starts one on every protocol. With begun it returns when the
// receiver has accepted their headers.
func (r *rig) slowRequests(leaf *testpki.Leaf, begun bool) []slowRequest {
	return []slowRequest{r.slowHTTP1(leaf, begun), r.slowHTTP2(leaf, begun), r.slowGRPC(leaf, begun)}
}

func (r *rig) slowHTTP1(leaf *testpki.Leaf, begun bool) slowRequest {
	conn, err := tls.Dial("tcp", r.httpAddr, r.clientTLS(leaf))
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(r.t, conn.SetReadDeadline(time.Now().Add(waitLong)))
	reader := bufio.NewReader(conn)
	body, expect := encoded(r.t, contentJSON), ""
	if begun {
		expect = "Expect: 100-continue\r\n"
	}
	_, err = fmt.Fprintf(conn, "POST /v1/traces HTTP/1.1\r\nHost: x\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", expect, len(body))
	require.NoError(r.t, err)
	if begun { // the receiver asks for the body once it wants to read it
		line, err := reader.ReadString('\n')
		require.NoError(r.t, err)
		require.Contains(r.t, line, "100 Continue")
		_, err = reader.ReadString('\n')
		require.NoError(r.t, err)
	}
	_, err = conn.Write(body[:len(body)/2])
	require.NoError(r.t, err)
	// The answer is read as soon as it comes: a server that has not read the whole
	// body resets the connection half a second after its answer.
	answers := make(chan answer, 1)
	go func() {
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			answers <- answer{code: codes.Unknown, message: err.Error()}
			return
		}
		answers <- r.readAnswer(resp, contentJSON)
	}()
	wait := func() answer { return <-answers }
	return slowRequest{"http1", func() answer {
		_, err := conn.Write(body[len(body)/2:])
		require.NoError(r.t, err)
		return wait()
	}, wait}
}

func (r *rig) slowHTTP2(leaf *testpki.Leaf, begun bool) slowRequest {
	c := r.httpClient(leaf, true)
	c.Transport.(*http.Transport).ExpectContinueTimeout = 20 * time.Second
	body := encoded(r.t, contentProtobuf)
	reader, writer := io.Pipe()
	asked, answers := make(chan struct{}), make(chan answer, 1)
	trace := &httptrace.ClientTrace{Got100Continue: func() { close(asked) }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(context.Background(), trace), http.MethodPost, "https://"+r.httpAddr+"/v1/traces", reader)
	require.NoError(r.t, err)
	req.Header.Set("Content-Type", contentProtobuf)
	if begun {
		req.Header.Set("Expect", "100-continue")
	}
	go func() { answers <- r.do(c, req, contentProtobuf) }()
	if begun {
		<-asked
	}
	half := make(chan struct{})
	go func() {
		_, _ = writer.Write(body[:len(body)/2])
		close(half)
	}()
	r.t.Cleanup(func() { _ = writer.Close() })
	return slowRequest{"http2", func() answer {
		<-half
		_, _ = writer.Write(body[len(body)/2:])
		_ = writer.Close()
		return <-answers
	}, func() answer { return <-answers }}
}

// slowGRPC opens a stream for the unary method, so that its message can come
// when it likes. A second call on the same connection is answered after the
// headers of the first were looked at.
func (r *rig) slowGRPC(leaf *testpki.Leaf, begun bool) slowRequest {
	conn, err := grpc.NewClient(r.grpcAddr, grpc.WithTransportCredentials(credentials.NewTLS(r.clientTLS(leaf))))
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithCancel(context.Background())
	r.t.Cleanup(cancel)
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, exportTraces, grpc.ForceCodec(rawCodec{}))
	require.NoError(r.t, err)
	if begun {
		require.NoError(r.t, conn.Invoke(ctx, exportTraces, &rawMessage{encoded(r.t, contentProtobuf)}, &rawMessage{}, grpc.ForceCodec(rawCodec{})))
	}
	wait := func() answer { return grpcAnswer(stream.RecvMsg(&rawMessage{})) }
	return slowRequest{"grpc", func() answer {
		_ = stream.SendMsg(&rawMessage{encoded(r.t, contentProtobuf)})
		_ = stream.CloseSend()
		return wait()
	}, wait}
}

// rawCodec sends bytes as they are.
type rawCodec struct{}

type rawMessage struct{ data []byte }

func (rawCodec) Marshal(v any) ([]byte, error)      { return v.(*rawMessage).data, nil }
func (rawCodec) Unmarshal(data []byte, v any) error { v.(*rawMessage).data = data; return nil }
func (rawCodec) Name() string                       { return "proto" }

// The second decision: headers before the revocation, body after.
func TestRevocationBetweenHeadersAndBody(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	s := newFakeServer(t, ca)
	s.publish(signPolicy(t, ca, policyOf(1, 1, "c1")))
	r := newRig(t, ca, policyConfig(t, ca, s), options{})
	r.inForce(1, 1)
	for _, slow := range r.slowRequests(sender(t, ca, "c1"), false) {
		requireAccepted(t, slow.finish())
	}
	slow := r.slowRequests(sender(t, ca, "c1"), true)
	s.publish(signPolicy(t, ca, revoke(policyOf(1, 2, "c1"), 0, controlapi.SenderRevoked)))
	r.inForce(1, 2)
	for _, w := range slow {
		t.Run(w.name, func(t *testing.T) { requireRefused(t, w.finish(), "sender_revoked", codes.PermissionDenied) })
	}
	assert.Equal(t, 3+1, r.sink.SpanCount())
	assert.Equal(t, map[string]int64{"accepted": 3 + 1, "sender_revoked": 3}, r.outcomes(), "each counted once")
}

// trap-5: headers before the leaf's end, body after.
func TestExpiryBetweenHeadersAndBody(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	r := newRig(t, ca, staticConfig("c1"), options{})
	leaf := sender(t, ca, "c1")
	slow := r.slowRequests(leaf, true)
	r.clock.move(time.Until(leaf.Cert.NotAfter) + time.Minute)
	for _, w := range slow {
		t.Run(w.name, func(t *testing.T) { requireRefused(t, w.finish(), "certificate_ended", codes.Unavailable) })
	}
	assert.Equal(t, map[string]int64{"accepted": 1, "certificate_ended": 3}, r.outcomes(), "the one is the second call on gRPC")
}

// An identity that changed while the body came is the one that enters.
func TestIdentityOfTheSecondDecision(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	s := newFakeServer(t, ca)
	s.publish(signPolicy(t, ca, policyOf(1, 1, "c1")))
	r := newRig(t, ca, policyConfig(t, ca, s), options{})
	r.inForce(1, 1)
	for i, slow := range r.slowRequests(sender(t, ca, "c1"), true) {
		p := policyOf(1, int64(i+2), "c1")
		p.Senders[0].Labels = map[string]string{"tier": slow.name}
		s.publish(signPolicy(t, ca, p))
		r.inForce(1, int64(i+2))
		requireAccepted(t, slow.finish())
		assert.Equal(t, slow.name, r.sink.last().Auth.GetAttribute("sender.label.tier"))
	}
}

// A body that never ends is ended by request_timeout, which runs from the headers.
func TestBodyThatNeverEnds(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	cfg := staticConfig("c1")
	cfg.RequestTimeout = 500 * time.Millisecond
	r := newRig(t, ca, cfg, options{})
	for _, w := range r.slowRequests(sender(t, ca, "c1"), false) {
		t.Run(w.name, func(t *testing.T) {
			a := w.wait()
			if w.name == "grpc" { // grpc-go answers itself; exporters retry this code, too
				assert.Equal(t, codes.DeadlineExceeded, a.code)
				return
			}
			requireRefused(t, a, "timeout", codes.Unavailable)
		})
	}
	require.Eventually(t, func() bool { return r.outcomes()["timeout"] == 3 }, waitLong, tick)
}

// A pipeline that holds a request is left after request_timeout; once the
// collector is stopping, after five seconds.
func TestPipelineThatHolds(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	t.Run("request_timeout", func(t *testing.T) {
		t.Parallel()
		cfg := staticConfig("c1")
		cfg.RequestTimeout = 5 * time.Second // long enough to reach the pipeline
		r := newRig(t, ca, cfg, options{})
		entered := r.sink.holding(3)
		r.refusedTogether(sender(t, ca, "c1"), "timeout", func() {})
		assert.Len(t, entered, 3)
		assert.Equal(t, map[string]int64{"timeout": 3}, r.outcomes())
	})
	t.Run("stopping", func(t *testing.T) {
		t.Parallel()
		cfg := staticConfig("c1")
		cfg.RequestTimeout = time.Hour
		r := newRig(t, ca, cfg, options{})
		entered := r.sink.holding(3)
		r.refusedTogether(sender(t, ca, "c1"), "timeout", func() {
			for range 3 {
				<-entered
			}
			require.NoError(t, r.ext.NotReady())
		})
	})
}

// holding makes the pipeline hold every request until its context ends. Each of the
// first n writes to the channel when it enters.
func (s *sink) holding(n int) <-chan struct{} {
	entered := make(chan struct{}, n)
	s.setHook(func(ctx context.Context) error {
		entered <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})
	return entered
}

// refusedTogether sends by all wires at once, retryably refused for one reason.
func (r *rig) refusedTogether(leaf *testpki.Leaf, reason string, meanwhile func()) {
	t := r.t.(*testing.T)
	wires := r.wires(leaf)
	answers := make(chan answer, len(wires))
	for _, w := range wires {
		go func() { answers <- w.send() }()
	}
	meanwhile()
	for range wires {
		requireRefused(t, <-answers, reason, codes.Unavailable)
	}
}

// An error of the pipeline passes unchanged (case-39).
func TestPipelineErrorPasses(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	r := newRig(t, ca, staticConfig("c1"), options{})
	r.sink.setHook(func(context.Context) error {
		return status.Error(codes.Unavailable, "data refused due to high memory usage")
	})
	for _, w := range r.wires(sender(t, ca, "c1")) {
		a := w.send()
		assert.Equal(t, codes.Unavailable, a.code)
		assert.Equal(t, "data refused due to high memory usage", a.message)
	}
	assert.Equal(t, map[string]int64{"accepted": 3}, r.outcomes())
}

// countingReader counts what a client managed to hand to the network.
type countingReader struct {
	left int64
	sent *atomic.Int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), c.left)
	c.left -= n
	c.sent.Add(n)
	return int(n), nil
}

// A refused body of 20 MiB is not read.
func TestRefusedBodiesAreNotRead(t *testing.T) {
	const size = 20 << 20
	ca := testpki.NewCA(t, operatorID)
	r := newRig(t, ca, staticConfig("c1"), options{})
	leaf := sender(t, ca, "c9")
	for _, h2 := range []bool{false, true} {
		var sent atomic.Int64
		req, err := http.NewRequest(http.MethodPost, "https://"+r.httpAddr+"/v1/traces", io.NopCloser(&countingReader{size, &sent}))
		require.NoError(t, err)
		req.ContentLength = size
		req.Header.Set("Content-Type", contentProtobuf)
		req.Header.Set("Expect", "100-continue")
		c := r.httpClient(leaf, h2)
		c.Transport.(*http.Transport).ExpectContinueTimeout = waitLong
		resp, err := c.Do(req)
		require.NoError(t, err)
		requireRefused(t, r.readAnswer(resp, contentProtobuf), "sender_unknown", codes.PermissionDenied)
		assert.Zero(t, sent.Load(), "h2 %v: the body was never asked for", h2)

		req, err = http.NewRequest(http.MethodPost, "https://"+r.httpAddr+"/v1/traces", io.NopCloser(&countingReader{size, &sent}))
		require.NoError(t, err)
		req.ContentLength = size
		req.Header.Set("Content-Type", contentProtobuf)
		if resp, err = r.httpClient(leaf, h2).Do(req); err == nil { // else the write failed first, as it may
			assert.Equal(t, http.StatusForbidden, resp.StatusCode)
			_ = resp.Body.Close()
		}
		assert.Less(t, sent.Load(), int64(size), "h2 %v: what the kernel takes, not the body", h2)
	}
	slow := r.slowGRPC(leaf, false)
	requireRefused(t, slow.wait(), "sender_unknown", codes.PermissionDenied) // before any byte of a message
}

// A refusal is answered although the body that was promised does not come.
func TestRefusalDoesNotWaitForTheBody(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	r := newRig(t, ca, staticConfig("c1"), options{})
	for _, w := range r.slowRequests(sender(t, ca, "c9"), false) {
		requireRefused(t, w.wait(), "sender_unknown", codes.PermissionDenied)
	}
}

// A call whose deadline is far away is refused by the interceptor, since a
// refusing tap would keep it in memory until then; so are calls beyond 10,000 a
// minute.
func TestFarDeadlines(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	r := newRig(t, ca, staticConfig("c1"), options{})
	c := r.grpcClient(sender(t, ca, "c9"))
	ctx, cancel := context.WithTimeout(context.Background(), 24*365*time.Hour)
	defer cancel()
	_, err := c.Export(ctx, request())
	requireRefused(t, grpcAnswer(err), "sender_unknown", codes.PermissionDenied)
	assert.Zero(t, r.tapRefusals())
	_, err = c.Export(context.Background(), request())
	requireRefused(t, grpcAnswer(err), "sender_unknown", codes.PermissionDenied)
	assert.Equal(t, int64(1), r.tapRefusals())
	assert.Equal(t, map[string]int64{"sender_unknown": 2}, r.outcomes())
}

func (r *rig) tapRefusals() (total int64) {
	for i := range r.ext.gate.taps.buckets {
		total += r.ext.gate.taps.buckets[i].count.Load()
	}
	return total
}

func TestTapBudget(t *testing.T) {
	var b tapBudget
	at := time.Unix(1_000_000, 0)
	for range maxTapRefusals {
		require.True(t, b.take(at))
	}
	assert.False(t, b.take(at))
	assert.False(t, b.take(at.Add(59*time.Second)))
	assert.True(t, b.take(at.Add(62*time.Second)))
	for i := range int64(200) { // the rate, minute after minute
		b.take(at.Add(100*time.Second + time.Duration(i)*time.Second))
	}
	assert.True(t, b.take(at.Add(400*time.Second)))
}

// A message that is cut off in its middle is counted as any other.
func TestGRPCMessageCutOff(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	r := newRig(t, ca, staticConfig("c1"), options{})
	conn, err := grpc.NewClient(r.grpcAddr, grpc.WithTransportCredentials(credentials.NewTLS(r.clientTLS(sender(t, ca, "c1")))))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	broken := binary.BigEndian.AppendUint32(nil, 1<<20)
	err = conn.Invoke(context.Background(), exportTraces, &rawMessage{broken}, &rawMessage{}, grpc.ForceCodec(rawCodec{}))
	assert.Equal(t, codes.Internal, status.Code(err), "the receiver cannot decode it")
	assert.Zero(t, r.sink.SpanCount())
}
