// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// Contract, section 4: "headers 16 KiB".
func TestLimitHeaders(t *testing.T) {
	limited := limitHeaders(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for name, tc := range map[string]struct{ values, length, want int }{
		"below in one": {1, controlapi.MaxHeaderBytes - 100, http.StatusOK},
		"above in one": {1, controlapi.MaxHeaderBytes, http.StatusRequestHeaderFieldsTooLarge},
		"above in two": {2, controlapi.MaxHeaderBytes / 2, http.StatusRequestHeaderFieldsTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/healthz", nil)
			for range tc.values {
				r.Header.Add("X-Long", strings.Repeat("a", tc.length))
			}
			w := httptest.NewRecorder()
			limited.ServeHTTP(w, r)
			assert.Equal(t, tc.want, w.Code)
		})
	}
}
