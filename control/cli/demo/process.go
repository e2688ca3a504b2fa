// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
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
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended; read after done
}

// startProcess starts a program whose output goes to dir/NAME.log. It ends with
// this process, and by Stop.
func startProcess(dir, name string, env []string, program string, args ...string) (*Process, error) {
	path := filepath.Join(dir, name+".log")
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", name, err)
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = out, out
	endWithParent(cmd)
	err = cmd.Start()
	_ = out.Close() // the child has its own descriptor
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p := &Process{Name: name, Log: path, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Stop asks the process to end and waits until it has; one that does not end in
// time is killed.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(os.Interrupt) // fails only when it has ended
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.Kill()
	}
}

// Kill ends the process at once, as a crash would.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// failure says that the process ended by itself, with the end of its log.
func (p *Process) failure() error {
	tail := ""
	if text, err := os.ReadFile(p.Log); err == nil {
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		tail = strings.Join(lines[max(0, len(lines)-5):], "\n")
	}
	return fmt.Errorf("%s ended (%w); the end of %s:\n%s", p.Name, errOr(p.err), p.Log, tail)
}

func errOr(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// poll calls ready until it returns nil, a process ends, or ctx does. It is for
// conditions of other processes that nothing announces.
func poll(ctx context.Context, what string, procs []*Process, ready func(context.Context) error) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		for _, p := range procs {
			select {
			case <-p.done:
				return p.failure()
			default:
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (last: %w)", what, context.Cause(ctx), err)
		}
	}
}

// freePort returns a loopback port that is free now: the usual one if it is.
func freePort(usual int) (int, error) {
	for _, port := range []int{usual, 0} {
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", fmt.Sprint(port)))
		if err != nil {
			continue
		}
		got := listener.Addr().(*net.TCPAddr).Port
		return got, listener.Close()
	}
	return 0, errors.New("no free port on 127.0.0.1")
}
