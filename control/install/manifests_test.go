// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/ikhnos/continuum/internal/identity"
)

// objects are the objects of a manifest block by kind, decoded strictly.
func objects(t *testing.T, text string) map[string][]any {
	t.Helper()
	all := map[string][]any{}
	for _, document := range strings.Split(text, "---\n") {
		var head struct{ APIVersion, Kind string }
		require.NoError(t, yaml.Unmarshal([]byte(document), &head))
		typed := map[string]any{
			"v1 Namespace": &corev1.Namespace{}, "v1 ServiceAccount": &corev1.ServiceAccount{}, "v1 Secret": &corev1.Secret{},
			"v1 ConfigMap": &corev1.ConfigMap{}, "v1 Service": &corev1.Service{}, "apps/v1 Deployment": &appsv1.Deployment{},
			"batch/v1 Job": &batchv1.Job{}, "rbac.authorization.k8s.io/v1 Role": &rbacv1.Role{}, "rbac.authorization.k8s.io/v1 RoleBinding": &rbacv1.RoleBinding{},
		}[head.APIVersion+" "+head.Kind]
		require.NotNil(t, typed, document)
		require.NoError(t, yaml.UnmarshalStrict([]byte(document), typed), document)
		all[head.Kind] = append(all[head.Kind], typed)
	}
	return all
}

// TestOperatorManifests: BD-2, BD-6 to BD-8: a Deployment with a Service and one Role of
// its namespace; the decoder knows no kind of a whole cluster.
func TestOperatorManifests(t *testing.T) {
	for name, tt := range map[string]struct {
		facts   Operator
		certs   []string
		ports   int
		service corev1.ServiceType
	}{
		"regional":   {regional(), []string{"op-eu-receiver-tls", "op-eu-export-tls"}, 1, corev1.ServiceTypeNodePort},
		"to a store": {toStore(), []string{"op-eu-receiver-tls"}, 2, corev1.ServiceTypeClusterIP},
		"central":    {central(), []string{"op-central-receiver-tls"}, 1, corev1.ServiceTypeLoadBalancer},
	} {
		t.Run(name, func(t *testing.T) {
			all := objects(t, yamlBlocks(tt.facts.Blocks(Manifests)))
			checkKeeper(t, all, tt.certs)
			service := all["Service"][0].(*corev1.Service)
			assert.Equal(t, tt.service, service.Spec.Type)
			require.Len(t, service.Spec.Ports, tt.ports, "outside the cluster OTLP/gRPC alone") // AD-24
			assert.Equal(t, int32(4317), service.Spec.Ports[0].Port)
			deployment := all["Deployment"][0].(*appsv1.Deployment)
			assert.Equal(t, Release(tt.facts.Operator), deployment.Name)
			assert.Equal(t, service.Name, deployment.Name)
			checkPod(t, deployment.Spec.Template.Spec)
			for key, value := range service.Spec.Selector {
				assert.Equal(t, value, deployment.Spec.Template.Labels[key])
			}
			config := all["ConfigMap"][0].(*corev1.ConfigMap)
			for _, cert := range tt.certs {
				assert.Contains(t, config.Data["config.yaml"], "name: "+cert+"\n")
			}
			validate(t, config.Data["config.yaml"])
		})
	}
}

func TestSenderManifests(t *testing.T) {
	name := identity.SenderName("op-eu", "c9")
	blocks := sender(Stock).Blocks(Manifests)
	all := objects(t, block(t, blocks, "c9.yaml").Text)
	checkKeeper(t, all, []string{name + "-tls"})
	job := all["Job"][0].(*batchv1.Job)
	assert.Regexp(t, "^enroll-c9-[0-9a-f]{8}$", job.Name)
	assert.Contains(t, job.Spec.Template.Spec.Containers[0].Args, "--enrollment-token-file")
	checkPod(t, job.Spec.Template.Spec)
	keeper := all["Deployment"][0].(*appsv1.Deployment)
	assert.Equal(t, []string{"renew", "--server", theServer.URL, "--ca-pin", theServer.Pins[0], "--dir", "/var/lib/continuum/op-eu",
		"--kubernetes-secret", "continuum-system/" + name + "-tls", "--watch"}, keeper.Spec.Template.Spec.Containers[0].Args)
	checkPod(t, keeper.Spec.Template.Spec)

	again := sender(Stock)
	again.Token.Value = receiver
	assert.NotContains(t, block(t, again.Blocks(Manifests), "c9.yaml").Text, "name: "+job.Name+"\n", "a new token makes a new Job")
	long := sender(Stock)
	long.HolderID = strings.Repeat("c", 31)
	made := objects(t, block(t, long.Blocks(Manifests), ".yaml").Text)["Job"][0].(*batchv1.Job)
	assert.LessOrEqual(t, len(made.Name), 63)
}

