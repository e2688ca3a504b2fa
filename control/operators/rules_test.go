// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestIDs(t *testing.T) {
	long := strings.Repeat("a", 40)
	tests := []struct {
		name, id string
		check    func(*faults, string, string)
		ok       bool
	}{
		{"operator", "op-eu", (*faults).operatorID, true},
		{"operator of 24", "op-" + long[:21], (*faults).operatorID, true},
		{"operator of 25", "op-" + long[:22], (*faults).operatorID, false},
		{"operator without prefix", "eu-west", (*faults).operatorID, false},
		{"operator prefix alone", "op-", (*faults).operatorID, false},
		{"operator in capitals", "op-EU", (*faults).operatorID, false},
		{"operator with infix", "op-a-export-b", (*faults).operatorID, false},
		{"operator with line feed", "op-a\n", (*faults).operatorID, false},
		{"operator ending in hyphen", "op-a-", (*faults).operatorID, false},
		{"cluster", "c1", (*faults).clusterID, true},
		{"cluster of 31", long[:31], (*faults).clusterID, true},
		{"cluster of 32", long[:32], (*faults).clusterID, false},
		{"cluster like an operator", "op-c1", (*faults).clusterID, false},
		{"cluster with infix", "a-export-b", (*faults).clusterID, false},
		{"cluster with dot", "a.b", (*faults).clusterID, false},
		{"cluster empty", "", (*faults).clusterID, false},
		{"cluster not ASCII", "ä", (*faults).clusterID, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var f faults
			tt.check(&f, "id", tt.id)
			assert.Equal(t, tt.ok, f.problem() == nil)
		})
	}
}

func TestLabels(t *testing.T) {
	nine := map[string]string{}
	for _, c := range "abcdefghi" {
		nine[string(c)] = "x"
	}
	tests := []struct {
		name   string
		labels map[string]string
		ok     bool
	}{
		{"none", nil, true},
		{"all characters", map[string]string{"Aa0._-z": "any value, even ü"}, true},
		{"name of 63", map[string]string{strings.Repeat("a", 63): "x"}, true},
		{"name of 64", map[string]string{strings.Repeat("a", 64): "x"}, false},
		{"name starts with digit", map[string]string{"1a": "x"}, false},
		{"name with space", map[string]string{"a b": "x"}, false},
		{"empty value", map[string]string{"a": ""}, false},
		{"value of 63 characters", map[string]string{"a": strings.Repeat("ü", 63)}, true},
		{"value of 64 characters", map[string]string{"a": strings.Repeat("ü", 64)}, false},
		{"control character", map[string]string{"a": "x\x00"}, false},
		{"format character", map[string]string{"a": "x\u202e"}, false},
		{"continuum", map[string]string{"Continuum": "x"}, false},
		{"continuum prefix in disguise", map[string]string{"continuum-cluster.id": "x"}, false},
		{"continuum is only a part", map[string]string{"continuumx": "x", "my_continuum": "x"}, true},
		{"two of one normal form", map[string]string{"a.b": "x", "A_b": "x"}, false},
		{"nine", nine, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var f faults
			f.labels("labels", tt.labels)
			assert.Equal(t, tt.ok, f.problem() == nil)
		})
	}
}

