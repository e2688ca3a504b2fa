// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"os"
	"strings"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Namespace makes a namespace.
func (c *Cluster) Namespace(name string) {
	c.t.Helper()
	_, err := c.CoreV1().Namespaces().Create(c.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

// Account makes a ServiceAccount that may do what the rules say and nothing more,
// and returns a file for KUBECONFIG with a token of it.
func (c *Cluster) Account(namespace, name string, rules ...rbacv1.PolicyRule) string {
	c.t.Helper()
	ctx, meta := c.t.Context(), metav1.ObjectMeta{Namespace: namespace, Name: name}
	_, err := c.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	_, err = c.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	_, err = c.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
	}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	token, err := c.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(c.t, err)

	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: c.Config.Host, CertificateAuthority: c.Config.CAFile}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test", Namespace: namespace}
	config.CurrentContext = "test"
	text, err := clientcmd.Write(*config)
	require.NoError(c.t, err)
	return c.write(namespace+"."+name+".kubeconfig", text)
}

// Request is one line of the audit log.
type Request struct {
	Verb   string
	Object string // resource/namespace/name
	Code   int32  // of the answer
}

// Requests is what a ServiceAccount asked the API server for so far.
func (c *Cluster) Requests(namespace, name string) []Request {
	c.t.Helper()
	text, err := os.ReadFile(c.auditLog())
	require.NoError(c.t, err)
	var requests []Request
	for line := range strings.Lines(string(text)) {
		var event struct {
			Verb, RequestURI string
			User             struct{ Username string }
			ObjectRef        *struct{ Resource, Namespace, Name string }
			ResponseStatus   struct{ Code int32 }
		}
		require.NoError(c.t, json.Unmarshal([]byte(line), &event), line)
		if event.User.Username != "system:serviceaccount:"+namespace+":"+name {
			continue
		}
		object := event.RequestURI
		if o := event.ObjectRef; o != nil {
			object = o.Resource + "/" + o.Namespace + "/" + o.Name
		}
		requests = append(requests, Request{Verb: event.Verb, Object: object, Code: event.ResponseStatus.Code})
	}
	return requests
}
