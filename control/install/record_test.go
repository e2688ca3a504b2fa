// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// call is one call of a program that a block names.
type call struct {
	Args  []string // the program first
	Stdin string
}

// recorder stands in for a program: it notes its name, arguments and input, each
// ended by a NUL, with a word of its own before the input. kubectl create passes its
// input on, install makes folders. It records last, so that a pipe's left side is
// noted before its right one.
const recorder = `#!/bin/sh
set -eu
program=${0##*/}
input=$CONTINUUM_RECORD.$$
case $program in
kubectl | runuser | ikhnos) /bin/cat >"$input" ;;
*) : >"$input" ;;
esac
for word in "$@"; do
	case "$program $word" in
	*" --dry-run=client") printf 'made of '; /bin/cat "$input" ;;
	"install /"*) mkdir -p "$word" ;;
	esac
done
{
	printf '%s\0' "$program" "$@" INPUT
	/bin/cat "$input"
	printf '\0'
} >"$input.call"
/bin/cat "$input.call" >>"$CONTINUUM_RECORD"
rm "$input" "$input.call"
`

// catRecorder stands in for cat, and notes the mode and the name of the file that it
// writes to before it writes.
const catRecorder = `#!/bin/sh
set -eu
file=/proc/$$/fd/1
printf '%s %s\n' "$(stat -L -c %a "$file")" "$(readlink "$file")" >>"$CONTINUUM_RECORD.modes"
exec /bin/cat "$@"
`

// readCalls reads what recorders wrote.
func readCalls(t *testing.T, file string) (calls []call) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	words := strings.Split(string(text), "\x00")
	for len(words) > 1 {
		i := slices.Index(words, "INPUT")
		require.Positive(t, i)
		calls = append(calls, call{Args: words[:i:i], Stdin: words[i+1]})
		words = words[i+2:]
	}
	return calls
}

// recorded runs the shell blocks in order, under a root of their own instead of
// /etc, /run and /var/lib, and returns that root and what they called. Nothing comes on
// standard input but what a block itself brings, and the umask is one that gives no
// file a mode that is meant.
func recorded(t *testing.T, shell string, blocks []Block) (root string, calls []call) {
	t.Helper()
	root = t.TempDir()
	bin, file := filepath.Join(root, "bin"), filepath.Join(root, "calls")
	for _, dir := range []string{bin, filepath.Join(root, "etc/systemd/system")} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	for _, program := range []string{"helm", "kubectl", "install", "systemctl", "runuser", "ikhnos", "continuum-collector"} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, program), []byte(recorder), 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(bin, "cat"), []byte(catRecorder), 0o700))
	for _, b := range blocks {
		if !strings.HasSuffix(b.File, ".sh") {
			continue
		}
		cmd := exec.CommandContext(t.Context(), shell, "-euc", "umask 0027\n"+below(root, b.Text)) // stdin is /dev/null
		cmd.Dir = root
		cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin", "CONTINUUM_RECORD=" + file}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s\n%s", b.Text, out)
		assert.Empty(t, string(out), b.Title)
	}
	return root, readCalls(t, file)
}

// below moves the folders that blocks write to below a root.
func below(root, text string) string {
	return strings.NewReplacer("/etc/", root+"/etc/", "/run/", root+"/run/", "/var/lib/", root+"/var/lib/").Replace(text)
}

// create and apply are how a secret gets into a cluster.
func created(object, key, secret string) []call {
	return []call{
		{[]string{"kubectl", "create", "secret", "generic", object, "--namespace=continuum-system", "--from-file=" + key + "=/dev/stdin", "--dry-run=client", "--output=yaml"}, secret + "\n"},
		{[]string{"kubectl", "apply", "--filename=-"}, "made of " + secret + "\n"},
	}
}

var namespaceCalls = []call{
	{[]string{"kubectl", "create", "namespace", "continuum-system", "--dry-run=client", "--output=yaml"}, ""},
	{[]string{"kubectl", "apply", "--filename=-"}, "made of "},
}

func helmCall(release, chart string, values ...string) call {
	args := []string{"helm", "upgrade", "--install", "--create-namespace", release, chart, "--namespace=continuum-system", "--reuse-values"}
	for _, value := range values {
		args = append(args, "--set-json", value)
	}
	return call{Args: args}
}

// quoted is text as JSON writes it.
func quoted(text string) string { return jsonText(text) }

var renewal = `"caPin":` + quoted(theServer.Pins[0]) + `,"enabled":true`

