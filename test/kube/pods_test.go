// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ikhnos/continuum/components/extension/ikhnosrenew"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/certfile"
	"github.com/ikhnos/continuum/internal/controlclient"
	"github.com/ikhnos/continuum/internal/process"
	"github.com/ikhnos/continuum/test/testbed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	namespace = "continuum-system"
	account   = "op-abc"
	secret    = "op-abc-receiver-tls"
	operator  = "op-abc"

	pods      = 20
	followers = 4 // of them
	life      = time.Minute
)

// windows is how many renewals the pods go through.
func windows() int {
	if testbed.Soak() {
		return 20
	}
	return 1
}

// site is a control server, a cluster with the Secret of one workload, and the
// pods of that workload.
type site struct {
	t       *testing.T
	cluster *Cluster
	server  *testbed.Server
	token   string // file
	pods    []*pod
}

// pod is one instance of the extension with a directory of its own.
type pod struct {
	extension.Extension
	dir string
}

// trap-3, trap-4, BD-7, RN-7: twenty pods with one token and one Secret make one
// enrolment, and one entry for each renewal window, at a real API server that
// knows conflicts; what else is in the Secret stays, and they ask for nothing but
// get and update of it.
func TestPodsShareASecret(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three processes")
	}
	s := newSite(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	disturbed := make(chan int, 1)
	go func() { disturbed <- s.disturb(ctx) }()
	s.startAll()
	require.Len(t, s.entries(), 1, "one enrolment")
	for _, p := range s.pods {
		require.NoError(t, p.Extension.(extensioncapabilities.PipelineWatcher).Ready())
	}
	testbed.Within(t, 5*time.Minute+time.Duration(windows())*life, "renewals that all pods follow", s.renewed)
	cancel()
	changes := <-disturbed
	s.renewByHand()
	s.reload()
	for _, p := range s.pods {
		require.NoError(t, p.Shutdown(t.Context()))
	}
	s.checkChain()
	s.checkSecret(changes)
	s.checkRequests()
	s.checkRole()
}

func newSite(t *testing.T) *site {
	s := &site{t: t, cluster: Start(t), server: testbed.StartServer(t, "--leaf-lifetime", life.String())}
	s.server.Regional(operator, "")
	s.token = filepath.Join(t.TempDir(), "token")
	s.server.TokenFile(s.token, operator, "")
	s.cluster.Namespace(namespace)
	_, err := s.cluster.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: secret, Labels: map[string]string{"app": "operator"}, Annotations: map[string]string{"note": "kept", "changes": "0"},
		},
		Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{"other": []byte("kept"), corev1.TLSCertKey: {}, corev1.TLSPrivateKeyKey: {}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Setenv("KUBECONFIG", s.cluster.Account(namespace, account, rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secret}, Verbs: []string{"get", "update"},
	}))
	return s
}

// newPod makes a pod as it starts: with an empty directory.
func (s *site) newPod(follow bool) *pod {
	p := &pod{dir: filepath.Join(s.t.TempDir(), "receiver")}
	certificate := ikhnosrenew.CertificateConfig{
		Directory:        p.dir,
		KubernetesSecret: configoptional.Some(ikhnosrenew.SecretConfig{Namespace: namespace, Name: secret}),
	}
	if follow {
		certificate.Mode = ikhnosrenew.Follow
	} else {
		certificate.Enrollment = configoptional.Some(ikhnosrenew.EnrollmentConfig{TokenFile: s.token})
	}
	factory := ikhnosrenew.NewFactory()
	cfg := factory.CreateDefaultConfig().(*ikhnosrenew.Config)
	client := controlclient.NewDefaultConfig()
	client.Endpoint, client.CAPins = s.server.URL, []string{s.server.Pin}
	cfg.Server = configoptional.Some(client)
	cfg.StartupTimeout = 5 * time.Minute
	cfg.Certificates = map[string]ikhnosrenew.CertificateConfig{"receiver": certificate}
	var err error
	p.Extension, err = factory.Create(s.t.Context(), extensiontest.NewNopSettings(factory.Type()), cfg)
	require.NoError(s.t, err)
	return p
}

// startAll starts all pods at once, with one token and an empty Secret.
func (s *site) startAll() {
	for i := range pods {
		s.pods = append(s.pods, s.newPod(i < followers))
	}
	var wg sync.WaitGroup
	for _, p := range s.pods {
		wg.Go(func() { assert.NoError(s.t, p.Start(s.t.Context(), componenttest.NewNopHost())) })
	}
	wg.Wait()
	require.False(s.t, s.t.Failed())
}

// entries is what the ledger has, oldest first.
func (s *site) entries() []ledger.Entry {
	entries := s.server.Entries(operator, operator)
	slices.SortFunc(entries, func(a, b ledger.Entry) int { return a.IssuedAt.Compare(b.IssuedAt) })
	return entries
}

// renewed reports whether there were enough renewals and all pods have the last.
func (s *site) renewed(context.Context) error {
	entries := s.entries()
	if len(entries) <= windows() {
		return fmt.Errorf("%d of %d", len(entries)-1, windows())
	}
	last := entries[len(entries)-1].Serial
	for i, p := range s.pods {
		if serial := serialIn(s.t, p.dir); serial != last {
			return fmt.Errorf("pod %d has %s and not %s", i, serial, last)
		}
	}
	return nil
}

