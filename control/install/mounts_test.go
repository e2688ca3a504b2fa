// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// case-6: what a pod mounts with subPath never changes, so that a renewed Secret
// would not reach it. Nothing that is printed has one.
func TestDirectoriesAreMounted(t *testing.T) {
	for name, blocks := range all() {
		for _, b := range blocks {
			assert.NotContains(t, b.Text, "subPath", "%s: %s", name, b.File)
		}
	}
}
