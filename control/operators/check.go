// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

// The rules on a request that need no store, for those who want to know before
// they ask: a declared fleet is checked as a whole before its first change.

// Normal returns the cluster as the server would keep it, with all defaults, or a
// validation_failed that names every field at fault.
func (r ClusterRequest) Normal() (Cluster, error) { return r.cluster() }

// Normal returns the operator as the server would keep it, with all defaults, or a
// validation_failed that names every field at fault.
func (r OperatorRequest) Normal() (Operator, error) { return r.operator(false) }

// DialAddress returns host[:port] as the server would keep it, host:port, or what
// is wrong with it as an address that another cluster dials.
func DialAddress(text string) (string, error) { return dialAddress(text) }
