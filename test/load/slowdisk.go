// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package load

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"github.com/ikhnos/continuum/internal/process"
)

// disk is by how much the disk under a server confirms later than this machine's.
type disk time.Duration

const onThisDisk disk = 0

// start starts a server on the disk. A slower one is played by strace, which holds
// back the answers of fsync and fdatasync; every other system call runs at its own
// speed, and the process is the server itself.
func (d disk) start(dir, name, program string, args ...string) (*process.Process, error) {
	if d == onThisDisk {
		return process.Start(dir, name, nil, program, args...)
	}
	late := strconv.FormatInt(time.Duration(d).Microseconds(), 10)
	return process.Start(dir, name, nil, "strace", append([]string{
		"-D", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null",
		"-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:delay_exit=" + late, program,
	}, args...)...)
}

// slowDiskPart compares the two servers once more on a disk that takes o.Late
// longer to confirm, as disks that are reached over a network do.
func slowDiskPart(ctx context.Context, o Options) error {
	// Where nothing may be traced strace fails at once.
	if text, err := exec.CommandContext(ctx, "strace", "-D", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "true").CombinedOutput(); err != nil {
		o.printf("\nA slow disk was not played: %v: %v %s\n", errUntraced, err, text)
		return nil
	}
	s, err := startServer(ctx, o, disk(o.Late))
	if err != nil {
		return err
	}
	defer s.Stop()
	o.printf("\nThe same on a disk that confirms %s later (both servers under strace)\n", o.Late)
	holders, err := s.senders(ctx, o, 2*o.Pairs*o.Slow)
	if err != nil {
		return err
	}
	var peer *stepCA
	if o.StepCA != "" {
		if peer, err = startStepCA(ctx, o, disk(o.Late)); err != nil {
			return fmt.Errorf("preparing step-ca: %w", err)
		}
		defer peer.Stop()
	}
	_, err = s.compareBoth(ctx, o, peer, holders, o.Slow, o.Slow)
	return err
}
