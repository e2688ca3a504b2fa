// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// stopGrace is how long a process may take to stop before it is killed: the
// collector drains for at most 15 s when its next hop refuses.
const stopGrace = 20 * time.Second

// Process is one child with its log in a file of its own.
type Process struct {
	Name string
	Log  string // path

	cmd   *exec.Cmd
	began int64         // size of the log at the start
	done  chan struct{} // closed when it has ended
	err   error         // how it ended; read after done
}

// Start starts a program whose output is appended to dir/NAME.log; env is added to
// this process's own environment. The child ends with this process (on Linux even
// when that is killed), and by Stop or Kill.
func Start(dir, name string, env []string, program string, args ...string) (*Process, error) {
	path := filepath.Join(dir, name+".log")
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", name, err)
	}
	defer func() { _ = out.Close() }() // the child has its own descriptor
	p := &Process{Name: name, Log: path, done: make(chan struct{})}
	if info, err := out.Stat(); err == nil {
		p.began = info.Size()
	}
	p.cmd = exec.Command(program, args...) //nolint:gosec // G204: to run what the caller names is the purpose
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	endWithParent(p.cmd)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Stop asks the process to end and waits until it has; one that does not end in
// 20 s is killed. It may be called again.
func (p *Process) Stop() {
	_ = p.Signal(os.Interrupt) // fails only when it has ended
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.Kill()
	}
}

// Kill ends the process at once, as a crash would, and waits until it has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Signal sends a signal; it fails when the process has ended.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// PID is the process's id, also after its end.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the process ended, nil for exit status 0 and while it runs.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Output is what the process has written since its start, without what an earlier
// one left in the same log.
func (p *Process) Output() (string, error) {
	text, err := os.ReadFile(p.Log)
	if err != nil {
		return "", err
	}
	return string(text[min(p.began, int64(len(text))):]), nil
}

// Ended is nil while the process runs; then it says how it ended, with the end of
// its log.
func (p *Process) Ended() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	how := p.err
	if how == nil {
		how = errors.New("exit status 0")
	}
	return fmt.Errorf("%s ended (%w); the end of %s:\n%s", p.Name, how, p.Log, p.Tail(5))
}

// Tail is the last lines of the log, as far as it can be read.
func (p *Process) Tail(lines int) string {
	text, err := p.Output()
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
