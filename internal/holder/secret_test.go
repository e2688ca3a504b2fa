// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	k8stesting "k8s.io/client-go/testing"

	"github.com/ikhnos/continuum/internal/certfile"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/testpki"
	"github.com/ikhnos/continuum/internal/testpki/testserver"
)

const secretName = "op-abc-receiver-tls"

// cluster is a fake API server with our Secret in it, that knows conflicts.
type cluster struct {
	*fake.Clientset
	version atomic.Int64
	mu      sync.Mutex
}

var errConflict = apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, secretName, errors.New("changed"))

func newCluster(t *testing.T) *cluster {
	c := &cluster{Clientset: fake.NewClientset(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "continuum-system", Name: secretName, ResourceVersion: "0",
			Labels: map[string]string{"app": "operator"}, Annotations: map[string]string{"note": "kept"},
		},
		Data: map[string][]byte{"other": []byte("kept"), "tls.crt": nil, "tls.key": nil},
	})}
	c.PrependReactor("update", "secrets", func(action k8stesting.Action) (bool, runtime.Object, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		secret := action.(k8stesting.UpdateAction).GetObject().(*corev1.Secret)
		require.Equal(t, secretName, secret.Name, "only the named Secret is touched")
		stored, err := c.Tracker().Get(action.GetResource(), action.GetNamespace(), secret.Name)
		if err != nil {
			return true, nil, err
		}
		if stored.(*corev1.Secret).ResourceVersion != secret.ResourceVersion {
			return true, nil, errConflict
		}
		secret = secret.DeepCopy()
		secret.ResourceVersion = string(rune('0' + c.version.Add(1)))
		return true, secret, c.Tracker().Update(action.GetResource(), secret, action.GetNamespace())
	})
	return c
}

func (c *cluster) store() Store {
	return NewSecretStore(c.CoreV1().Secrets("continuum-system"), secretName)
}

func (c *cluster) secret(t *testing.T) *corev1.Secret {
	secret, err := c.CoreV1().Secrets("continuum-system").Get(t.Context(), secretName, metav1.GetOptions{})
	require.NoError(t, err)
	return secret
}

func requireOthersKept(t *testing.T, secret *corev1.Secret) {
	require.Equal(t, "kept", string(secret.Data["other"]))
	require.Equal(t, map[string]string{"app": "operator"}, secret.Labels)
	require.Equal(t, map[string]string{"note": "kept"}, secret.Annotations)
}

// BD-7, RN-7: get and update on the named Secret, nothing else of it changed; a
// new pod starts from it.
func TestSecretStore(t *testing.T) {
	server, c := testserver.New(t), newCluster(t)
	set := settings(t, server, "")
	set.Shared = c.store()
	h := New(set)
	require.NoError(t, h.Load(t.Context()))
	_, err := h.Attempt(t.Context())
	require.NoError(t, err)
	_, err = h.Attempt(t.Context())
	require.NoError(t, err)

	secret := c.secret(t)
	requireOthersKept(t, secret)
	require.NotContains(t, secret.Data, certfile.FilePending)
	onDisk, err := certfile.Load(set.Directory)
	require.NoError(t, err)
	require.Equal(t, onDisk, generationOf(secret))
	for _, action := range c.Actions() {
		require.Contains(t, []string{"get", "update"}, action.GetVerb())
	}

	pod := set
	pod.Directory, pod.Token = filepath.Join(t.TempDir(), "new"), nil
	calls := len(server.Calls())
	other := New(pod)
	require.NoError(t, other.Load(t.Context()))
	require.Equal(t, h.Status().Serial, other.Status().Serial)
	require.Len(t, server.Calls(), calls)

	// The other pod renews; this one adopts instead of renewing again.
	_, err = other.Attempt(t.Context())
	require.NoError(t, err)
	result, err := h.Attempt(t.Context())
	require.NoError(t, err)
	require.Equal(t, OutcomeAdopted, result.Outcome)
	require.Equal(t, other.Status().Serial, h.Status().Serial)

	// A follower takes what the others stored, without a server.
	follower := New(Settings{Directory: filepath.Join(t.TempDir(), "f"), Shared: c.store(), Now: set.Now, Random: set.Random})
	require.NoError(t, follower.Load(t.Context()))
	changed, err := follower.Refresh(t.Context())
	require.NoError(t, err)
	require.False(t, changed)
	_, err = h.Attempt(t.Context())
	require.NoError(t, err)
	changed, err = follower.Refresh(t.Context())
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, h.Status().Serial, follower.Status().Serial)
}

