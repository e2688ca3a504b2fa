// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// nopRegisterer lets a test assemble a second server beside the first.
type nopRegisterer struct{}

func (nopRegisterer) Register(prometheus.Collector) error  { return nil }
func (nopRegisterer) MustRegister(...prometheus.Collector) {}
func (nopRegisterer) Unregister(prometheus.Collector) bool { return false }

func TestMetrics(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.KeysSealed = true })
	h.operator("op-eu", "c1")
	held := h.holder("op-eu", "c1")
	refused(t, h.enroll("x", newKey(t)), controlapi.ReasonTokenUnknown)
	require.Equal(t, http.StatusOK, h.renew(held, newKey(t)).StatusCode)
	require.NoError(t, testutil.GatherAndCompare(h.registry, strings.NewReader(`
# HELP ikhnos_ca_keys_sealed 1 when CA keys are sealed by a passphrase.
# TYPE ikhnos_ca_keys_sealed gauge
ikhnos_ca_keys_sealed 1
# HELP ikhnos_certificates_issued_total Certificates asked for, by kind of request and result.
# TYPE ikhnos_certificates_issued_total counter
ikhnos_certificates_issued_total{kind="enroll",result="issued"} 1
ikhnos_certificates_issued_total{kind="renew",result="issued"} 1
# HELP ikhnos_enrollment_tokens Enrolment tokens by state.
# TYPE ikhnos_enrollment_tokens gauge
ikhnos_enrollment_tokens{state="expired"} 0
ikhnos_enrollment_tokens{state="open"} 0
ikhnos_enrollment_tokens{state="revoked"} 0
ikhnos_enrollment_tokens{state="spent"} 1
# HELP ikhnos_refusals_total Requests refused, by route and reason.
# TYPE ikhnos_refusals_total counter
ikhnos_refusals_total{path="POST /api/v1/operator-certificates/enroll",reason="token_unknown"} 1
# HELP ikhnos_sender_state 1 for the present state of a sender.
# TYPE ikhnos_sender_state gauge
ikhnos_sender_state{operator="op-eu",org="default",sender="op-eu-export-c1",state="not_measured"} 1
`), "ikhnos_ca_keys_sealed", "ikhnos_certificates_issued_total", "ikhnos_enrollment_tokens", "ikhnos_refusals_total", "ikhnos_sender_state"))
	families, err := h.registry.Gather()
	require.NoError(t, err)
	names := map[string]bool{}
	for _, f := range families {
		names[f.GetName()] = true
	}
	for _, want := range []string{"ikhnos_build_info", "ikhnos_certificate_not_after_timestamp_seconds", "ikhnos_certificate_renew_by_timestamp_seconds",
		"ikhnos_ca_not_after_timestamp_seconds", "ikhnos_operator_reporting", "ikhnos_policy_unconfirmed_instances", "ikhnos_policy_confirm_seconds", "ikhnos_http_request_duration_seconds"} {
		assert.True(t, names[want], want)
	}
}

func TestThrottleIsBounded(t *testing.T) {
	now := time.Unix(0, 0)
	th := newThrottle(func() time.Time { return now })
	for i := range maxThrottled + 10 {
		th.fail(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	assert.LessOrEqual(t, len(th.windows), maxThrottled)
	assert.Equal(t, throttleKey(netip.MustParseAddr("::ffff:192.0.2.1")), throttleKey(netip.MustParseAddr("192.0.2.1")))
}

func TestClientAddress(t *testing.T) {
	s := &Server{cfg: Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}
	for name, tc := range map[string]struct{ remote, forwarded, want string }{
		"no proxy":                {"192.0.2.1:1", "198.51.100.1", "192.0.2.1"},
		"a proxy":                 {"10.0.0.1:1", "198.51.100.1", "198.51.100.1"},
		"a chain":                 {"10.0.0.1:1", "203.0.113.9, 198.51.100.1, 10.0.0.2", "198.51.100.1"},
		"with a port":             {"10.0.0.1:1", "[2001:db8::1]:99", "2001:db8::1"},
		"junk stops the walk":     {"10.0.0.1:1", "198.51.100.1, junk", "10.0.0.1"},
		"nothing from the proxy":  {"10.0.0.1:1", "", "10.0.0.1"},
		"all of them are proxies": {"10.0.0.1:1", "10.0.0.3", "10.0.0.3"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &http.Request{RemoteAddr: tc.remote, Header: http.Header{}}
			if tc.forwarded != "" {
				r.Header.Set("X-Forwarded-For", tc.forwarded)
			}
			assert.Equal(t, tc.want, s.clientAddress(r).String())
		})
	}
}

// FuzzDecodeStrict: whatever is read strictly encoding/json reads to the same,
// and nothing makes it panic.
func FuzzDecodeStrict(f *testing.F) {
	for _, seed := range []string{`{}`, `{"instance":"a","policy":{"epoch":1,"number":2}}`, `{"senders":[{"name":"x","refused":{"a":1}}]}`, `{"a":1,"a":2}`, `[`, `null`, `{"denied":null}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var strict, lax controlapi.Report
		err := decodeStrict(body, &strict)
		if err != nil {
			for _, known := range []error{errNotUTF8, errNotJSON, errNull, errMistyped, errUnknown, errTwice, errTrailing, errNoContent} {
				if errors.Is(err, known) {
					return
				}
			}
			t.Fatalf("an error of its own: %v", err)
		}
		require.NoError(t, json.Unmarshal(body, &lax))
		assert.Equal(t, lax, strict)
	})
}

// FuzzAddress: a header of the client never breaks the address.
func FuzzAddress(f *testing.F) {
	f.Add("192.0.2.1, [::1]:5")
	f.Fuzz(func(t *testing.T, forwarded string) {
		s := &Server{cfg: Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}}
		r := &http.Request{RemoteAddr: "10.0.0.1:1", Header: http.Header{"X-Forwarded-For": {forwarded}}}
		assert.True(t, s.clientAddress(r).IsValid())
	})
}
