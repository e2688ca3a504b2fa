// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certfile

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// case-6: what a kubelet mounts with subPath never changes, a directory does.
func TestFrozen(t *testing.T) {
	const (
		root   = "512 480 0:112 / / rw,relatime master:151 - overlay overlay rw\n"
		secret = "521 512 0:98 / /certs ro,relatime - tmpfs tmpfs rw,size=1048576k\n"
		volume = "522 512 8:1 /var/lib/kubelet/pods/5c1f/volumes/kubernetes.io~empty-dir/certs/receiver /certs rw - ext4 /dev/sda1 rw\n"
		fixed  = "523 512 0:98 /..2026_11_30_10_00_00.1234/receiver /certs ro - tmpfs tmpfs rw\n"
		crt    = "524 512 0:98 /..2026_11_30_10_00_00.1234/tls.crt /certs/tls.crt ro - tmpfs tmpfs rw\n"
		key    = "525 512 0:98 /..2026_11_30_10_00_00.1234/tls.key//deleted /certs/tls.key ro - tmpfs tmpfs rw\n"
		other  = "526 512 0:98 /..2026_11_30_10_00_00.1234/tls.crt /certs-of-others/tls.crt ro - tmpfs tmpfs rw\n"
		spaces = "527 512 8:1 /a\\040b /with\\040space/tls.crt rw - ext4 /dev/sda1 rw\n"
	)
	for name, tc := range map[string]struct {
		table, dir string
		want       []string
	}{
		"no table":                       {"", "/certs", nil},
		"no mount":                       {root, "/certs", nil},
		"a Secret":                       {root + secret, "/certs", nil},
		"below a Secret":                 {root + secret, "/certs/receiver", nil},
		"subPath of a volume that lives": {root + volume, "/certs", nil},
		"subPath of a Secret":            {root + fixed, "/certs", []string{"/certs"}},
		"below one":                      {root + fixed, "/certs/export", []string{"/certs"}},
		"a Secret over it":               {root + fixed + secret, "/certs", nil},
		"single files":                   {root + key + crt + crt, "/certs", []string{"/certs/tls.crt", "/certs/tls.key"}},
		"single files over a Secret":     {root + secret + crt, "/certs", []string{"/certs/tls.crt"}},
		"elsewhere":                      {root + other, "/certs", nil},
		"escapes":                        {root + spaces, "/with space", []string{"/with space/tls.crt"}},
		"not a line":                     {"x\n" + root + "1 2 3 4\n", "/certs", nil},
		"a half escape":                  {"1 2 0:1 /x\\04 /certs/a\\9zz rw\n", "/certs", []string{"/certs/a\\9zz"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, frozen(tc.table, tc.dir))
		})
	}
	require.Empty(t, Frozen(t.TempDir()))
	require.Empty(t, Frozen("/no/such/directory"))
	require.NotEmpty(t, Frozen("/"), "the mounts of this machine")
}
