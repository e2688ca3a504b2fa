// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/ikhnos/continuum/internal/testpki"
)

// case-43: extensions start in any order. The certificate that another one
// fetches while the collector starts is there for the very first call.
func TestCertificateOfAnotherExtension(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	s := newFakeServer(t, ca)
	s.publish(signPolicy(t, ca, policyOf(1, 1, "c1")))
	cfg := policyConfig(t, ca, s)
	proof := cfg.Policy.Get().Proof
	for _, file := range []string{proof.CertFile, proof.KeyFile, proof.CAFile} {
		require.NoError(t, os.Remove(file))
	}
	r := newRig(t, ca, cfg, options{noStart: true, started: func() {
		ca.Receiver(t).WriteDir(t, filepath.Dir(proof.CertFile), ca)
	}})
	r.inForce(1, 1)
	assert.Empty(t, r.logs.FilterLevelExact(zap.WarnLevel).All())
}
