// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// object is one Kubernetes object or a part of one.
type object = map[string]any

const (
	podState   = "/var/lib/continuum"
	podSecrets = "/run/secrets/continuum"
	healthPort = 13133
)

// manifests run an operator without a chart.
func (o Operator) manifests() []Block {
	op, name := o.Operator, Release(o.Operator)
	v := o.configValues(podState, podSecrets)
	v["CONTINUUM_HEALTH_ENDPOINT"] = "0.0.0.0:13133"
	certificates := []string{"receiver"}
	if o.Destination != nil {
		certificates = append(certificates, "export")
	}
	config := o.configuration(v, func(root *yaml.Node) {
		for _, label := range certificates {
			keepInSecret(at(root, "extensions", "ikhnosrenew", "certificates", label), op.ID+"-"+label+"-tls")
		}
	})
	objects := []any{object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": namespace}}}
	kept := make([]string, len(certificates))
	for i, label := range certificates {
		kept[i] = op.ID + "-" + label + "-tls"
	}
	objects = append(objects, secretKeeper(name, op.ID, kept)...)
	objects = append(objects,
		object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(name, op.ID), "data": object{"config.yaml": config}},
		o.service(name), o.deployment(name, config))
	return append(o.secretBlocks(), Block{inOperatorCluster,
		"kubectl apply --filename=" + op.ID + ".yaml; nothing secret; write your registry before the image's name", op.ID + ".yaml", yamlDocuments(objects)})
}

// keepInSecret adds a durable copy that pods share to a certificate.
func keepInSecret(certificate *yaml.Node, name string) {
	var secret yaml.Node
	_ = secret.Encode(map[string]string{"namespace": namespace, "name": name}) // strings encode
	certificate.Content = append(certificate.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "kubernetes_secret"}, &secret)
}

func metadata(name, instance string) object {
	return object{"name": name, "namespace": namespace, "labels": object{
		"app.kubernetes.io/name": "continuum", "app.kubernetes.io/instance": instance,
	}}
}

// secretKeeper is an account that may read and write the named Secrets and nothing
// else (BD-6, BD-7), and those Secrets, empty. They have no data field, so that
// applying them again takes nothing out.
func secretKeeper(name, instance string, secrets []string) []any {
	group := "rbac.authorization.k8s.io"
	objects := []any{
		object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(name, instance), "automountServiceAccountToken": false},
		object{"apiVersion": group + "/v1", "kind": "Role", "metadata": metadata(name, instance), "rules": []any{object{
			"apiGroups": []any{""}, "resources": []any{"secrets"}, "resourceNames": secrets, "verbs": []any{"get", "update"},
		}}},
		object{"apiVersion": group + "/v1", "kind": "RoleBinding", "metadata": metadata(name, instance),
			"roleRef":  object{"apiGroup": group, "kind": "Role", "name": name},
			"subjects": []any{object{"kind": "ServiceAccount", "name": name, "namespace": namespace}}},
	}
	for _, secret := range secrets {
		objects = append(objects, object{"apiVersion": "v1", "kind": "Secret", "metadata": metadata(secret, instance), "type": "Opaque"})
	}
	return objects
}

// service offers both protocols inside the cluster and OTLP/gRPC alone outside
// (AD-24).
func (o Operator) service(name string) object {
	ports := []any{object{"name": "otlp-grpc", "port": 4317, "targetPort": 4317, "appProtocol": "grpc"}}
	if o.Operator.Exposure == operators.ExposureCluster {
		ports = append(ports, object{"name": "otlp-http", "port": 4318, "targetPort": 4318})
	}
	return object{"apiVersion": "v1", "kind": "Service", "metadata": metadata(name, o.Operator.ID), "spec": object{
		"type": serviceTypes[o.Operator.Exposure], "selector": object{"app.kubernetes.io/instance": o.Operator.ID}, "ports": ports,
	}}
}

// deployment runs the collector: two pods of a regional operator, one of a central
// one, whose sums of delta points are kept in memory.
func (o Operator) deployment(name, config string) object {
	replicas, memory, goLimit := 2, "512Mi", "409MiB"
	if o.Operator.Role == operators.RoleCentral {
		replicas, memory, goLimit = 1, "2Gi", "1638MiB"
	}
	probe := object{"httpGet": object{"path": "/", "port": healthPort}}
	startup := object{"httpGet": probe["httpGet"], "failureThreshold": 30}
	container := object{
		"name": "collector", "image": "continuum-collector:" + o.Charts.Version, "args": []any{"--config", "/etc/continuum/config.yaml"},
		"env": []any{object{"name": "GOMEMLIMIT", "value": goLimit}},
		"ports": []any{
			object{"name": "otlp-grpc", "containerPort": 4317}, object{"name": "otlp-http", "containerPort": 4318},
			object{"name": "health", "containerPort": healthPort},
		},
		"startupProbe": startup, "readinessProbe": probe, "livenessProbe": probe,
		"resources": object{"limits": object{"memory": memory}, "requests": object{"cpu": "200m", "memory": memory}},
	}
	spec := pod(name, container, o.secrets())
	spec["volumes"] = append(spec["volumes"].([]any), object{"name": "config", "configMap": object{"name": name}})
	container["volumeMounts"] = append(container["volumeMounts"].([]any), mount("config", "/etc/continuum"))
	digest := sha256.Sum256([]byte(config))
	return deployment(name, o.Operator.ID, replicas, spec, object{"checksum/config": hex.EncodeToString(digest[:])})
}

