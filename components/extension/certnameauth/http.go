// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/collector/extension/extensionmiddleware"

	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/senders"
	"github.com/ikhnos/continuum/internal/identity"
)

// GetHTTPHandler returns the middleware that decides before the body is read and
// again when its last byte has come, so right before the receiver decodes it. It
// implements extensionmiddleware.HTTPServer.
func (e *certNameAuth) GetHTTPHandler(context.Context) (extensionmiddleware.WrapHTTPHandlerFunc, error) {
	return func(_ context.Context, next http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { e.gate.serveHTTP(w, r, next) }), nil
	}, nil
}

// longAgo as a read deadline ends every read of a body at once.
var longAgo = time.Unix(1, 0)

func (g *gate) serveHTTP(w http.ResponseWriter, r *http.Request, next http.Handler) {
	leaf := verifiedLeaf(r.TLS)
	d := g.decide(leaf)
	control := http.NewResponseController(w)
	if d.Reason != senders.Accepted {
		f := g.refuse(nil, d, transportHTTP, leaf, r.RemoteAddr)
		_ = control.SetReadDeadline(longAgo) // answer now, without waiting for a body
		f.writeHTTP(w, r.Header.Get("Content-Type"))
		return
	}
	if nearEnd(leaf, g.now()) {
		w.Header().Set("Connection", "close") // the next connection may bring the renewed leaf
	}
	c := &httpCall{
		gate: g, control: control, leaf: leaf, peer: r.RemoteAddr, decision: d, auth: new(identity.AuthData),
		signal: httpSignal(r.URL.Path), contentType: r.Header.Get("Content-Type"),
	}
	*c.auth = *d.Auth
	c.hold = g.begin(r.Context(), c)
	defer c.hold.finish()
	r = r.WithContext(withAuth(c.hold, c.auth))
	r.Body = &httpBody{ReadCloser: r.Body, call: c}
	answer := &httpAnswer{ResponseWriter: w, call: c}
	next.ServeHTTP(answer, r)
	answer.settle()
}

// nearEnd: less than a fifth of the leaf's life is left, the backdate not
// counted as life.
func nearEnd(leaf *x509.Certificate, now time.Time) bool {
	life := leaf.NotAfter.Sub(leaf.NotBefore.Add(senders.Backdate))
	return leaf.NotAfter.Sub(now) < life/5
}

// httpCall is one request past the first decision.
type httpCall struct {
	gate        *gate
	hold        *hold
	control     *http.ResponseController
	leaf        *x509.Certificate
	peer        string
	signal      senders.Signal
	contentType string

	// Both are written again by the second decision, by the goroutine that
	// serves the request.
	decision senders.Decision
	auth     *identity.AuthData
}

// enter is the second decision, at the end of the body.
func (c *httpCall) enter() error {
	c.decision = c.gate.decide(c.leaf)
	if c.decision.Reason != senders.Accepted {
		return c.refuse(c.decision).err
	}
	*c.auth = *c.decision.Auth
	c.gate.enter(c.decision, c.leaf)
	return nil
}

func (c *httpCall) refuse(d senders.Decision) *refusal {
	return c.gate.refuse(c.hold, d, transportHTTP, c.leaf, c.peer)
}

// slow keeps the server's own write_timeout, 30 s by default, from cutting off
// the answer to a request that is held as long.
func (c *httpCall) slow(end time.Time) { _ = c.control.SetWriteDeadline(end.Add(drainTime)) }

// expire ends a read of the body that goes on.
func (c *httpCall) expire(*hold) {
	_ = c.control.SetWriteDeadline(c.gate.now().Add(drainTime))
	_ = c.control.SetReadDeadline(longAgo)
}

// httpBody decides when the last byte was read. Its errors are gRPC statuses,
// which the OTLP receiver writes as they are.
type httpBody struct {
	io.ReadCloser
	call    *httpCall
	entered bool
	err     error
}

// Read reads the body and ends it with a refusal where there is one.
func (b *httpBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil:
		return n, nil
	case b.call.hold.expired():
		b.err = b.call.refuse(timedOut(b.call.decision)).err
		return 0, b.err
	case errors.Is(err, io.EOF) && !b.entered:
		b.entered = true
		if b.err = b.call.enter(); b.err != nil {
			return 0, b.err
		}
	}
	return n, err
}

// httpAnswer counts the request before its answer leaves and puts the refusal in
// place of what the handler made of it.
type httpAnswer struct {
	http.ResponseWriter
	call     *httpCall
	settled  bool
	replaced bool
}

// WriteHeader sends the handler's status, or the refusal.
func (a *httpAnswer) WriteHeader(code int) {
	if a.settled || code < http.StatusOK {
		if !a.replaced {
			a.ResponseWriter.WriteHeader(code)
		}
		return
	}
	a.settled = true
	c := a.call
	switch {
	case c.decision.Reason != senders.Accepted:
		a.replace(c.decision)
	case code >= http.StatusBadRequest && c.hold.expired():
		a.replace(timedOut(c.decision))
	default:
		c.gate.accept(c.hold, c.decision, transportHTTP, c.signal)
		a.ResponseWriter.WriteHeader(code)
	}
}

func (a *httpAnswer) replace(d senders.Decision) {
	a.replaced = true
	a.call.refuse(d).writeHTTP(a.ResponseWriter, a.call.contentType)
}

// Write drops the handler's body when the answer was replaced.
func (a *httpAnswer) Write(p []byte) (int, error) {
	a.settle()
	if a.replaced {
		return len(p), nil
	}
	return a.ResponseWriter.Write(p)
}

// settle answers for a handler that wrote nothing.
func (a *httpAnswer) settle() {
	if !a.settled {
		a.WriteHeader(http.StatusOK)
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (a *httpAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// httpSignal reads the signal from the last part of the path, which stays when
// the receiver is given other paths before it.
func httpSignal(path string) senders.Signal {
	switch path[strings.LastIndexByte(path, '/')+1:] {
	case "traces":
		return senders.Traces
	case "metrics":
		return senders.Metrics
	case "logs":
		return senders.Logs
	}
	return senders.OtherSignal
}
