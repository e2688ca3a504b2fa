// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package process

import "os/exec"

// endWithParent has no counterpart here: a parent that is killed leaves its
// children, one that is stopped does not.
func endWithParent(*exec.Cmd) {}
