// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Memory is the resident memory of the process, now and at its highest, in bytes.
// It reads /proc, as CPU and OpenFiles do.
func (p *Process) Memory() (now, peak int64, err error) {
	text, err := os.ReadFile(p.proc("status"))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.ParseInt(fields[1], 10, 64)
		switch fields[0] {
		case "VmRSS:":
			now = kib << 10
		case "VmHWM:":
			peak = kib << 10
		}
	}
	return now, peak, nil
}

// CPU is the processor time that the process has used, 0 where that cannot be
// read.
func (p *Process) CPU() time.Duration {
	text, _ := os.ReadFile(p.proc("stat"))
	_, rest, _ := strings.Cut(string(text), ") ") // behind the name
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * (time.Second / 100) // Linux counts in USER_HZ, 100 everywhere
}

// OpenFiles is how many descriptors the process has open, sockets included.
func (p *Process) OpenFiles() (int, error) {
	all, err := os.ReadDir(p.proc("fd"))
	return len(all), err
}

func (p *Process) proc(file string) string { return fmt.Sprintf("/proc/%d/%s", p.PID(), file) }
