// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"fmt"
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
		return nil, controlapi.NewProblem(controlapi.ReasonBodyTooLarge,
			fmt.Sprintf("The body is larger than the %d KiB that are read here.", limit>>10))
	case err != nil:
		return nil, malformed("The body ended early, or did not come within the time that a request may take.")
	}
	return body, nil
}

// checkMedia refuses what is not plain JSON. A request without a body needs no
// media type, and one that names none is taken as JSON.
func checkMedia(r *http.Request) error {
	refused := func(detail string) error {
		return controlapi.NewProblem(controlapi.ReasonMediaTypeUnsupported, detail)
	}
	if len(r.Header.Values("Content-Encoding")) > 0 {
		return refused("The request has a Content-Encoding; a body is read as it is.")
	}
	named := r.Header.Values("Content-Type")
	if len(named) > 1 {
		return refused("The request has more than one Content-Type.")
	}
	if len(named) == 1 && named[0] != "" && r.ContentLength != 0 {
		if media, _, err := mime.ParseMediaType(named[0]); err != nil || media != "application/json" {
			return refused("The Content-Type is not application/json.")
		}
	}
	return nil
}
