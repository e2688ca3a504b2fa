// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package checkconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// operator is a regional operator with nothing to mend.
const operator = `extensions:
  certnameauth:
    operator_id: op-eu
    policy:
      proof: {cert_file: /d/tls.crt, key_file: /d/tls.key, ca_file: /d/ca.crt}
receivers:
  otlp:
    protocols:
      grpc:
        middlewares: [{id: certnameauth}]
        max_recv_msg_size_mib: 16
        keepalive: {server_parameters: {max_connection_age: 10m}}
        tls: &tls
          cert_file: /d/tls.crt
          key_file: /d/tls.key
          client_ca_file: /d/ca.crt
          reload_interval: 5m
      http:
        middlewares: [{id: certnameauth}]
        tls: *tls
        read_header_timeout: 10s
        compression_algorithms: ["", gzip, zstd]
processors:
  memory_limiter: {check_interval: 1s}
  batch:
  resourcedetection: {override: false}
  itemlimit:
  continuumidentity/sender: {sender: {mode: stamp}}
  continuumidentity/operator: {operator: {id: op-eu, name: EU}}
exporters:
  otlp_grpc/central:
    endpoint: central.example.com:4317
    tls:
      cert_file: /e/tls.crt
      key_file: /e/tls.key
      ca_file: /e/ca.crt
      server_name_override: op-central.continuum-system.svc
      reload_interval: 5m
    retry_on_failure: {max_elapsed_time: 30m}
    sending_queue: {sizer: items, block_on_overflow: true, storage: "${env:QUEUE:-null}"}
service:
  extensions: [certnameauth]
  pipelines:
    logs:
      receivers: [otlp]
      processors: [memory_limiter, continuumidentity/sender, resourcedetection, itemlimit, continuumidentity/operator]
      exporters: [otlp_grpc/central]
`

// Each rule finds its fault, at its line, and nothing else does.
func TestRules(t *testing.T) {
	order := "memory_limiter, continuumidentity/sender, resourcedetection, itemlimit, continuumidentity/operator"
	for name, tc := range map[string]struct{ old, fresh, want string }{
		"nothing":                  {"op-eu", "op-eu", ""},
		"guard, pipeline":          {order, "memory_limiter, itemlimit, continuumidentity/operator", "44 identity-guard"},
		"guard, receiver":          {"        middlewares: [{id: certnameauth}]\n        max", "        max", "7 identity-guard"},
		"no reload":                {"          reload_interval: 5m\n      http", "      http", "14 tls-no-reload"},
		"no reload in an exporter": {"      reload_interval: 5m\n    retry", "    retry", "34 tls-no-reload"},
		"reload off":               {"      reload_interval: 5m\n    retry", "      reload_interval: 0s\n    retry", "34 tls-no-reload"},
		"address":                  {"      server_name_override: op-central.continuum-system.svc\n", "", "33 tls-server-name"},
		"insecure with a pair":     {"      reload_interval: 5m\n    retry", "      reload_interval: 5m\n      insecure: true\n    retry", "39 tls-insecure-certificate"},
		"skip verify":              {"      reload_interval: 5m\n    retry", "      reload_interval: 5m\n      insecure_skip_verify: true\n    retry", "39 tls-skip-verify"},
		"batch":                    {"sender, resource", "sender, batch, resource", "46 batch-after-identity"},
		"no retry":                 {"{max_elapsed_time: 30m}", "{enabled: false}", "39 queue-without-retry"},
		"retry too short":          {"{max_elapsed_time: 30m}", "{max_elapsed_time: 60s}", "39 retry-too-short"},
		"retry by default":         {"    retry_on_failure: {max_elapsed_time: 30m}\n", "", "31 retry-too-short"},
		"on disk and gives up":     {"-null", "-file_storage", "39 persistent-queue-gives-up"},
		"requests":                 {"sizer: items", "sizer: requests", "40 queue-sizer-requests"},
		"requests by default":      {"    sending_queue: {sizer: items, block_on_overflow: true, storage: \"${env:QUEUE:-null}\"}\n", "", "31 queue-sizer-requests"},
		"queue off":                {"{sizer: items,", "{enabled: false,", "40 queue-off"},
		"drops":                    {" block_on_overflow: true,", "", "40 queue-drops"},
		"drops, said":              {"block_on_overflow: true", "block_on_overflow: false", "40 queue-drops"},
		"limiter later":            {"[memory_limiter, continuumidentity/sender,", "[continuumidentity/sender, memory_limiter,", "44 identity-guard"},
		"order":                    {"resourcedetection, itemlimit", "itemlimit, resourcedetection", "46 processor-order"},
		"override":                 {"{override: false}", "{detectors: [env]}", "26 resourcedetection-override"},
		"snappy":                   {"gzip, zstd]", "gzip, snappy]", "22 snappy-before-identity"},
		"snappy by default":        {`        compression_algorithms: ["", gzip, zstd]` + "\n", "", "18 snappy-before-identity"},
		"connection age":           {"max_connection_age: 10m", "max_connection_age: 0s", "9 no-max-connection-age"},
		"message size":             {"        max_recv_msg_size_mib: 16\n", "", "9 grpc-message-size"},
		"header timeout":           {"        read_header_timeout: 10s\n", "", "18 no-read-header-timeout"},
		"from the machine alone":   {"reload_interval: 5m\n    retry", "reload_interval: ${env:RELOAD}\n    retry", ""},
		"not YAML":                 {"receivers:\n  otlp", "receivers:\n\totlp", "7 not-yaml"},
		"a part":                   {"service:", "services:", "1 no-pipelines"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, operator, tc.old)
			var got []string
			for _, f := range Check("f", []byte(strings.Replace(operator, tc.old, tc.fresh, 1))) {
				got = append(got, fmt.Sprint(f.Line, " ", f.Rule))
				assert.NotEmpty(t, f.What)
				assert.NotEmpty(t, f.Why)
				assert.NotEmpty(t, f.Fix)
				assert.Contains(t, Rules(), f.Rule)
			}
			assert.Equal(t, tc.want, strings.Join(got, "; "))
		})
	}
}

