// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ikhnos/continuum/internal/process"
)

// syncCost is how long the disk under dir takes to make one page durable.
func syncCost(dir string) (time.Duration, error) {
	f, err := os.CreateTemp(dir, "sync")
	if err != nil {
		return 0, err
	}
	defer func() { _, _ = f.Close(), os.Remove(f.Name()) }()
	const n = 200
	page := make([]byte, 4096)
	began := time.Now()
	for i := range n {
		if _, err := f.WriteAt(page, int64(i)*4096); err != nil {
			return 0, err
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return 0, err
		}
	}
	return time.Since(began) / n, nil
}

// errUntraced says that calls could not be counted.
var errUntraced = errors.New("strace does not run here")

// countSyncs counts the calls of fsync and fdatasync that a process makes while
// during runs, by strace. It slows the process down, so nothing is timed then.
func countSyncs(ctx context.Context, p *process.Process, dir string, during func() error) (int, error) {
	out := filepath.Join(dir, "strace.out")
	pid := strconv.Itoa(p.PID())
	tracer, err := process.Start(dir, "strace", nil, "strace", "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", out, "-p", pid)
	if err != nil {
		return 0, errors.Join(errUntraced, err)
	}
	if err := await(ctx, tracer, func(context.Context) error { return traced(pid, tracer.PID()) }); err != nil {
		return 0, errors.Join(errUntraced, err)
	}
	err = during()
	tracer.Stop() // the process goes on
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(out)
	if err != nil {
		return 0, fmt.Errorf("reading what strace wrote: %w", err)
	}
	// A call that another thread interrupts is resumed on a line without "sync(".
	return bytes.Count(text, []byte("sync(")), nil
}

// traced says whether every thread of a process has the tracer.
func traced(pid string, tracer int) error {
	tasks, err := filepath.Glob("/proc/" + pid + "/task/*/status")
	if err != nil || len(tasks) == 0 {
		return errors.Join(err, errors.New("no threads"))
	}
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue // ended meanwhile
		}
		if !strings.Contains(string(text), "TracerPid:\t"+strconv.Itoa(tracer)+"\n") {
			return errors.New("strace has not attached yet")
		}
	}
	return nil
}
