// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package load

import (
	"context"
	"syscall"
	"time"

	"github.com/ikhnos/continuum/internal/process"
)

// startTimeout bounds a wait, such as for the start of a server.
const startTimeout = time.Minute

// await calls ready until it returns nil, the process ends, or a minute is over.
func await(ctx context.Context, p *process.Process, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return process.Poll(ctx, p.Name, []*process.Process{p}, ready)
}

// ownCPU is the processor time that the generator itself has used.
func ownCPU() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // fails only for another who
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// mib is a number of bytes in MiB, for printing.
func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
