// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"net"
	"strings"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/identity"
)

const (
	namespace = "continuum-system"
	otlpPort  = "4317"
)

// Release is the name of what a chart makes from an operator's id (IN-15, CO-5).
func Release(o *operators.Operator) string {
	suffix := "-regional-operator"
	if o.Role == operators.RoleCentral {
		suffix = "-central"
	}
	return strings.TrimSuffix(o.ID, suffix) + suffix
}

// Address is what senders dial: the recorded address or, until there is one, the
// operator's Service inside its own cluster (AD-18 to AD-20).
func Address(o *operators.Operator) string {
	if o.Address != "" {
		return o.Address
	}
	return net.JoinHostPort(Release(o)+"."+namespace+".svc", otlpPort)
}

// StableName is what the certificate of a link's operator is verified by, whatever
// its address (AD-21).
func (l Link) StableName() string { return identity.StableName(l.OperatorID) }

// stateDir is where a collector keeps certificates and queue: a folder for each, so
// that one machine may run several.
func stateDir(id string) string { return "/var/lib/continuum/" + id }

// secretsDir is for secrets that are needed once: /run is emptied when the machine
// starts.
func secretsDir(id string) string { return "/run/secrets/continuum/" + id }

// lastingDir is for secrets that are read again and again.
func lastingDir(id string) string { return "/etc/continuum/" + id }

// name is the sender's name at its operator.
func (s Sender) name() string { return identity.SenderName(s.Link.OperatorID, s.HolderID) }

// dir is where a stock sender keeps its certificate for this operator.
func (s Sender) dir() string { return stateDir(s.HolderID) + "/" + s.Link.OperatorID }

// secretsDir is the folder of all of an operator's secrets, one that lasts when one
// of them has to.
func (o Operator) secretsDir() string {
	if o.Heartbeat.Value != "" {
		return lastingDir(o.Operator.ID)
	}
	return secretsDir(o.Operator.ID)
}

// named is a secret with its title and its names: that of its file, and of its
// Kubernetes Secret and the key in it.
type named struct {
	Secret
	title, file string
	object, key string
}

// secrets are those that the operator needs.
func (o Operator) secrets() []named {
	id := o.Operator.ID
	return withValue(
		named{o.Receiver, "the one-use token of its receiver", "receiver-token", id + "-receiver-token", "token"},
		named{o.Export, "the one-use token towards its destination", "export-token", id + "-export-token", "token"},
		named{o.Heartbeat, "the heartbeat secret, read at every beat", "heartbeat", id + "-heartbeat", "secret"},
	)
}

// secrets is the sender's token, if it needs one.
func (s Sender) secrets() []named {
	return withValue(named{s.Token, "the one-use token", "export-token", s.name() + "-token", "token"})
}

func withValue(all ...named) []named {
	var kept []named
	for _, secret := range all {
		if secret.Value != "" {
			kept = append(kept, secret)
		}
	}
	return kept
}
