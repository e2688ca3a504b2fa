// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

// signal wakes one goroutine; several wishes before it runs are one.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

// raise never waits.
func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}
