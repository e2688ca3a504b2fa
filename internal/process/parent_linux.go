// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os/exec"
	"syscall"
)

// endWithParent lets the kernel end the child when this process is killed, so
// that nothing is left behind. It has a process group of its own, so that Ctrl-C
// reaches it through Stop alone, in order.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
