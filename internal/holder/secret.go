// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ikhnos/continuum/internal/certfile"
)

const (
	secretAttempts = 5 // at writing, against other writers
	secretTimeout  = 10 * time.Second
)

// ErrSecretConflict says that other writers changed the Secret at every attempt.
var ErrSecretConflict = errors.New("the Secret changes faster than it can be written (secret_conflict)")

// SecretClient is the reach of the Role that a workload gets: get and update.
type SecretClient interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Secret, error)
	Update(ctx context.Context, secret *corev1.Secret, opts metav1.UpdateOptions) (*corev1.Secret, error)
}

// secretStore keeps a generation in one named Secret, which must exist. It
// touches its own keys alone; other keys, labels and annotations survive.
type secretStore struct {
	client SecretClient
	name   string
}

// NewSecretStore returns a store in the Secret of that name.
func NewSecretStore(client SecretClient, name string) Store {
	return &secretStore{client: client, name: name}
}

// OpenSecretStore returns a store in a Secret of the cluster that this pod runs in,
// with the account of the pod; where KUBECONFIG names a file, of the cluster and
// with the account that stand there.
func OpenSecretStore(namespace, name string) (Store, error) {
	config, err := clusterConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster of this pod (elsewhere KUBECONFIG names one): %w", err)
	}
	return secretStoreAt(config, namespace, name)
}

func clusterConfig() (*rest.Config, error) {
	if file := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); file != "" {
		return clientcmd.BuildConfigFromFlags("", file)
	}
	return rest.InClusterConfig()
}

// secretStoreAt speaks JSON, which every API server reads.
func secretStoreAt(config *rest.Config, namespace, name string) (Store, error) {
	config.Timeout = secretTimeout
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.WarningHandler = rest.NoWarnings{} // of a Secret that is still empty, to stderr
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a Kubernetes client: %w", err)
	}
	return NewSecretStore(client.CoreV1().Secrets(namespace), name), nil
}

func (s *secretStore) get(ctx context.Context) (*corev1.Secret, error) {
	secret, err := s.client.Get(ctx, s.name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the Secret: %w", err)
	}
	return secret, nil
}

// generationOf returns what a Secret holds, nil when it is no usable set.
func generationOf(secret *corev1.Secret) *certfile.Generation {
	g := certfile.New(secret.Data[certfile.FileCertificate], secret.Data[certfile.FileKey], secret.Data[certfile.FileCA])
	if g.Check() != nil {
		return nil
	}
	g.UnmarshalWindow(secret.Data[certfile.FileWindow])
	return g
}

func (s *secretStore) Load(ctx context.Context) (*certfile.Generation, error) {
	secret, err := s.get(ctx)
	if err != nil {
		return nil, err
	}
	return generationOf(secret), nil
}

func (s *secretStore) Begin(ctx context.Context, accept func(*certfile.Generation) bool) (newer *certfile.Generation, pending []byte, err error) {
	err = s.change(ctx, func(secret *corev1.Secret) (bool, error) {
		stored := generationOf(secret)
		if stored != nil && accept(stored) {
			newer = stored
			return false, nil
		}
		if pending = secret.Data[certfile.FilePending]; usablePending(pending, stored) {
			return false, nil
		}
		var err error
		if pending, err = newKey(); err != nil {
			return false, err
		}
		secret.Data[certfile.FilePending] = pending
		return true, nil
	})
	return newer, pending, err
}

func (s *secretStore) Save(ctx context.Context, g *certfile.Generation, accept func(*certfile.Generation) bool) (*certfile.Generation, error) {
	winner := g
	err := s.change(ctx, func(secret *corev1.Secret) (bool, error) {
		winner = g
		if stored := generationOf(secret); stored != nil && accept(stored) {
			winner = stored
			return false, nil
		}
		secret.Data[certfile.FileCertificate] = g.Certificate
		secret.Data[certfile.FileKey] = g.Key
		secret.Data[certfile.FileCA] = g.CA
		secret.Data[certfile.FileWindow] = g.MarshalWindow()
		if bytes.Equal(secret.Data[certfile.FilePending], g.Key) {
			delete(secret.Data, certfile.FilePending)
		}
		return true, nil
	})
	return winner, err
}

func (s *secretStore) Drop(ctx context.Context, pendingKey []byte) error {
	return s.change(ctx, func(secret *corev1.Secret) (bool, error) {
		if !bytes.Equal(secret.Data[certfile.FilePending], pendingKey) {
			return false, nil
		}
		delete(secret.Data, certfile.FilePending)
		return true, nil
	})
}

// change reads the Secret, lets decide edit it, and writes it on condition that
// nobody else did meanwhile; otherwise it reads and decides again.
func (s *secretStore) change(ctx context.Context, decide func(*corev1.Secret) (write bool, err error)) error {
	for range secretAttempts {
		secret, err := s.get(ctx)
		if err != nil {
			return err
		}
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		write, err := decide(secret)
		if err != nil || !write {
			return err
		}
		if _, err = s.client.Update(ctx, secret, metav1.UpdateOptions{}); err == nil {
			return nil
		}
		if !apierrors.IsConflict(err) {
			return fmt.Errorf("writing the Secret: %w", err)
		}
	}
	return ErrSecretConflict
}
