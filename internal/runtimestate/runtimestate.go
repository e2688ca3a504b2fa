// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package runtimestate

import (
	"maps"
	"slices"
	"sync"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// collector is what the components of one collector published.
type collector struct {
	certificates map[string][]controlapi.HeartbeatCertificate // by owner
	policy       *controlapi.Version
}

var (
	mu         sync.Mutex
	collectors = map[string]*collector{} // by service.instance.id, guarded by mu
)

// SetCertificates replaces the certificates that owner, a component id, holds in
// the collector instance.
func SetCertificates(instance, owner string, certs []controlapi.HeartbeatCertificate) {
	mu.Lock()
	defer mu.Unlock()
	at(instance).certificates[owner] = slices.Clone(certs)
}

// SetPolicy replaces the version of the policy in force in the collector
// instance; nil when there is none any more.
func SetPolicy(instance string, v *controlapi.Version) {
	mu.Lock()
	defer mu.Unlock()
	c := at(instance)
	c.policy = nil
	if v != nil {
		version := *v
		c.policy = &version
	}
	forgetEmpty(instance)
}

// Snapshot returns copies of what is known: certificates in the order of their
// owners, empty and never nil when there are none, and the policy or nil.
func Snapshot(instance string) (certs []controlapi.HeartbeatCertificate, policy *controlapi.Version) {
	mu.Lock()
	defer mu.Unlock()
	certs = []controlapi.HeartbeatCertificate{}
	c := collectors[instance]
	if c == nil {
		return certs, nil
	}
	for _, owner := range slices.Sorted(maps.Keys(c.certificates)) {
		certs = append(certs, c.certificates[owner]...)
	}
	if c.policy != nil {
		version := *c.policy
		policy = &version
	}
	return certs, policy
}

// Drop forgets what owner published; an owner calls it in Shutdown.
func Drop(instance, owner string) {
	mu.Lock()
	defer mu.Unlock()
	if c := collectors[instance]; c != nil {
		delete(c.certificates, owner)
		forgetEmpty(instance)
	}
}

// at returns the collector, made when it is new. The caller holds mu.
func at(instance string) *collector {
	c := collectors[instance]
	if c == nil {
		c = &collector{certificates: map[string][]controlapi.HeartbeatCertificate{}}
		collectors[instance] = c
	}
	return c
}

// forgetEmpty removes a collector of which nothing is left. The caller holds mu.
func forgetEmpty(instance string) {
	if c := collectors[instance]; len(c.certificates) == 0 && c.policy == nil {
		delete(collectors, instance)
	}
}
