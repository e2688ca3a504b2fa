// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// hostile has what means something to a shell, YAML, JSON, a chart's template, a
// collector's configuration or a unit file. Names hold no control characters.
const (
	hostileName  = "EU \"W\" 'x' $HOME ${env:HOME} `id` \\ é東 {{.V}} %n #! : - &a *b"
	hostileLabel = "$(touch x); 'q' \"d\" <&> | ${X:-y} `b` # null"
)

var (
	theServer = Server{URL: "https://ikhnos.example.com", Pins: []string{"sha256:" + strings.Repeat("ab", 32)}}
	fromRepo  = Charts{Version: "0.1.0"}
	fromOCI   = Charts{Registry: "oci://registry.example.com/charts", Version: "0.1.0"}
	ends      = time.Date(2026, 11, 30, 13, 3, 5, 0, time.UTC)
	receiver  = controlapi.NewSecret(controlapi.SecretEnrollment, make([]byte, 32))
	export    = controlapi.NewSecret(controlapi.SecretEnrollment, make([]byte, 32))
	heartbeat = controlapi.NewSecret(controlapi.SecretHeartbeat, nil)
)

// regional is a regional operator with everything, named by somebody who means ill.
func regional() Operator {
	return Operator{
		Server: theServer, Charts: fromRepo,
		Operator: &operators.Operator{
			ID: "op-eu", Name: hostileName, Role: operators.RoleRegional, Exposure: operators.ExposureNodePort,
			Labels:      map[string]string{"region": "eu-west", "evil": hostileLabel, "no": "no", "n": "0x10"},
			Destination: &operators.Destination{Kind: operators.DestinationOperator, OperatorID: "op-central"},
		},
		Destination: &Link{"op-central", "[2001:db8::1]:4317"},
		Receiver:    Secret{receiver, ends}, Export: Secret{export, ends}, Heartbeat: Secret{Value: heartbeat},
	}
}

// toStore is a regional operator that sends to an OTLP endpoint.
func toStore() Operator {
	o := regional()
	o.Operator.Destination = &operators.Destination{Kind: operators.DestinationOTLP, Endpoint: "store.example.com:4317"}
	o.Operator.Exposure = operators.ExposureCluster
	o.Destination, o.Export, o.Heartbeat = nil, Secret{}, Secret{}
	return o
}

func central() Operator {
	return Operator{
		Server: theServer, Charts: fromRepo, Receiver: Secret{receiver, ends}, Heartbeat: Secret{Value: heartbeat},
		Operator: &operators.Operator{ID: "op-central", Name: hostileName, Role: operators.RoleCentral, Exposure: operators.ExposureLoadBalancer, Labels: map[string]string{}},
	}
}

// withKeys is one whose receiver has its certificate without enrolling.
func withKeys() Operator {
	o := toStore()
	o.Receiver = Secret{}
	o.ReceiverKeys = &Keys{Certificate: "certificate\n", Key: "private key\n", CA: "authority\n", EndsAt: ends}
	return o
}

// keySecret is the Secret that withKeys prints, values in base64.
func keySecret(name, instance string) string {
	return `apiVersion: v1
data:
  ca.crt: YXV0aG9yaXR5Cg==
  tls.crt: Y2VydGlmaWNhdGUK
  tls.key: cHJpdmF0ZSBrZXkK
kind: Secret
metadata:
  labels:
    app.kubernetes.io/instance: ` + instance + `
    app.kubernetes.io/name: continuum
  name: ` + name + `
  namespace: continuum-system
type: Opaque
`
}

func sender(c Collector) Sender {
	return Sender{
		Server: theServer, Charts: fromRepo, HolderID: "c9", Link: Link{"op-eu", "eu.example.com:30317"},
		Token: Secret{export, ends}, Collector: c,
	}
}

// all are the blocks of every kind of thing in every format.
func all() map[string][]Block {
	blocks := map[string][]Block{}
	for _, f := range append(Formats(), Process) {
		blocks["regional "+string(f)] = regional().Blocks(f)
		blocks["to a store "+string(f)] = toStore().Blocks(f)
		blocks["central "+string(f)] = central().Blocks(f)
		blocks["stock sender "+string(f)] = sender(Stock).Blocks(f)
		blocks["continuum sender "+string(f)] = sender(Continuum).Blocks(f)
	}
	return blocks
}

// trap-17: a secret stands alone on a line of standard input, and nowhere else.
func TestSecretsStandAlone(t *testing.T) {
	for name, blocks := range all() {
		found := 0
		for _, b := range blocks {
			assert.NotEmpty(t, b.Where, name)
			assert.NotEmpty(t, b.Title, name)
			assert.NotEmpty(t, b.File, name)
			assert.True(t, strings.HasSuffix(b.Text, "\n"), name)
			for _, line := range strings.Split(b.Where+"\n"+b.Title+"\n"+b.File+"\n"+b.Text, "\n") {
				for _, secret := range []string{receiver, export, heartbeat} {
					if strings.Contains(line, secret) {
						assert.Equal(t, secret, line, name)
						assert.Contains(t, b.Title, "shown once", name)
						assert.Equal(t, secret != heartbeat, strings.Contains(b.Title, "2026-11-30T13:03:05Z"), name)
						found++
					}
				}
			}
		}
		want := map[string]int{"regional": 3, "to": 1, "central": 2, "stock": 1, "continuum": 1}[strings.Fields(name)[0]]
		assert.Equal(t, want, found, name)
	}
}

// A sender that needs no token has none in its blocks.
func TestWithoutToken(t *testing.T) {
	for _, f := range append(Formats(), Process) {
		for _, c := range []Collector{Stock, Continuum} {
			s := sender(c)
			s.Token = Secret{}
			for _, b := range s.Blocks(f) {
				assert.NotContains(t, b.Title, "shown once", f)
				assert.NotContains(t, b.Text, "kind: Job", f)
			}
		}
	}
}

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

// block returns the one whose file ends so.
func block(t *testing.T, blocks []Block, suffix string) Block {
	t.Helper()
	for _, b := range blocks {
		if strings.HasSuffix(b.File, suffix) {
			return b
		}
	}
	require.Fail(t, "there is no block "+suffix)
	return Block{}
}

// CO-5, IN-15, AD-18 to AD-20.
func TestAddress(t *testing.T) {
	for _, tt := range []struct {
		op   operators.Operator
		want string
	}{
		{operators.Operator{ID: "op-eu", Role: operators.RoleRegional}, "op-eu-regional-operator.continuum-system.svc:4317"},
		{operators.Operator{ID: "op-regional-operator", Role: operators.RoleRegional}, "op-regional-operator.continuum-system.svc:4317"},
		{operators.Operator{ID: "op-central", Role: operators.RoleCentral}, "op-central.continuum-system.svc:4317"},
		{operators.Operator{ID: "op-hub", Role: operators.RoleCentral}, "op-hub-central.continuum-system.svc:4317"},
		{operators.Operator{ID: "op-eu", Address: "eu.example.com:443"}, "eu.example.com:443"},
	} {
		assert.Equal(t, tt.want, Address(&tt.op))
	}
	assert.Equal(t, "op-eu.continuum-system.svc", Link{OperatorID: "op-eu"}.StableName())
}
