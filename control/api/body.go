// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// readBody reads a body of at most limit bytes; how long that may take is the
// listener's to say, which also bounds bodies that nobody reads. It refuses a Content-Encoding
// and, unless any is true, a media type other than JSON. A body that is not
// there is an empty one.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, any bool) ([]byte, error) {
	if !any {
		if err := checkMedia(r); err != nil {
			return nil, err
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, controlapi.NewProblem(controlapi.ReasonBodyTooLarge, "")
	case err != nil:
		return nil, malformed("The body ended early.")
	}
	return body, nil
}

// checkMedia refuses what is not plain JSON. A request without a body needs no
// media type, and one that names none is taken as JSON.
func checkMedia(r *http.Request) error {
	refusal := controlapi.NewProblem(controlapi.ReasonMediaTypeUnsupported, "")
	if len(r.Header.Values("Content-Encoding")) > 0 {
		return refusal
	}
	if named := r.Header.Get("Content-Type"); named != "" && r.ContentLength != 0 {
		if media, _, err := mime.ParseMediaType(named); err != nil || media != "application/json" {
			return refusal
		}
	}
	return nil
}
