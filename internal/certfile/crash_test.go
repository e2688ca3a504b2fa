// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certfile_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"io/fs"
	"net/http"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ikhnos/continuum/internal/certfile"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
	"github.com/ikhnos/continuum/internal/holder"
	"github.com/ikhnos/continuum/internal/testpki/testserver"
)

// site is a holder of one certificate with all that it writes to and asks.
type site struct {
	t      *testing.T
	dir    string
	server *testserver.Server
	token  string
	secret *secret // nil: the directory is the store
	later  time.Duration
}

func (s *site) now() time.Time { return time.Now().Add(s.later) }

// keep does what a holder does from its start on, once: it loads, and asks when a
// certificate is missing or due. Every step of it counts on f.
func (s *site) keep(f *certfile.Failing) (*holder.Holder, error) {
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		if err := f.Step(); err != nil {
			return nil, err // before the server had the request
		}
		answer, err := s.server.RoundTrip(r)
		if cut := f.Step(); cut != nil {
			return nil, errors.Join(cut, answer.Body.Close()) // the answer is lost
		}
		return answer, err
	})
	client, err := controlclient.New(&http.Client{Transport: transport}, "https://ikhnos.example.com", s.now)
	require.NoError(s.t, err)
	set := holder.Settings{
		Directory: s.dir, Server: client, Now: s.now, Random: func() float64 { return 0 },
		Token: func() (string, error) { return s.token, nil },
	}
	if s.secret != nil {
		set.Shared = holder.NewSecretStore(counted{s.secret, f}, "tls")
	}
	h := holder.New(set)
	f.Use(func() {
		if err = h.Load(s.t.Context()); err == nil && h.UntilDue() <= 0 {
			_, err = h.Attempt(s.t.Context())
		}
	})
	return h, err
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// secret is a Secret that knows conflicts.
type secret struct {
	stored  *corev1.Secret
	version int
}

// counted is the reach of a holder to it.
type counted struct {
	*secret
	f *certfile.Failing
}

func (c counted) Get(context.Context, string, metav1.GetOptions) (*corev1.Secret, error) {
	if err := c.f.Step(); err != nil {
		return nil, err
	}
	return c.stored.DeepCopy(), nil
}

func (c counted) Update(_ context.Context, next *corev1.Secret, _ metav1.UpdateOptions) (*corev1.Secret, error) {
	if err := c.f.Step(); err != nil {
		return nil, err // before the API server had it
	}
	if next.ResourceVersion != c.stored.ResourceVersion {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, next.Name, nil)
	}
	c.version++
	c.stored = next.DeepCopy()
	c.stored.ResourceVersion = strconv.Itoa(c.version)
	return c.stored.DeepCopy(), c.f.Step() // or the answer is lost
}

// unlimited is a disk whose power stays.
func unlimited() *certfile.Failing { return certfile.NewFailing(1 << 30) }

// trap-3, trap-9: a kill or a power cut after each single step of an enrolment and
// of a renewal: every write, sync, rename and link in the directory, every call of
// the API server and of the control server, before it had the request and after it
// had done its part. Programs never read parts of two pairs, and the next start
// ends with a whole pair: the token is not burned, and each key has one entry.
func TestCrashAfterEachStep(t *testing.T) {
	certfile.WithoutSync(t)
	for name, tc := range map[string]struct {
		renewal, secret bool
		elsewhere       bool // the next start finds an empty directory, as a new pod does
	}{
		"enrolment":                         {},
		"enrolment, Secret":                 {secret: true},
		"enrolment, Secret, then a new pod": {secret: true, elsewhere: true},
		"renewal":                           {renewal: true},
		"renewal, Secret":                   {renewal: true, secret: true},
		"renewal, Secret, then a new pod":   {renewal: true, secret: true, elsewhere: true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, loss := range certfile.Losses {
				steps := 0
				for crashed := true; crashed; steps++ {
					s := &site{t: t, dir: filepath.Join(t.TempDir(), "certs"), server: testserver.NewOffline(t)}
					s.server.SetClock(s.now)
					s.token = s.server.Token("c1")
					if tc.secret {
						s.secret = &secret{stored: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tls"}}}
					}
					if tc.renewal {
						_, err := s.keep(unlimited())
						require.NoError(t, err)
						s.later = 11 * 24 * time.Hour
					}
					f := certfile.NewFailing(steps)
					_, err := s.keep(f)
					f.Lose(t, loss)
					if crashed = f.Cut(); !crashed {
						require.NoError(t, err)
					}
					s.requireWhole(tc.renewal)
					if tc.elsewhere {
						s.dir = filepath.Join(t.TempDir(), "certs")
					}
					s.requireRecovery(tc.renewal, steps)
				}
				require.Greater(t, steps, 20, "steps until it was done")
			}
		})
	}
}

// requireWhole: what programs read is one pair; before the first there may be none.
func (s *site) requireWhole(present bool) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(s.dir, certfile.FileCertificate), filepath.Join(s.dir, certfile.FileKey))
	if !present && errors.Is(err, fs.ErrNotExist) {
		return
	}
	require.NoError(s.t, err)
	require.True(s.t, s.now().Before(pair.Leaf.NotAfter))
}

// requireRecovery: the next start ends with a whole pair, one entry for the token
// and one more for a renewal.
func (s *site) requireRecovery(renewal bool, steps int) {
	h, err := s.keep(unlimited())
	require.NoError(s.t, err, "after %d steps", steps)
	require.Equal(s.t, controlapi.CertificateUsable, h.Status().State)
	s.requireWhole(true)
	entries, want := s.server.Entries(), 1
	if renewal {
		want = 2
	}
	require.Len(s.t, entries, want, "after %d steps", steps)
	keys := map[[32]byte]bool{}
	for _, entry := range entries {
		keys[sha256.Sum256(entry.Leaf.RawSubjectPublicKeyInfo)] = true
	}
	require.Len(s.t, keys, want, "one entry for each key")

	g, err := certfile.Load(s.dir)
	require.NoError(s.t, err)
	leaf, err := g.Leaf()
	require.NoError(s.t, err)
	require.True(s.t, leaf.Equal(entries[want-1].Leaf), "after %d steps", steps)
	pending, err := certfile.Pending(s.dir)
	require.NoError(s.t, err)
	if s.secret != nil {
		require.Nil(s.t, pending)
		require.Equal(s.t, g.Certificate, s.secret.stored.Data[certfile.FileCertificate])
		require.Equal(s.t, g.Key, s.secret.stored.Data[certfile.FileKey])
		require.NotContains(s.t, s.secret.stored.Data, certfile.FilePending)
	} else if pending != nil {
		require.Equal(s.t, g.Key, pending, "a key that stayed is the one in use")
	}
}