// checkKeeper: an account of this namespace that may get and update the named
// Secrets and nothing else (BD-6, BD-7).
func checkKeeper(t *testing.T, all map[string][]any, certs []string) {
	t.Helper()
	account := all["ServiceAccount"][0].(*corev1.ServiceAccount)
	assert.False(t, *account.AutomountServiceAccountToken)
	assert.Equal(t, []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: certs, Verbs: []string{"get", "update"}}},
		all["Role"][0].(*rbacv1.Role).Rules)
	binding := all["RoleBinding"][0].(*rbacv1.RoleBinding)
	assert.Equal(t, all["Role"][0].(*rbacv1.Role).Name, binding.RoleRef.Name)
	assert.Equal(t, account.Name, binding.Subjects[0].Name)
	require.Len(t, all["Secret"], len(certs))
	for i, secret := range all["Secret"] {
		assert.Equal(t, certs[i], secret.(*corev1.Secret).Name)
		assert.Nil(t, secret.(*corev1.Secret).Data, "applying it again takes nothing out")
	}
}

// checkPod: restricted, no token of the account but the one that is mounted by hand.
func checkPod(t *testing.T, spec corev1.PodSpec) {
	t.Helper()
	assert.False(t, *spec.AutomountServiceAccountToken)
	assert.True(t, *spec.SecurityContext.RunAsNonRoot)
	assert.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, spec.SecurityContext.SeccompProfile.Type)
	volumes := map[string]bool{}
	for _, volume := range spec.Volumes {
		volumes[volume.Name] = true
	}
	for _, container := range spec.Containers {
		security := container.SecurityContext
		assert.False(t, *security.AllowPrivilegeEscalation)
		assert.True(t, *security.ReadOnlyRootFilesystem)
		assert.Equal(t, []corev1.Capability{"ALL"}, security.Capabilities.Drop)
		for _, mount := range container.VolumeMounts {
			assert.True(t, volumes[mount.Name], mount.Name)
			assert.Equal(t, mount.Name != "state", mount.ReadOnly, mount.Name)
		}
	}
}

// the Secret with the keys is the one that the collector keeps its certificate
// in, in every format, and no token is asked for.
func TestKeysInEveryFormat(t *testing.T) {
	cluster := sender(Continuum)
	cluster.Token, cluster.Keys = Secret{}, withKeys().ReceiverKeys
	for _, f := range KeyFormats() {
		facts := withKeys()
		facts.Sources = []Sender{cluster}
		blocks := facts.Blocks(f)
		assert.Contains(t, block(t, blocks, "receiver-keys.sh").Text, keySecret("op-eu-receiver-tls", "op-eu"), f)
		assert.Contains(t, block(t, blocks, "export-keys.sh").Text, keySecret("op-eu-export-c9-tls", "op-eu-export-c9"), f)
		for _, b := range blocks {
			assert.NotContains(t, b.Text, "TokenSecretName", f)
			assert.NotContains(t, b.Text, "kind: Job", f)
			assert.Equal(t, strings.HasSuffix(b.File, "-keys.sh"), strings.Contains(b.Text, "cHJpdmF0ZSBrZXkK"), "%s: %s", f, b.File)
		}
	}
	checkKeeper(t, objects(t, block(t, withKeys().Blocks(Manifests), "op-eu.yaml").Text), []string{"op-eu-receiver-tls"})
}