// trap-3, trap-4: pods that start together make one enrolment and one entry, and
// later one renewal.
func TestPodsStartTogether(t *testing.T) {
	server, c := testserver.New(t), newCluster(t)
	set := settings(t, server, "")
	pods := make([]*Holder, 8)
	for i := range pods {
		own := set
		own.Directory, own.Shared = filepath.Join(t.TempDir(), "pod"), c.store()
		pods[i] = New(own)
		require.NoError(t, pods[i].Load(t.Context()))
	}
	for round := 1; round <= 3; round++ {
		var wg sync.WaitGroup
		for _, pod := range pods {
			wg.Go(func() {
				for range 5 { // conflicts are retried by the caller as well
					if _, err := pod.Attempt(t.Context()); err == nil {
						return
					}
				}
				t.Error("a pod never got its certificate")
			})
		}
		wg.Wait()
		require.Len(t, server.Entries(), round)
		for _, pod := range pods {
			require.Equal(t, pods[0].Status().Serial, pod.Status().Serial)
		}
	}
	requireOthersKept(t, c.secret(t))
}

// Contract, section 5: the key is in the Secret by a conditional update, through any
// API server; left alone, client-go writes protobuf.
func TestSecretStoreSpeaksJSON(t *testing.T) {
	stored := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: "tls", Namespace: "ns", ResourceVersion: "1"},
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/api/v1/namespaces/ns/secrets/tls", r.URL.Path)
		if r.Method == http.MethodPut {
			assert.NoError(t, json.NewDecoder(r.Body).Decode(stored))
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(stored)
	}))
	defer api.Close()
	store, err := secretStoreAt(&rest.Config{Host: api.URL}, "ns", "tls")
	require.NoError(t, err)
	_, pending, err := store.Begin(t.Context(), func(*certfile.Generation) bool { return false })
	require.NoError(t, err)
	require.Equal(t, pending, stored.Data[certfile.FilePending])
}

// case-19: another writer changes the Secret between our read and our write.
func TestSecretConflicts(t *testing.T) {
	server, c := testserver.New(t), newCluster(t)
	set := settings(t, server, "c1")
	set.Shared = c.store()
	winner := server.CA.Sender(t, controlapi.KindCluster, "c1")
	var updates atomic.Int32
	c.PrependReactor("update", "secrets", func(k8stesting.Action) (bool, runtime.Object, error) {
		if updates.Add(1) != 2 {
			return false, nil, nil
		}
		// Somebody stores a pair while we were asking for ours.
		resource := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
		stored, err := c.Tracker().Get(resource, "continuum-system", secretName)
		require.NoError(t, err)
		secret := stored.(*corev1.Secret).DeepCopy()
		secret.Data["tls.crt"], secret.Data["tls.key"], secret.Data["ca.crt"] = winner.CertPEM, winner.KeyPEM, server.CA.PEM
		require.NoError(t, c.Tracker().Update(resource, secret, "continuum-system"))
		return true, nil, errConflict
	})
	h := New(set)
	result, err := h.Attempt(t.Context())
	require.NoError(t, err)
	require.Equal(t, OutcomeAdopted, result.Outcome)
	require.Equal(t, serialOf(winner.Cert), h.Status().Serial)

	c.PrependReactor("update", "secrets", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, errConflict
	})
	h.set.Shared = c.store()
	_, err = h.Attempt(t.Context())
	requireFailure(t, err, OutcomeWriteFailed, ReasonSecretConflict)
	require.Equal(t, serialOf(winner.Cert), h.Status().Serial)
}

func TestSecretTrouble(t *testing.T) {
	server, c := testserver.New(t), newCluster(t)
	set := settings(t, server, "c1")
	set.Shared = NewSecretStore(c.CoreV1().Secrets("continuum-system"), "not-there")
	h := New(set)
	require.ErrorContains(t, h.Load(t.Context()), "reading the Secret")
	_, err := h.Attempt(t.Context())
	requireFailure(t, err, OutcomeWriteFailed, ReasonWriteFailed)
	require.Empty(t, server.Calls(), "no key, no request")

	// Rubbish in the Secret is no certificate; a pair of somebody else is not adopted.
	store := c.store()
	require.NoError(t, store.Drop(t.Context(), []byte("nothing")))
	set.Shared = store
	h = New(set)
	_, err = h.Attempt(t.Context())
	require.NoError(t, err)
	other := testpki.NewCA(t, "op-abc").Sender(t, controlapi.KindCluster, "c2")
	require.False(t, h.acceptable(certfile.New(other.CertPEM, other.KeyPEM, server.CA.PEM)))
	require.False(t, h.acceptable(certfile.New([]byte("x"), nil, nil)))
	_, err = OpenSecretStore("a", "b")
	require.Error(t, err)
}
