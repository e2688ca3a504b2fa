// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package distributions_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// roles are the folders; all of them are checked.
var roles = []string{"regional", "central", "cluster"}

// node is one mapping of a configuration.
type node = map[string]any

func load(t *testing.T, role string) node {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(role, "config.yaml"))
	require.NoError(t, err)
	var conf node
	require.NoError(t, yaml.Unmarshal(text, &conf))
	return conf
}

// at walks mappings by key; what is absent is nil.
func at(n node, path ...string) node {
	for _, key := range path {
		n, _ = n[key].(node)
	}
	return n
}

func collectorBinary(t *testing.T) string {
	t.Helper()
	binary := os.Getenv("CONTINUUM_COLLECTOR")
	if binary == "" {
		binary = filepath.Join("..", "bin", "continuum-collector")
	}
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("%s is missing: run `make build`, or name another binary in CONTINUUM_COLLECTOR", binary)
	}
	binary, err := filepath.Abs(binary)
	require.NoError(t, err)
	return binary
}

// The real binary accepts every configuration, guard included, with nothing set
// and with everything set.
func TestValidate(t *testing.T) {
	binary := collectorBinary(t)
	for _, role := range roles {
		config, err := filepath.Abs(filepath.Join(role, "config.yaml"))
		require.NoError(t, err)
		for name, env := range map[string][]string{
			"with nothing set": nil,
			"with everything set": {
				"CONTINUUM_OPERATOR_ID=op-eu-west", "CONTINUUM_OPERATOR_NAME=EU West: \"quoted\"",
				"CONTINUUM_OPERATOR_LABELS={region: eu-west, env: prod}",
				"CONTINUUM_SERVER=https://ikhnos.example.com",
				"CONTINUUM_CA_PINS=[\"sha256:" + strings.Repeat("ab", 32) + "\"]",
				"CONTINUUM_STATE=" + t.TempDir(), "CONTINUUM_SECRETS=" + t.TempDir(),
				"CONTINUUM_LISTEN=127.0.0.1", "CONTINUUM_GRPC_PORT=14317", "CONTINUUM_HTTP_PORT=14318",
				"CONTINUUM_METRICS_PORT=18888", "CONTINUUM_HEALTH_ENDPOINT=127.0.0.1:13134",
				"CONTINUUM_DESTINATION=eu.example.com:4317", "CONTINUUM_DESTINATION_NAME=op-eu.continuum-system.svc",
				"CONTINUUM_QUEUE_STORAGE=file_storage", "CONTINUUM_QUEUE_RETRY=0s",
				"CONTINUUM_METRICS_EXPORTER=prometheus_remote_write",
				"CONTINUUM_TRACES_INSECURE=false", "CONTINUUM_STORE_CA=/etc/ssl/certs/ca-certificates.crt",
				"CONTINUUM_LOG_FILES=/var/log/pods/*/*/*.log", "CONTINUUM_HOST_ROOT=",
			},
		} {
			t.Run(role+" "+name, func(t *testing.T) {
				cmd := exec.Command(binary, "validate", "--config", config)
				cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
				cmd.Dir = t.TempDir()
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s", out)
			})
		}
	}
}

