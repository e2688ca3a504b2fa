// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"weak"

	"go.opentelemetry.io/collector/client"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
)

// otherSender stands in metrics for requests without an authenticated sender.
const otherSender = "_other"

// senders finds the rules of the sender of a request. It reads what an
// authenticator says and nothing that a sender can write.
type senders struct {
	attributes Attributes
	known      ruleCache
}

// rules returns nil when the context has no sender.
func (s *senders) rules(ctx context.Context) *rules {
	auth := client.FromContext(ctx).Auth
	if auth == nil {
		return nil
	}
	if data, ok := auth.(*identity.AuthData); ok && s.attributes == certnameauthAttributes {
		if data == nil || data.Sender == nil {
			return nil
		}
		return s.known.get(data.Sender)
	}
	return newRules(s.foreign(auth))
}

// name returns what to call the sender of a request in metrics.
func (s *senders) name(ctx context.Context) string {
	if auth := client.FromContext(ctx).Auth; auth != nil {
		if data, ok := auth.(*identity.AuthData); ok && (data == nil || data.Sender == nil) {
			return otherSender
		}
		if name := text(auth, s.attributes.Name); name != "" {
			return name
		}
	}
	return otherSender
}

// foreign makes a sender of what any other authenticator says.
func (s *senders) foreign(auth client.AuthData) *identity.Sender {
	sender := &identity.Sender{
		Name:         text(auth, s.attributes.Name),
		Kind:         controlapi.Kind(text(auth, s.attributes.Kind)),
		OrgID:        text(auth, s.attributes.OrgID),
		ClusterID:    text(auth, s.attributes.ClusterID),
		OperatorID:   text(auth, s.attributes.OperatorID),
		OperatorName: text(auth, s.attributes.OperatorName),
		Labels:       map[string]string{},
	}
	if sender.Name == "" {
		sender.Name = otherSender
	}
	if sender.Kind == "" {
		sender.Kind = controlapi.KindCluster
		if sender.OperatorID != "" {
			sender.Kind = controlapi.KindOperator
		}
	}
	if s.attributes.LabelPrefix == "" {
		return sender
	}
	for _, name := range auth.GetAttributeNames() {
		if label, ok := strings.CutPrefix(name, s.attributes.LabelPrefix); ok {
			sender.Labels[label] = text(auth, name)
		}
	}
	return sender
}

// text returns an attribute that is one string, else an empty string.
func text(auth client.AuthData, name string) string {
	if name == "" {
		return ""
	}
	value, _ := auth.GetAttribute(name).(string)
	return value
}

// ruleCache keeps the rules of each sender for as long as the sender lives: until
// the policy that it is part of is replaced and the last request of it is gone.
type ruleCache struct {
	mu    sync.RWMutex
	rules map[weak.Pointer[identity.Sender]]*rules // guarded by mu
}

func (c *ruleCache) get(s *identity.Sender) *rules {
	key := weak.Make(s)
	c.mu.RLock()
	r, ok := c.rules[key]
	c.mu.RUnlock()
	if ok {
		return r
	}
	r = newRules(s)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rules == nil {
		c.rules = make(map[weak.Pointer[identity.Sender]]*rules)
	}
	if _, ok := c.rules[key]; !ok {
		c.rules[key] = r
		runtime.AddCleanup(s, c.drop, key)
	}
	return r
}

func (c *ruleCache) drop(key weak.Pointer[identity.Sender]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.rules, key)
}
