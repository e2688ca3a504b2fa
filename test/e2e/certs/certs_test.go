// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/ikhnos/continuum/test/testbed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// count is how often something is done: a few times, or often with CONTINUUM_SOAK.
func count(few, often int) int {
	if testbed.Soak() {
		return often
	}
	return few
}
