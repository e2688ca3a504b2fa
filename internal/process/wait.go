// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// pollInterval is the pause between two looks at what nothing announces.
const pollInterval = 50 * time.Millisecond

// Poll calls ready until it returns nil, one of the processes ends, or ctx does.
// It is for conditions of other processes that nothing announces; what names the
// condition in the error, which also holds ready's last one.
func Poll(ctx context.Context, what string, procs []*Process, ready func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		for _, p := range procs {
			if ended := p.Ended(); ended != nil {
				return ended
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (last: %w)", what, context.Cause(ctx), err)
		}
	}
}

// FreePort returns a loopback port that is free now: the usual one if it is.
func FreePort(usual int) (int, error) {
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
