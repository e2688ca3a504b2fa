// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// bodyTimeout is how long a client may take to send its body.
const bodyTimeout = 10 * time.Second

// readBody reads a body of at most limit bytes. It refuses a Content-Encoding
// and, unless any is true, a media type other than JSON. A body that is not
// there is an empty one.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, any bool) ([]byte, error) {
	if !any {
		if err := checkMedia(r); err != nil {
			return nil, err
		}
	}
	stop := limitReading(w)
	defer stop()
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

// limitReading ends the reading of a body after bodyTimeout. stop lifts the
// limit, so that a long poll may stay.
func limitReading(w http.ResponseWriter) (stop func()) {
	control := http.NewResponseController(w)
	timer := time.AfterFunc(bodyTimeout, func() { _ = control.SetReadDeadline(time.Unix(1, 0)) })
	return func() {
		if timer.Stop() {
			return
		}
		_ = control.SetReadDeadline(time.Time{})
	}
}
