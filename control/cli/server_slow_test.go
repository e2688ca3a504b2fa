// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"crypto/tls"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestServerEndsSlowRequests: contract, section 4, "10 s to read them": a body
// that never comes holds a connection for a bounded time, whether or not its path
// exists, needs a credential or reads bodies at all.
func TestServerEndsSlowRequests(t *testing.T) {
	s := serveTest(t, testConfig(t.TempDir()), time.Now)
	address := strings.TrimPrefix(s.url, "https://")
	var all sync.WaitGroup
	for _, start := range []string{
		"POST /api/v1/operator-certificates/enroll",
		"POST /api/v1/operator-heartbeat",
		"POST /api/v1/orgs/default/clusters",
		"GET /healthz",
		"POST /api/nope",
		"POST /login",
		"POST /nowhere",
	} {
		all.Go(func() {
			conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
			if !assert.NoError(t, err, start) {
				return
			}
			defer func() { _ = conn.Close() }()
			_, err = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n", start)
			assert.NoError(t, err, start)
			assert.NoError(t, conn.SetReadDeadline(time.Now().Add(4*requestTimeout)))
			_, err = io.Copy(io.Discard, conn) // ends without an error when the server closes
			assert.NoError(t, err, "%s is still open", start)
		})
	}
	all.Wait()
	require.NoError(t, s.stop())
}
