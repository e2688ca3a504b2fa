// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package identity

// Attribute keys that say where a record came from. They stand on resources
// alone and are written by continuumidentity alone.
const (
	KeyOrgID        = "continuum.org.id"
	KeyClusterID    = "continuum.cluster.id"
	KeyIntentID     = "continuum.intent.id"
	KeyOperatorID   = "continuum.operator.id"
	KeyOperatorName = "continuum.operator.name"
)

// NormalForm folds every spelling that some store would take for the same key:
// ASCII letters in lower case, every run of other bytes than letters and digits
// one underscore, none at the ends.
func NormalForm(key string) string {
	out := make([]byte, 0, len(key))
	gap := false
	for i := 0; i < len(key); i++ {
		c := key[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if ('a' > c || c > 'z') && ('0' > c || c > '9') {
			gap = len(out) > 0
			continue
		}
		if gap {
			out = append(out, '_')
			gap = false
		}
		out = append(out, c)
	}
	return string(out)
}
