// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // what the exporter to the trace store compresses with

	"github.com/ikhnos/continuum/internal/identity"
	"github.com/ikhnos/continuum/test/testbed"
)

// keyID is the attribute under which each record carries an id that begins with
// the cluster that really sent it.
const keyID = "e2e.id"

// sink takes logs and metrics over OTLP/HTTP and traces over OTLP/gRPC, as the
// stores of the shipped configuration do, counts every record by its id, and checks
// what each says of its origin. It can be closed and opened again.
type sink struct {
	httpPort, grpcPort int
	reserved           *identity.Reserved
	web                *http.Server
	rpc                *grpc.Server
	serving            sync.WaitGroup

	mu       sync.Mutex // guards what follows
	arrived  map[string]int
	perOwner map[string]int // records by cluster
	repeated int
	mixed    int // requests with records of more than one cluster
	faults   []string
	changed  chan struct{} // closed and replaced when records arrive
}

func newSink(t *testing.T) *sink {
	s := &sink{
		httpPort: testbed.Port(t), grpcPort: testbed.Port(t), reserved: identity.NewReserved("vm_account_id", "vm_project_id"),
		arrived: map[string]int{}, perOwner: map[string]int{}, changed: make(chan struct{}),
	}
	s.open(t)
	t.Cleanup(func() { s.close(t) })
	return s
}

// env points the exporters of the central operator here.
func (s *sink) env() []string {
	return []string{
		fmt.Sprintf("CONTINUUM_LOGS_URL=http://127.0.0.1:%d/v1/logs", s.httpPort),
		fmt.Sprintf("CONTINUUM_METRICS_URL=http://127.0.0.1:%d/v1/metrics", s.httpPort),
		fmt.Sprintf("CONTINUUM_TRACES_ENDPOINT=127.0.0.1:%d", s.grpcPort),
	}
}

func (s *sink) open(t *testing.T) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/logs", func(w http.ResponseWriter, r *http.Request) {
		req := plogotlp.NewExportRequest()
		s.answer(w, r, req.UnmarshalProto, func() { s.logs(req) })
	})
	mux.HandleFunc("POST /v1/metrics", func(w http.ResponseWriter, r *http.Request) {
		req := pmetricotlp.NewExportRequest()
		s.answer(w, r, req.UnmarshalProto, func() { s.metrics(req) })
	})
	s.web = &http.Server{Handler: mux}
	s.rpc = grpc.NewServer()
	ptraceotlp.RegisterGRPCServer(s.rpc, &traceSink{sink: s})
	for port, serve := range map[int]func(net.Listener) error{s.httpPort: s.web.Serve, s.grpcPort: s.rpc.Serve} {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		require.NoError(t, err)
		s.serving.Go(func() { _ = serve(listener) }) // ends with close
	}
}

// close ends the sink after the requests that it has taken.
func (s *sink) close(t *testing.T) {
	t.Helper()
	assert.NoError(t, s.web.Shutdown(context.Background()))
	s.rpc.GracefulStop()
	s.serving.Wait()
}

func (s *sink) answer(w http.ResponseWriter, r *http.Request, parse func([]byte) error, take func()) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable) // of a sender that was killed
			return
		}
		body = unzipped
	}
	raw, err := io.ReadAll(body)
	if err == nil {
		err = parse(raw)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	take()
}

// delivery is one request on its way into the counts.
type delivery struct {
	sink   *sink
	owners map[string]bool
}

// take locks the sink for one request.
func (s *sink) take(each func(d *delivery)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := &delivery{s, map[string]bool{}}
	each(d)
	if len(d.owners) > 1 {
		s.mixed++
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// record counts one record and checks the resource, scope and maps of its own.
// Records without an id are the operators' own data.
func (d *delivery) record(resource, scope, item pcommon.Map, further ...pcommon.Map) {
	id, ok := item.Get(keyID)
	if !ok {
		return
	}
	s := d.sink
	owner, _, _ := strings.Cut(id.Str(), "/")
	d.owners[owner] = true
	s.perOwner[owner]++
	if s.arrived[id.Str()]++; s.arrived[id.Str()] > 1 {
		s.repeated++
	}
	if fault := s.fault(owner, resource, append(further, scope, item)); fault != "" && len(s.faults) < 10 {
		s.faults = append(s.faults, id.Str()+": "+fault)
	}
}

// fault is empty when the resource says who the owner is, once, and nothing else
// says anything.
func (s *sink) fault(owner string, resource pcommon.Map, below []pcommon.Map) string {
	want := chainIdentity(owner)
	for key, value := range resource.All() {
		expected, ok := want[key]
		if !ok && !s.reserved.Has(key) {
			continue
		}
		if !ok || value.Type() != pcommon.ValueTypeStr || value.Str() != expected {
			return fmt.Sprintf("the resource says %q: %q", key, value.AsString())
		}
		delete(want, key)
	}
	if len(want) > 0 {
		return fmt.Sprintf("the resource does not say, or says twice: %v", want)
	}
	for _, m := range below {
		for key := range m.All() {
			if s.reserved.Has(key) {
				return fmt.Sprintf("%q stands below the resource", key)
			}
		}
	}
	return ""
}

func (s *sink) logs(req plogotlp.ExportRequest) {
	s.take(func(d *delivery) {
		for _, rl := range req.Logs().ResourceLogs().All() {
			for _, sl := range rl.ScopeLogs().All() {
				for _, record := range sl.LogRecords().All() {
					var further []pcommon.Map
					if record.Body().Type() == pcommon.ValueTypeMap {
						further = append(further, record.Body().Map())
					}
					d.record(rl.Resource().Attributes(), sl.Scope().Attributes(), record.Attributes(), further...)
				}
			}
		}
	})
}

func (s *sink) metrics(req pmetricotlp.ExportRequest) {
	s.take(func(d *delivery) {
		for _, rm := range req.Metrics().ResourceMetrics().All() {
			for _, sm := range rm.ScopeMetrics().All() {
				for _, metric := range sm.Metrics().All() {
					if metric.Type() != pmetric.MetricTypeGauge {
						continue // of an operator
					}
					for _, point := range metric.Gauge().DataPoints().All() {
						further := []pcommon.Map{metric.Metadata()}
						for _, exemplar := range point.Exemplars().All() {
							further = append(further, exemplar.FilteredAttributes())
						}
						d.record(rm.Resource().Attributes(), sm.Scope().Attributes(), point.Attributes(), further...)
					}
				}
			}
		}
	})
}

type traceSink struct {
	ptraceotlp.UnimplementedGRPCServer
	sink *sink
}

// Export takes one request of spans.
func (t *traceSink) Export(_ context.Context, req ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	t.sink.take(func(d *delivery) {
		for _, rs := range req.Traces().ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					var further []pcommon.Map
					for _, event := range span.Events().All() {
						further = append(further, event.Attributes())
					}
					for _, link := range span.Links().All() {
						further = append(further, link.Attributes())
					}
					d.record(rs.Resource().Attributes(), ss.Scope().Attributes(), span.Attributes(), further...)
				}
			}
		}
	})
	return ptraceotlp.NewExportResponse(), nil
}

// await waits until ok, which is called with the sink locked, reports true.
func (s *sink) await(ctx context.Context, ok func() bool) error {
	for {
		s.mu.Lock()
		done, changed := ok(), s.changed
		s.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
