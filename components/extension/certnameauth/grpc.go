// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"context"
	"crypto/x509"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/senders"
)

// GetGRPCServerOptions returns a tap, which refuses a call when its headers have
// come and before its body is read, and interceptors, which decide again when
// the message enters the pipeline. It implements extensionmiddleware.GRPCServer.
func (e *certNameAuth) GetGRPCServerOptions(context.Context) ([]grpc.ServerOption, error) {
	return []grpc.ServerOption{
		grpc.InTapHandle(e.gate.tap),
		grpc.ChainUnaryInterceptor(e.gate.unary),
		grpc.ChainStreamInterceptor(e.gate.stream),
	}, nil
}

// errUseMiddlewares is plain, because confighttp answers with the text of an
// error, and that of a gRPC status does not open with the reason.
var errUseMiddlewares = errors.New(message(senders.UseMiddlewares))

// Authenticate decides once the body was read. Where the same extension is a
// middleware too, that one counts the call and writes the identity. On HTTP no
// certificate can be seen from here, so it refuses. It implements
// extensionauth.Server.
func (e *certNameAuth) Authenticate(ctx context.Context, _ map[string][]string) (context.Context, error) {
	g := e.gate
	if _, isGRPC := peer.FromContext(ctx); !isGRPC {
		g.refuse(nil, senders.Decision{Reason: senders.UseMiddlewares}, transportHTTP, nil, "")
		return ctx, errUseMiddlewares
	}
	leaf := grpcLeaf(ctx)
	d := g.decide(leaf)
	h := holdOf(ctx)
	if d.Reason != senders.Accepted {
		return ctx, g.refuse(h, d, transportGRPC, leaf, grpcPeer(ctx)).err
	}
	if h != nil {
		return ctx, nil
	}
	h = g.begin(ctx, nil) // ends with the call: nobody tells us when it was answered
	g.enter(d, leaf)
	method, _ := grpc.Method(ctx)
	g.accept(h, d, transportGRPC, grpcSignal(method))
	return withAuth(h, d.Auth), nil
}

// farDeadline: a refusing tap keeps what belongs to a call until the caller's
// deadline, so later ones are refused by an interceptor.
const farDeadline = 60 * time.Second

func (g *gate) tap(ctx context.Context, _ *tap.Info) (context.Context, error) {
	leaf := grpcLeaf(ctx)
	d := g.decide(leaf)
	if d.Reason != senders.Accepted && g.tapMayRefuse(ctx) {
		return ctx, g.refuse(nil, d, transportGRPC, leaf, grpcPeer(ctx)).err
	}
	return g.begin(ctx, &stalledCall{g, d, leaf, grpcPeer(ctx)}), nil
}

// stalledCall counts a call whose body never came: grpc-go itself answers it, with
// DeadlineExceeded, which senders retry, and no interceptor hears of it.
type stalledCall struct {
	gate     *gate
	decision senders.Decision
	leaf     *x509.Certificate
	peer     string
}

func (*stalledCall) slow(time.Time) {}

func (c *stalledCall) expire(h *hold) {
	if !h.entered.Load() {
		c.gate.refuse(h, timedOut(c.decision), transportGRPC, c.leaf, c.peer)
	}
}

func (g *gate) tapMayRefuse(ctx context.Context) bool {
	now := g.now()
	deadline, ok := ctx.Deadline()
	return (!ok || deadline.Sub(now) <= farDeadline) && g.taps.take(now)
}

func (g *gate) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	var answer any
	err := g.intercept(ctx, info.FullMethod, func(ctx context.Context) (err error) {
		answer, err = handler(ctx, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

func (g *gate) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return g.intercept(ss.Context(), info.FullMethod, func(ctx context.Context) error {
		return handler(srv, &contextStream{ServerStream: ss, ctx: ctx})
	})
}

// intercept is the second decision, and the one that counts.
func (g *gate) intercept(ctx context.Context, method string, next func(context.Context) error) error {
	h := holdOf(ctx)
	if h == nil { // a transport without taps
		h = g.begin(ctx, nil)
		ctx = h
	}
	defer h.finish()
	h.entered.Store(true)
	leaf := grpcLeaf(ctx)
	d := g.decide(leaf)
	if d.Reason != senders.Accepted {
		return g.refuse(h, d, transportGRPC, leaf, grpcPeer(ctx)).err
	}
	g.enter(d, leaf)
	err := next(withAuth(ctx, d.Auth))
	if err != nil && h.expired() {
		return g.refuse(h, timedOut(d), transportGRPC, leaf, grpcPeer(ctx)).err
	}
	g.accept(h, d, transportGRPC, grpcSignal(method))
	return err
}

// contextStream is a stream with another context.
type contextStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *contextStream) Context() context.Context { return s.ctx }

func grpcLeaf(ctx context.Context) *x509.Certificate {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return nil
	}
	return verifiedLeaf(&info.State)
}

func grpcPeer(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return ""
}

// grpcSignal reads the signal from the name of an OTLP service.
func grpcSignal(method string) senders.Signal {
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	switch {
	case strings.HasSuffix(service, ".TraceService"):
		return senders.Traces
	case strings.HasSuffix(service, ".MetricsService"):
		return senders.Metrics
	case strings.HasSuffix(service, ".LogsService"):
		return senders.Logs
	}
	return senders.OtherSignal
}