func TestDialAddress(t *testing.T) { // AD-13, AD-15, AD-17
	tests := []struct{ in, want string }{
		{"op.example.com", "op.example.com:4317"},
		{"OP.Example.com.:443", "op.example.com:443"},
		{"192.0.2.1", "192.0.2.1:4317"},
		{"10.0.0.1:30317", "10.0.0.1:30317"},
		{"100.64.0.1", "100.64.0.1:4317"}, // a mesh
		{"2001:db8::1", "[2001:db8::1]:4317"},
		{"[2001:db8::1]", "[2001:db8::1]:4317"},
		{"[2001:DB8::1]:0443", "[2001:db8::1]:443"},
		{"op-a-regional-operator.continuum-system.svc:4317", "op-a-regional-operator.continuum-system.svc:4317"},
		{"localhost", ""},
		{"LOCALHOST.:4317", ""},
		{"a.localhost", ""},
		{"127.0.0.1", ""},
		{"127.9.9.9:4317", ""},
		{"127.1", ""},
		{"2130706433", ""},
		{"0x7f000001", ""},
		{"0x7f.1", ""},
		{"0.0.0.0", ""},
		{"::1", ""},
		{"[::1]:4317", ""},
		{"[::ffff:127.0.0.1]:4317", ""},
		{"[::]:4317", ""},
		{"169.254.169.254", ""},
		{"[fe80::1%25eth0]:4317", ""},
		{"[fe80::1]", ""},
		{"[op.example.com", ""},
		{"224.0.0.1", ""},
		{"255.255.255.255", ""},
		{"[::127.0.0.1]", ""},
		{"[64:ff9b::7f00:1]:4317", ""},
		{"[64:ff9b::c000:201]:4317", "[64:ff9b::c000:201]:4317"},
		{"localhost.localdomain", ""},
		{"localhost6:4317", ""},
		{"ip6-loopback", ""},
		{"localhost.example.com", "localhost.example.com:4317"},
		{"https://op.example.com", ""},
		{"op.example.com/path", ""},
		{"op.example.com:", ""},
		{"op.example.com:0", ""},
		{"op.example.com:65536", ""},
		{"op.example.com:otlp", ""},
		{"a b", ""},
		{"user@host", ""},
		{":4317", ""},
		{strings.Repeat("a.", 130) + "a", ""},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			got, err := dialAddress(tt.in)
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.want == "", err != nil)
		})
	}
}

// TestEndpointAddress: TG-7: destinations and recorded addresses are read by one
// helper; what differs is the port that may be left out and who may be local.
func TestEndpointAddress(t *testing.T) {
	for in, want := range map[string]string{
		"localhost:4317": "localhost:4317", "[::1]:4317": "[::1]:4317", "store.example.com:443": "store.example.com:443",
		"store.example.com": "", "http://store:4317": "", "": "",
	} {
		got, err := endpointAddress(in)
		assert.Equal(t, want, got, in)
		assert.Equal(t, want == "", err != nil, in)
	}
}

func FuzzDialAddress(f *testing.F) {
	for _, seed := range []string{"op.example.com", "127.1", "[::1]:4317", "[fe80::1%eth0]", "a:b:c", "0x7f.1:1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		out, err := dialAddress(in)
		if err != nil {
			return
		}
		again, err := dialAddress(out)
		require.NoError(t, err)
		require.Equal(t, out, again)
		host, port, err := net.SplitHostPort(out)
		require.NoError(t, err)
		require.NotEmpty(t, port)
		if ip := net.ParseIP(host); ip != nil {
			require.False(t, ip.IsLoopback())
		}
		require.NotEqual(t, "localhost", host)
	})
}

func TestDurations(t *testing.T) {
	for in, ok := range map[string]bool{
		"1s": true, "90s": true, "1h": true, "168h": true, "1h30m": true,
		"0s": false, "500ms": false, "1.5s": false, "169h": false, "-1h": false, "1d": false, "": false, "60": false,
	} {
		var f faults
		f.duration("ttl", in, minTTL, maxTTL)
		assert.Equal(t, ok, f.problem() == nil, in)
	}
	assert.Equal(t, "90s", formatDuration(90*time.Second))
	assert.Equal(t, "5m", formatDuration(300*time.Second))
	assert.Equal(t, "1h", formatDuration(time.Hour))
}

func TestOperatorIDFor(t *testing.T) {
	for name, want := range map[string]string{
		"EU West":                             "op-eu-west-ab12",
		"  Über-Region 1!":                    "op-ber-region-1-ab12",
		"東京":                                  "op-ab12",
		"export":                              "op-ab12",
		"a export b":                          "op-a-b-ab12",
		"abcdefghijklmno pqr":                 "op-abcdefghijklmno-ab12",
		"export export export export":         "op-ex-ab12",
		"A very long name of a region indeed": "op-a-very-long-name-ab12",
	} {
		id := operatorIDFor(name, "ab12")
		assert.Equal(t, want, id, name)
		var f faults
		f.operatorID("id", id)
		assert.NoError(t, f.problem(), name)
	}
}
