// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/ikhnos/continuum/control/install"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
)

func stableName(operatorID string) string { return identity.StableName(operatorID) }

// operatorAddress is what senders dial: the recorded address or, until there is
// one, the name of the Service inside the operator's own cluster.
func operatorAddress(o *operators.Operator) string { return install.Address(o) }

// enrollmentRole says whose certificate a token is for.
func enrollmentRole(sender string) controlapi.Role {
	if sender == "" {
		return controlapi.RoleReceiver
	}
	return controlapi.RoleSender
}