func serialIn(t *testing.T, dir string) string {
	g, err := certfile.Load(dir)
	require.NoError(t, err)
	leaf, err := g.Leaf()
	require.NoError(t, err)
	return hex.EncodeToString(leaf.SerialNumber.Bytes())
}

// disturb counts up in an annotation of the Secret, as other programs change other
// parts of it, at a pace that a slow machine follows as well, and returns how far it
// came. A write over one of its changes fails the test.
func (s *site) disturb(ctx context.Context) int {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for changes := 0; ; changes++ {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return changes
		}
		start := time.Now()
		patch := fmt.Sprintf(`[{"op": "test", "path": "/metadata/annotations/changes", "value": "%d"},
			{"op": "replace", "path": "/metadata/annotations/changes", "value": "%d"}]`, changes, changes+1)
		_, err := s.cluster.CoreV1().Secrets(namespace).Patch(s.t.Context(), secret, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			if s.t.Context().Err() == nil {
				s.t.Errorf("changing the Secret after %d changes: %v", changes, err)
			}
			return changes
		}
		timer.Reset(max(50*time.Millisecond, 5*time.Since(start)))
	}
}

// renewByHand: `ikhnos renew` is one more pod, and takes what the others have.
func (s *site) renewByHand() {
	dir := filepath.Join(s.t.TempDir(), "by-hand")
	p, err := process.Start(s.t.TempDir(), "renew", []string{"IKHNOS_SERVER=" + s.server.URL, "IKHNOS_CA_PIN=" + s.server.Pin},
		testbed.Program(s.t, "ikhnos"), "renew", "--dir", dir, "--kubernetes-secret", namespace+"/"+secret)
	require.NoError(s.t, err)
	testbed.Eventually(s.t, "ikhnos renew to end", func(context.Context) error {
		select {
		case <-p.Done():
			return nil
		default:
			return errors.New("it runs")
		}
	})
	require.NoError(s.t, p.Err(), p.Tail(10))
	require.NotEmpty(s.t, serialIn(s.t, dir))
}

// reload: the extension can be started again and again with a Secret, and keeps
// no connection or goroutine of the times before (case-7).
func (s *site) reload() {
	cycle := func() {
		p := s.newPod(true)
		require.NoError(s.t, p.Start(s.t.Context(), componenttest.NewNopHost()))
		require.NoError(s.t, p.Shutdown(s.t.Context()))
	}
	cycle()
	before := descriptors(s.t)
	for range 20 {
		cycle()
	}
	require.LessOrEqual(s.t, descriptors(s.t), before+5)
}

func descriptors(t *testing.T) int {
	open, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(open)
}

// checkChain: each entry was renewed from the one before, a window later.
func (s *site) checkChain() {
	entries := s.entries()
	require.Empty(s.t, entries[0].Parent)
	for i, next := range entries[1:] {
		require.Equal(s.t, entries[i].Serial, next.Parent, "one successor for each leaf")
		require.False(s.t, next.IssuedAt.Before(entries[i].RenewAfter), "no renewal before the window")
	}
}

func (s *site) checkSecret(changes int) {
	got, err := s.cluster.CoreV1().Secrets(namespace).Get(s.t.Context(), secret, metav1.GetOptions{})
	require.NoError(s.t, err)
	require.Equal(s.t, "kept", string(got.Data["other"]))
	require.Equal(s.t, map[string]string{"app": "operator"}, got.Labels)
	require.Equal(s.t, map[string]string{"note": "kept", "changes": fmt.Sprint(changes)}, got.Annotations)
	require.Equal(s.t, corev1.SecretTypeTLS, got.Type)
	require.NoError(s.t, certfile.New(got.Data[corev1.TLSCertKey], got.Data[corev1.TLSPrivateKeyKey], got.Data[certfile.FileCA]).Check())
}

// checkRequests: get and update of the one Secret, none forbidden, and some updates
// met a conflict.
func (s *site) checkRequests() {
	counts := map[string]int{}
	for _, request := range s.cluster.Requests(namespace, account) {
		require.Contains(s.t, []string{"get", "update"}, request.Verb)
		require.Equal(s.t, "secrets/"+namespace+"/"+secret, request.Object)
		require.NotEqual(s.t, int32(http.StatusForbidden), request.Code)
		counts[fmt.Sprintf("%s %d", request.Verb, request.Code)]++
	}
	s.t.Logf("%d entries; requests of the pods: %v", len(s.entries()), counts)
	require.Positive(s.t, counts["get 200"])
	require.Positive(s.t, counts["update 200"])
	require.Positive(s.t, counts["update 409"], "conflicts were met")
}

// checkRole: the account could not have done more.
func (s *site) checkRole() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	require.NoError(s.t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(s.t, err)
	ctx, secrets := s.t.Context(), client.CoreV1().Secrets(namespace)
	_, list := secrets.List(ctx, metav1.ListOptions{})
	_, other := secrets.Get(ctx, "another", metav1.GetOptions{})
	_, create := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{})
	for _, err := range []error{list, other, create, secrets.Delete(ctx, secret, metav1.DeleteOptions{})} {
		require.True(s.t, apierrors.IsForbidden(err), "%v", err)
	}
}
