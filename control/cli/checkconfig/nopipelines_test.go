// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package checkconfig

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A collector starts with none of the first ones, so none of them is in order.
func TestPipelinesThatAreNone(t *testing.T) {
	for name, content := range map[string]string{
		"nothing":      "service:\n  pipelines:\n",
		"a number":     "service:\n  pipelines: 5\n",
		"a list":       "service:\n  pipelines: [traces]\n",
		"an empty one": "service:\n  pipelines: {}\n",
	} {
		t.Run(name, func(t *testing.T) {
			findings := Check("c.yaml", []byte(content))
			require.Len(t, findings, 1)
			assert.Equal(t, ruleNoPipelines.id, findings[0].Rule)
			assert.Equal(t, 2, findings[0].Line)
		})
	}
	t.Run("only the machine knows", func(t *testing.T) {
		assert.Empty(t, Check("c.yaml", []byte("service:\n  pipelines: ${env:PIPELINES}\n")))
	})
}