func deployment(name, instance string, replicas int, spec, annotations object) object {
	return object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(name, instance), "spec": object{
		"replicas": replicas,
		"selector": object{"matchLabels": object{"app.kubernetes.io/instance": instance}},
		"template": object{
			"metadata": object{"labels": metadata(name, instance)["labels"], "annotations": annotations},
			"spec":     spec,
		},
	}}
}

// pod is a restricted pod of one container that may use the account's token, with a
// folder for its state and the secrets as files.
func pod(account string, container object, secrets []named) object {
	container["securityContext"] = object{
		"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": object{"drop": []any{"ALL"}},
	}
	container["volumeMounts"] = []any{
		mount("state", podState), mount("secrets", podSecrets), mount("api", "/var/run/secrets/kubernetes.io/serviceaccount"),
	}
	sources := []any{}
	for _, s := range secrets {
		sources = append(sources, object{"secret": object{"name": s.object, "optional": true, "items": []any{object{"key": s.key, "path": s.file}}}})
	}
	access := []any{
		object{"serviceAccountToken": object{"path": "token", "expirationSeconds": 3600}},
		object{"configMap": object{"name": "kube-root-ca.crt", "items": []any{object{"key": "ca.crt", "path": "ca.crt"}}}},
		object{"downwardAPI": object{"items": []any{object{"path": "namespace", "fieldRef": object{"fieldPath": "metadata.namespace"}}}}},
	}
	return object{
		"serviceAccountName": account, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 60,
		"securityContext": object{
			"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532, "seccompProfile": object{"type": "RuntimeDefault"},
		},
		"containers": []any{container},
		"volumes": []any{
			object{"name": "state", "emptyDir": object{}},
			object{"name": "secrets", "projected": object{"defaultMode": 0o440, "sources": sources}},
			object{"name": "api", "projected": object{"defaultMode": 0o440, "sources": access}},
		},
	}
}

func mount(name, path string) object {
	return object{"name": name, "mountPath": path, "readOnly": name != "state"}
}

// manifests keep a sender's certificate in a Secret, for any collector of the
// cluster that mounts it. A Job enrols; it is named by the token, so that a new one
// makes a new Job.
func (s Sender) manifests() []Block {
	name := s.name()
	secret := name + "-tls"
	command := func(verb string, more ...string) object {
		args := append([]string{verb}, s.Server.flags()...)
		args = append(args, "--dir", podState+"/"+s.Link.OperatorID, "--kubernetes-secret", namespace+"/"+secret)
		return object{"name": verb, "image": "ikhnos:" + s.Charts.Version, "args": append(args, more...)}
	}
	objects := []any{object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": namespace}}}
	objects = append(objects, secretKeeper(name, name, []string{secret})...)
	if s.Token.Value != "" {
		enroll := pod(name, command("enroll", "--enrollment-token-file", podSecrets+"/export-token", "--force"), s.secrets())
		enroll["restartPolicy"] = "OnFailure"
		job := strings.TrimSuffix("enroll-"+s.HolderID, "-") + "-" + hex.EncodeToString(controlapi.HashSecret(s.Token.Value))[:8]
		objects = append(objects, object{"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata(job, name), "spec": object{
			"backoffLimit": 20, "template": object{"metadata": object{"labels": object{"app.kubernetes.io/name": "continuum"}}, "spec": enroll},
		}})
	}
	objects = append(objects, deployment(name, name, 1, pod(name, command("renew", "--watch"), nil), object{}))
	const mounted = "/var/run/continuum"
	return append(s.secretBlocks(),
		Block{s.inCluster(), "kubectl apply --filename=" + s.HolderID + ".yaml; nothing secret; write your registry before the images' names",
			s.HolderID + ".yaml", yamlDocuments(objects)},
		s.exporterBlock("in the configuration of any collector of that cluster",
			"the exporter; its pod, in "+namespace+", mounts the Secret "+secret+" at "+mounted, mounted))
}