// What a trial puts behind the central configuration is good, too.
func TestDebugOverlay(t *testing.T) {
	out, err := exec.Command(collectorBinary(t), "validate", "--config", filepath.Join("central", "config.yaml"),
		"--config", filepath.Join("central", "debug.yaml")).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// The heartbeat is off until somebody adds it to service.extensions (HB-2), and
// then the regional configuration is still good.
func TestHeartbeatIsOptional(t *testing.T) {
	binary := collectorBinary(t)
	config, err := filepath.Abs(filepath.Join("regional", "config.yaml"))
	require.NoError(t, err)
	conf := load(t, "regional")
	extensions := at(conf, "service")["extensions"].([]any)
	require.NotContains(t, extensions, "heartbeat")
	on := "yaml:service::extensions: [" + strings.Join(words(append(extensions, "heartbeat")), ", ") + "]"
	out, err := exec.Command(binary, "validate", "--config", config, "--config", on).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// case-1: what reads a certificate from a file reads it again. The server block
// is left out: its trust is ca_pins, and it holds no certificate of its own.
func TestTLSReloads(t *testing.T) {
	for _, role := range roles {
		t.Run(role, func(t *testing.T) {
			conf, found := load(t, role), 0
			delete(conf, "extensions")
			walk(conf, "", func(path string, n node) {
				if !strings.HasSuffix(path, ".tls") {
					return
				}
				found++
				require.Equal(t, "5m", n["reload_interval"], path)
				if strings.HasPrefix(path, ".receivers.") {
					require.Equal(t, true, n["client_ca_file_reload"], path)
				}
				if n["cert_file"] != nil {
					require.Equal(t, "1.3", n["min_version"], path)
				}
			})
			require.Positive(t, found)
		})
	}
}

// Receivers of other machines' data know their senders on both protocols.
func TestReceiversAuthenticate(t *testing.T) {
	for _, role := range []string{"regional", "central"} {
		t.Run(role, func(t *testing.T) {
			protocols := at(load(t, role), "receivers", "otlp", "protocols")
			for name, protocol := range protocols {
				p := protocol.(node)
				require.Equal(t, []any{node{"id": "certnameauth"}}, p["middlewares"], name)
				require.NotEmpty(t, at(p, "tls")["client_ca_file"], name)
			}
			grpc, http := at(protocols, "grpc"), at(protocols, "http")
			require.Equal(t, node{"max_connection_age": "10m", "max_connection_age_grace": "1m"}, at(grpc, "keepalive", "server_parameters"))
			require.Equal(t, 16, grpc["max_recv_msg_size_mib"])
			require.Equal(t, "10s", http["read_header_timeout"])
			require.Equal(t, "60s", http["read_timeout"])
			require.Equal(t, []any{"", "gzip", "zstd"}, http["compression_algorithms"])
		})
	}
}

// order of processors in every pipeline (contract 10, PO-2, PO-5); "" is where
// those of one signal and the user's stand.
var order = []string{"memory_limiter", "continuumidentity/sender", "resourcedetection", "redaction", "", "itemlimit", "continuumidentity/operator"}

func TestProcessorOrder(t *testing.T) {
	for _, role := range roles {
		conf := load(t, role)
		for name, p := range at(conf, "service", "pipelines") {
			t.Run(role+" "+name, func(t *testing.T) {
				processors := words(p.(node)["processors"].([]any))
				require.True(t, slices.IsSortedFunc(processors, func(a, b string) int { return place(a) - place(b) }), "%v", processors)
				require.Equal(t, "memory_limiter", processors[0])
				require.Contains(t, processors, "itemlimit")
				receivers := words(p.(node)["receivers"].([]any))
				own := slices.Contains(receivers, "prometheus/self")
				require.True(t, !own || len(receivers) == 1, "own telemetry has a pipeline of its own") // case-21
				require.Equal(t, role != "cluster" && !own, slices.Contains(processors, "continuumidentity/sender"))
				require.Equal(t, role == "regional", slices.Contains(processors, "continuumidentity/operator"))
				require.Equal(t, role == "central" && name == "metrics", slices.Contains(processors, "delta_to_cumulative"))
			})
		}
	}
}

func place(processor string) int {
	if i := slices.Index(order, processor); i >= 0 {
		return i
	}
	return slices.Index(order, "")
}

// Each receiver feeds one pipeline per signal: a record is never sent twice.
func TestOnePipelinePerReceiverAndSignal(t *testing.T) {
	for _, role := range roles {
		seen := map[string]string{}
		for name, p := range at(load(t, role), "service", "pipelines") {
			signal, _, _ := strings.Cut(name, "/")
			for _, receiver := range words(p.(node)["receivers"].([]any)) {
				require.Empty(t, seen[signal+" "+receiver], "%s: %s feeds two pipelines of %s", role, receiver, signal)
				seen[signal+" "+receiver] = name
			}
		}
	}
}

// Delivery as in contract 10 (DQ-1 to DQ-11).
func TestQueues(t *testing.T) {
	queues := map[string]node{
		"items": {
			"enabled": true, "sizer": "items", "queue_size": 524288, "num_consumers": 10, "block_on_overflow": true,
			"storage": "${env:CONTINUUM_QUEUE_STORAGE:-null}",
			"batch":   node{"sizer": "items", "min_size": 2048, "max_size": 4096, "flush_timeout": "5s"},
		},
		"bytes": {
			"enabled": true, "sizer": "bytes", "queue_size": 201326592, "num_consumers": 10, "block_on_overflow": true,
			"storage": "${env:CONTINUUM_QUEUE_STORAGE:-null}",
			"batch":   node{"sizer": "bytes", "min_size": 524288, "max_size": 3145728, "flush_timeout": "1s"},
		},
	}
	for role, sizer := range map[string]string{"regional": "items", "cluster": "items", "central": "bytes"} {
		for name, e := range at(load(t, role), "exporters") {
			t.Run(role+" "+name, func(t *testing.T) {
				exporter := e.(node)
				require.Equal(t, "30s", exporter["timeout"])
				require.Equal(t, node{"enabled": true, "max_elapsed_time": "${env:CONTINUUM_QUEUE_RETRY:-30m}"}, exporter["retry_on_failure"])
				if name == "prometheus_remote_write" { // has a queue of another kind
					require.Equal(t, 3145728, exporter["max_batch_size_bytes"])
					return
				}
				require.Equal(t, queues[sizer], exporter["sending_queue"])
			})
		}
	}
}

// case-36: a damaged queue file does not keep the collector from starting.
func TestStorageRecreates(t *testing.T) {
	for _, role := range roles {
		require.Equal(t, true, at(load(t, role), "extensions", "file_storage")["recreate"], role)
	}
}

// Loopback only: health, own metrics, and what a cluster's applications send.
func TestLoopback(t *testing.T) {
	for _, role := range roles {
		conf := load(t, role)
		require.Equal(t, "${env:CONTINUUM_HEALTH_ENDPOINT:-127.0.0.1:13133}", at(conf, "extensions", "health_check")["endpoint"])
		reader := at(conf, "service", "telemetry", "metrics")["readers"].([]any)[0].(node)
		require.Equal(t, "127.0.0.1", at(reader, "pull", "exporter", "prometheus")["host"])
	}
	for name, protocol := range at(load(t, "cluster"), "receivers", "otlp", "protocols") {
		require.True(t, strings.HasPrefix(protocol.(node)["endpoint"].(string), "127.0.0.1:"), name)
	}
}

// Every component is one that the manifest builds in.
func TestComponentsAreBuilt(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "builder-config.yaml"))
	require.NoError(t, err)
	var manifest node
	require.NoError(t, yaml.Unmarshal(text, &manifest))
	for _, role := range roles {
		conf := load(t, role)
		for _, kind := range []string{"extensions", "receivers", "processors", "exporters"} {
			built := modules(manifest, kind)
			for id := range at(conf, kind) {
				name, _, _ := strings.Cut(id, "/")
				require.Contains(t, built, folder(name, kind), "%s: %s", role, id)
			}
		}
	}
}

