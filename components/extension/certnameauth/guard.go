// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"context"

	"go.opentelemetry.io/collector/extension/extensioncapabilities"

	"github.com/ikhnos/continuum/internal/identityguard"
)

// NotifyConfigSnapshot runs the guard over the whole configuration, after all
// extensions started and before any receiver. It is what guards a build without
// our converter. An error ends the start. Then the policy is followed: whatever
// extension keeps the certificate has it by now.
func (e *certNameAuth) NotifyConfigSnapshot(_ context.Context, snapshot extensioncapabilities.ConfigSnapshot) error {
	if conf := snapshot.Effective(); conf != nil {
		if err := identityguard.Enforce(conf.ToStringMap(), identityguard.FromCollector, e.set.Logger); err != nil {
			return err
		}
	}
	e.follow()
	return nil
}