// A collector that only sends, as people have it.
func TestSenders(t *testing.T) {
	const sender = `receivers:
  filelog: {retry_on_failure: {enabled: true}}
  otlp: {protocols: {grpc: , http: }}
processors: {memory_limiter: , batch: }
exporters:
  otlp: &op {endpoint: "10.0.0.7:4317", tls: {insecure: true}}
  otlphttp: {endpoint: "http://store:4318"}
service:
  pipelines:
    logs: {receivers: [filelog, otlp], processors: "memory_limiter,batch", exporters: [otlp]}
`
	for name, tc := range map[string]struct{ old, fresh, want string }{
		"plain text over the net": {"", "", "6 tls-insecure"},
		"plain text nearby":       {"10.0.0.7", "127.0.0.1", ""},
		"plain http":              {`"10.0.0.7:4317", tls: {insecure: true}`, "https://a.example.com, x_endpoint: \"http://store.example.com\"", "6 tls-insecure"},
		"filelog":                 {`{retry_on_failure: {enabled: true}}`, "", "2 filelog-no-retry; 6 tls-insecure"},
		"limiter":                 {"memory_limiter,batch", "batch,memory_limiter", "6 tls-insecure; 10 limiter-not-first"},
		"merged":                  {`otlphttp: {`, "otlphttp: {<<: *op, x_", "6 tls-insecure; 6 tls-insecure"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range Check("f", []byte(strings.Replace(sender, tc.old, tc.fresh, 1))) {
				got = append(got, fmt.Sprint(f.Line, " ", f.Rule))
			}
			assert.Equal(t, tc.want, strings.Join(got, "; "))
		})
	}
}

// The configurations that are shipped have nothing to mend.
func TestShipped(t *testing.T) {
	paths, err := filepath.Glob("../../../distributions/*/config.yaml")
	require.NoError(t, err)
	require.Len(t, paths, 3)
	for _, path := range paths {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Empty(t, Check(path, content))
	}
}

// The configuration inside a resource of the OpenTelemetry operator is found.
func TestResource(t *testing.T) {
	resource := "apiVersion: opentelemetry.io/v1beta1\nkind: OpenTelemetryCollector\nspec:\n  config:\n" +
		"    " + strings.ReplaceAll(strings.Replace(operator, "sizer: items", "sizer: requests", 1), "\n", "\n    ")
	found := Check("f", []byte(resource))
	require.Len(t, found, 1)
	assert.Equal(t, 44, found[0].Line)
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{operator, "a: &a [*a]", "service: {pipelines: {logs: {processors: [batch]}}}\nexporters: {otlp: {tls: &t {<<: *t, cert_file: x}}}",
		"service: {pipelines: [1]}", "[]", "service: {pipelines: {x: }}\nexporters: {1: 2, ? [a] : b}", "${env:X:-{}}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, finding := range Check("f", content) {
			assert.Positive(t, finding.Line)
			assert.NotEmpty(t, finding.Fix)
		}
	})
}