// modules are the last elements of the packages that the manifest lists.
func modules(manifest node, kind string) []string {
	var all []string
	for _, entry := range manifest[kind].([]any) {
		path, _, _ := strings.Cut(entry.(node)["gomod"].(string), " ")
		if own, ok := entry.(node)["import"].(string); ok {
			path = own
		}
		all = append(all, path[strings.LastIndex(path, "/")+1:])
	}
	return all
}

// folder is where a component type lives: ours under its name, upstream's with
// the kind behind it.
func folder(name, kind string) string {
	switch name {
	case "ikhnosrenew", "heartbeat", "certnameauth", "continuumidentity", "itemlimit":
		return name
	case "otlp_grpc":
		return "otlpexporter"
	case "file_storage":
		return "filestorage"
	default:
		return strings.ReplaceAll(name, "_", "") + strings.TrimSuffix(kind, "s")
	}
}

// walk visits every mapping of a configuration with its path.
func walk(n node, path string, visit func(path string, n node)) {
	visit(path, n)
	for key, value := range n {
		if child, ok := value.(node); ok {
			walk(child, path+"."+key, visit)
		}
	}
}

func words(list []any) []string {
	all := make([]string, 0, len(list))
	for _, item := range list {
		all = append(all, item.(string))
	}
	return all
}
