// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

func TestGitOpsObjects(t *testing.T) {
	for name, charts := range map[string]Charts{"repository": fromRepo, "registry": fromOCI} {
		o, c, s := regional(), central(), sender(Continuum)
		o.Charts, c.Charts, s.Charts = charts, charts, charts
		golden(t, "argocd-"+name+".golden.yaml", yamlBlocks(o.Blocks(ArgoCD), c.Blocks(ArgoCD), s.Blocks(ArgoCD)))
		golden(t, "flux-"+name+".golden.yaml", yamlBlocks(o.Blocks(Flux), c.Blocks(Flux), s.Blocks(Flux)))
	}
	golden(t, "helm-values.golden.yaml", yamlBlocks(regional().Blocks(HelmValues), central().Blocks(HelmValues), sender(Continuum).Blocks(HelmValues)))
}

// yamlBlocks are the texts of the blocks that are YAML.
func yamlBlocks(lists ...[]Block) string {
	var texts []string
	for _, blocks := range lists {
		for _, b := range blocks {
			if strings.HasSuffix(b.File, ".yaml") {
				texts = append(texts, b.Text)
			}
		}
	}
	return strings.Join(texts, "---\n")
}

// The same values come out of every form of a chart's release, whatever they hold.
func TestOneSetOfValues(t *testing.T) {
	want := jsonText(regional().values())
	values := func(f Format, document int, path ...string) string {
		text := strings.Split(yamlBlocks(regional().Blocks(f)), "---\n")[document]
		var object any
		require.NoError(t, yaml.UnmarshalStrict([]byte(text), &object), text)
		for _, key := range path {
			object = object.(map[string]any)[key]
		}
		return jsonText(object)
	}
	assert.Equal(t, want, values(HelmValues, 0))
	assert.Equal(t, want, values(ArgoCD, 0, "spec", "source", "helm", "valuesObject"))
	assert.Equal(t, want, values(Flux, 1, "spec", "values"))
	assert.Contains(t, want, jsonText(hostileName))
}