// IN-1 to IN-11, IN-15, IN-16, AD-21, A-25: what kubectl and helm are called with: the
// values of requirements, index 3.
func TestShellBlocks(t *testing.T) {
	mtls := `receiver={"auth":{"enabled":false},"requireAuth":true,"tls":{"enabled":true,"mtls":true}}`
	beat := func(id string) string {
		return `heartbeat={"auth":{"secretName":"` + id + `-heartbeat"},"enabled":true,"url":"https://ikhnos.example.com/api/v1/operator-heartbeat"}`
	}
	labels := `{"evil":` + quoted(hostileLabel) + `,"n":"0x10","no":"no","region":"eu-west"}`
	restart := func(name string) call {
		return call{Args: []string{"kubectl", "rollout", "restart", "deployment/" + name, "--namespace=continuum-system"}}
	}
	address := func(name string) call {
		return call{Args: []string{"kubectl", "get", "service", name, "--namespace=continuum-system", "--output=wide"}}
	}
	withRegistry := sender(Continuum)
	withRegistry.Charts = fromOCI
	tests := map[string]struct {
		blocks []Block
		want   []call
	}{
		"regional": {regional().Blocks(Shell), slices.Concat(namespaceCalls,
			created("op-eu-receiver-token", "token", receiver), created("op-eu-export-token", "token", export), created("op-eu-heartbeat", "secret", heartbeat),
			[]call{
				helmCall("op-eu", "./charts/continuum-regional-operator",
					`export={"otlp":{"endpoint":"[2001:db8::1]:4317","tls":{"mtls":true,"serverName":"op-central.continuum-system.svc"}}}`,
					beat("op-eu"), `operator={"id":"op-eu","labels":`+labels+`,"name":`+quoted(hostileName)+`}`, mtls,
					`renew={`+renewal+`,"exportTokenSecretName":"op-eu-export-token","receiverTokenSecretName":"op-eu-receiver-token","server":"https://ikhnos.example.com"}`,
					`service={"type":"NodePort"}`),
				restart("op-eu-regional-operator"), address("op-eu-regional-operator"),
			})},
		"to a store": {toStore().Blocks(Shell), slices.Concat(namespaceCalls, created("op-eu-receiver-token", "token", receiver), []call{
			helmCall("op-eu", "./charts/continuum-regional-operator", `export={"otlp":{"endpoint":"store.example.com:4317"}}`,
				`heartbeat={"enabled":false}`, `operator={"id":"op-eu","labels":`+labels+`,"name":`+quoted(hostileName)+`}`, mtls,
				`renew={`+renewal+`,"receiverTokenSecretName":"op-eu-receiver-token","server":"https://ikhnos.example.com"}`,
				`service={"type":"ClusterIP"}`),
			restart("op-eu-regional-operator"),
		})},
		"central": {central().Blocks(Shell), slices.Concat(namespaceCalls,
			created("op-central-receiver-token", "token", receiver), created("op-central-heartbeat", "secret", heartbeat), []call{
				helmCall("op-central", "./charts/continuum-fusion", `central={"service":{"type":"LoadBalancer"}}`, beat("op-central"),
					`operator={"id":"op-central","labels":{},"name":`+quoted(hostileName)+`}`, mtls,
					`renew={`+renewal+`,"receiverTokenSecretName":"op-central-receiver-token","server":"https://ikhnos.example.com"}`),
				restart("op-central"), address("op-central"),
			})},
		"sender": {withRegistry.Blocks(Shell), slices.Concat(namespaceCalls, created("op-eu-export-c9-token", "token", export), []call{{Args: slices.Concat(
			[]string{"helm", "upgrade", "--install", "--create-namespace", "continuum-agent", "oci://registry.example.com/charts/continuum-agent", "--version=0.1.0"},
			helmCall("", "", `renew={`+renewal+`,"exportTokenSecretName":"op-eu-export-c9-token","server":"https://ikhnos.example.com"}`,
				`telemetry={"export":{"otlp":{"endpoint":"eu.example.com:30317","tls":{"mtls":true,"serverName":"op-eu.continuum-system.svc"}}}}`).Args[6:])}})},
		// no token, and the key on standard input alone.
		"with keys": {withKeys().Blocks(Shell), slices.Concat(namespaceCalls, []call{
			{[]string{"kubectl", "apply", "--server-side", "--force-conflicts", "--field-manager=ikhnos-keys", "--filename=-"}, keySecret("op-eu-receiver-tls", "op-eu")},
			helmCall("op-eu", "./charts/continuum-regional-operator", `export={"otlp":{"endpoint":"store.example.com:4317"}}`,
				`heartbeat={"enabled":false}`, `operator={"id":"op-eu","labels":`+labels+`,"name":`+quoted(hostileName)+`}`, mtls,
				`renew={`+renewal+`,"server":"https://ikhnos.example.com"}`, `service={"type":"ClusterIP"}`),
			restart("op-eu-regional-operator"),
		})},
		// HB-16: the secret and the heartbeat's values, of a release that is there.
		"new heartbeat": {regional().HeartbeatBlocks(Shell), slices.Concat(namespaceCalls, created("op-eu-heartbeat", "secret", heartbeat), []call{
			{Args: []string{"helm", "upgrade", "op-eu", "./charts/continuum-regional-operator", "--namespace=continuum-system", "--reuse-values", "--set-json", beat("op-eu")}},
		})},
	}
	for name, tt := range tests {
		for _, shell := range shells {
			t.Run(name+" in "+shell, func(t *testing.T) {
				_, twice := recorded(t, shell, append(slices.Clone(tt.blocks), tt.blocks...))
				assert.Equal(t, append(slices.Clone(tt.want), tt.want...), twice)
			})
		}
	}
}
