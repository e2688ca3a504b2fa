// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"net/http"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// limitHeaders answers 431 to headers above the bound exactly: net/http takes 4 KiB
// more than its MaxHeaderBytes.
func limitHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size := len(r.RequestURI) + len(r.Host)
		for name, values := range r.Header {
			for _, value := range values {
				size += len(name) + len(": ") + len(value) + len("\r\n")
			}
		}
		if size > controlapi.MaxHeaderBytes {
			http.Error(w, http.StatusText(http.StatusRequestHeaderFieldsTooLarge), http.StatusRequestHeaderFieldsTooLarge)
			return
		}
		next.ServeHTTP(w, r)
	})
}
