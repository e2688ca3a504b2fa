// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"sync"
	"time"

	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/policystate"
	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/senders"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// keeper holds what a List is compiled from and puts a new one in force whenever
// a part of it changes. What has to survive a restart is durable before it is in
// force.
type keeper struct {
	gate     *gate
	now      func() time.Time
	registry senders.Registry
	match    senders.Match
	static   []controlapi.PolicySender // of a list in the configuration
	file     policystate.File
	health   *health
	applied  func(controlapi.Version) // called after another version came into force

	mu        sync.Mutex
	state     *policystate.State // guarded by mu; nil without a policy
	inFile    bool               // guarded by mu: the file is exactly what Save wrote
	crl       *senders.CRL       // guarded by mu
	appliedAt time.Time          // guarded by mu
}

// snapshot is what reports and metrics tell of the policy in force.
type snapshot struct {
	state     *policystate.State
	appliedAt time.Time
	crl       *senders.CRL
}

func (k *keeper) snapshot() snapshot {
	k.mu.Lock()
	defer k.mu.Unlock()
	return snapshot{k.state, k.appliedAt, k.crl}
}

// restore puts the policy of the cache file in force.
func (k *keeper) restore(v policystate.Verifier) error {
	state, err := k.file.Load(v)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.enforce(state)
	return nil
}

// offer takes a verified policy from the server. changed is false when it is the
// one in force already.
func (k *keeper) offer(jws string, p *controlapi.Policy) (changed bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	next, changed, err := k.state.Next(jws, p, k.now())
	if err != nil {
		return false, err
	}
	if !changed {
		k.touch(next)
		return false, nil
	}
	if cut := k.gate.list.Load().Cut(); len(cut) > 0 {
		next = next.Denying(cut, k.now())
	}
	if err := k.save(next); err != nil {
		return false, err
	}
	k.enforce(next)
	return true, nil
}

// confirm notes that the server has no newer policy.
func (k *keeper) confirm() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state != nil {
		k.touch(k.state.Touched(k.now()))
	}
}

// rememberCut makes durable which replaced leaves are refused. They are refused
// already, by the list in force.
func (k *keeper) rememberCut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if cut := k.gate.list.Load().Cut(); k.state != nil && len(cut) > 0 {
		if next := k.state.Denying(cut, k.now()); k.save(next) == nil {
			k.state = next
		}
	}
}

// setCRL puts another revocation list in force.
func (k *keeper) setCRL(crl *senders.CRL) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.crl = crl
	k.compile()
}

// touch notes a contact. That it may not reach the disk is shown and harmless:
// the policy looks older after a restart. The caller holds mu.
func (k *keeper) touch(next *policystate.State) {
	k.state = next
	k.contacted(next.Contact)
	if !k.inFile {
		_ = k.save(next) // health shows it
		return
	}
	k.health.set(faultCache, k.file.Touch(next))
}

// contacted tells the gate how old the policy is; without any contact, as old as
// can be.
func (k *keeper) contacted(at time.Time) {
	if at.IsZero() {
		at = time.Unix(0, 0)
	}
	k.gate.contact.Store(at.UnixNano())
}

// save writes the whole file. The caller holds mu.
func (k *keeper) save(next *policystate.State) error {
	err := k.file.Save(next)
	k.inFile = err == nil
	k.health.set(faultCache, err)
	return err
}

// enforce puts a durable state in force. The caller holds mu.
func (k *keeper) enforce(next *policystate.State) {
	k.state, k.appliedAt = next, k.now()
	k.contacted(next.Contact)
	k.registry.NewNumber()
	k.compile()
	k.applied(next.Policy.Version)
}

// compile puts a list of what is known now in force. The caller holds mu.
func (k *keeper) compile() {
	src := senders.Source{Match: k.match, CRL: k.crl, StatsOf: k.registry.Of}
	switch {
	case k.static != nil:
		src.Loaded, src.Senders = true, k.static
	case k.state != nil:
		p := k.state.Policy
		src.Loaded, src.DenyAll = true, p.Mode == controlapi.PolicyDenyAll
		src.Version, src.IssuedAt = p.Version, p.IssuedAt
		src.Senders, src.Revoked, src.Denied = k.state.Senders(), p.RevokedSerials, k.state.DeniedSerials()
	}
	if old := k.gate.list.Load(); old != nil {
		src.Denied = append(src.Denied, old.Cut()...)
	}
	k.gate.list.Store(senders.Compile(src))
}
