// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"net/http"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/ikhnos/continuum/internal/version"
)

// startTraces returns what puts a span around every request. It is off unless
// OTEL_EXPORTER_OTLP_ENDPOINT or its traces form is set; exporter and batching
// then follow the standard OTEL_ variables, client certificates among them.
func (s *runningServer) startTraces(ctx context.Context) (func(http.Handler) http.Handler, error) {
	if !s.cfg.traces {
		return func(h http.Handler) http.Handler { return h }, nil
	}
	exporter, err := otlptracegrpc.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("preparing traces: %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "ikhnos"), attribute.String("service.version", version.Version)),
		resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, fmt.Errorf("preparing traces: %w", err)
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(about))
	s.close = append(s.close, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		_ = provider.Shutdown(ctx) // spans that nobody takes must not fail the stop
		return nil
	})
	return func(h http.Handler) http.Handler {
		return otelhttp.NewHandler(h, "ikhnos", otelhttp.WithTracerProvider(provider),
			otelhttp.WithPropagators(propagation.TraceContext{}))
	}, nil
}
