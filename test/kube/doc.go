// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package kube starts a real Kubernetes API server and its store on loopback, for
// tests of what we ask of one: [Start]. It has RBAC, ServiceAccount tokens and an
// audit log, and no nodes or controllers, so pods are stored and never run.
//
// The two programs are built by scripts/tool, which scripts/test calls first.
package kube
