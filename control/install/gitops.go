// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"strings"

	"sigs.k8s.io/yaml"
)

// repository is where the charts are when no registry is named.
const repository = "https://github.com/ikhnos/continuum"

// yamlText is a value as a YAML document: of what jsonText takes, numbers and bytes.
func yamlText(value any) string {
	text, _ := yaml.Marshal(value) // encodes as JSON first, like jsonText
	return string(text)
}

// yamlDocuments are several objects in one text.
func yamlDocuments(objects []any) string {
	texts := make([]string, len(objects))
	for i, object := range objects {
		texts[i] = yamlText(object)
	}
	return strings.Join(texts, "---\n")
}

// release is one chart with its values in one cluster.
type release struct {
	Charts
	object string // name of the objects that describe it
	name   string // of the Helm release
	chart  string
	values map[string]any
}

func (o Operator) release() release {
	return release{o.Charts, o.Operator.ID, o.Operator.ID, o.chart(), o.values()}
}

// release of a sender: a control plane may keep many clusters, so its objects carry
// the cluster's id.
func (s Sender) release() release {
	return release{s.Charts, agent + "-" + s.HolderID, agent, agent, s.values()}
}

func (o Operator) helmValues() []Block {
	return append(o.secretBlocks(), o.release().helmValues())
}

func (s Sender) helmValues() []Block {
	return append(s.secretBlocks(), s.release().helmValues())
}

func (r release) helmValues() Block {
	return Block{"in the values of the chart " + r.chart, "release " + r.name + " in the namespace " + namespace + "; nothing secret",
		r.object + "-values.yaml", yamlText(r.values)}
}

func (o Operator) argoCD() []Block {
	return append(o.secretBlocks(), o.release().argoCD())
}

func (s Sender) argoCD() []Block {
	return append(s.secretBlocks(), s.release().argoCD())
}

// argoCD is an Application. Argo CD names a registry without oci://.
func (r release) argoCD() Block {
	source := map[string]any{"helm": map[string]any{"releaseName": r.name, "valuesObject": r.values}}
	if r.Registry == "" {
		source["repoURL"], source["path"], source["targetRevision"] = repository, "charts/"+r.chart, "v"+r.Version
	} else {
		source["repoURL"], source["chart"], source["targetRevision"] = strings.TrimPrefix(r.Registry, "oci://"), r.chart, r.Version
	}
	application := map[string]any{
		"apiVersion": "argoproj.io/v1alpha1",
		"kind":       "Application",
		"metadata":   map[string]any{"name": r.object, "namespace": "argocd"},
		"spec": map[string]any{
			"project":     "default",
			"source":      source,
			"destination": map[string]any{"server": "https://kubernetes.default.svc", "namespace": namespace},
			"syncPolicy": map[string]any{
				"automated":   map[string]any{"prune": true, "selfHeal": true},
				"syncOptions": []any{"CreateNamespace=true"},
			},
		},
	}
	return Block{"in Argo CD's cluster or its repository", "the Application; nothing secret; name another destination when it runs elsewhere",
		r.object + "-application.yaml", yamlText(application)}
}

func (o Operator) flux() []Block {
	return append(o.secretBlocks(), o.release().flux())
}

func (s Sender) flux() []Block {
	return append(s.secretBlocks(), s.release().flux())
}

// flux is a source and a HelmRelease. Flux must not replace ${…} in a label.
func (r release) flux() Block {
	metadata := map[string]any{
		"name": r.object, "namespace": namespace,
		"annotations": map[string]any{"kustomize.toolkit.fluxcd.io/substitute": "disabled"},
	}
	spec := map[string]any{"interval": "10m", "releaseName": r.name, "values": r.values}
	source := map[string]any{"apiVersion": "source.toolkit.fluxcd.io/v1", "metadata": metadata}
	if r.Registry == "" {
		source["kind"] = "GitRepository"
		source["spec"] = map[string]any{"interval": "10m", "url": repository, "ref": map[string]any{"tag": "v" + r.Version}}
		spec["chart"] = map[string]any{"spec": map[string]any{
			"chart":     "./charts/" + r.chart,
			"sourceRef": map[string]any{"kind": "GitRepository", "name": r.object},
		}}
	} else {
		source["kind"] = "OCIRepository"
		source["spec"] = map[string]any{"interval": "10m", "url": r.Registry + "/" + r.chart, "ref": map[string]any{"tag": r.Version}}
		spec["chartRef"] = map[string]any{"kind": "OCIRepository", "name": r.object}
	}
	helm := map[string]any{"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": metadata, "spec": spec}
	return Block{"in the cluster that Flux keeps or its repository", "the release and its source; nothing secret",
		r.object + "-release.yaml", yamlDocuments([]any{source, helm})}
}
