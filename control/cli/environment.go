// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// environment is what a command knows of the machine it runs on. It travels in
// the command's context, so that tests bring their own.
type environment struct {
	vars      map[string]string
	configDir string // os.UserConfigDir, "" where there is none
	now       func() time.Time
	// inTerminal and errTerminal say that a person types into standard input and
	// reads standard error.
	inTerminal, errTerminal bool
	readSecret              func() (string, error) // from the terminal, unseen
	poll                    time.Duration          // instead of a command's own, for tests
}

// pollEvery is how often a command that waits looks again.
func (e *environment) pollEvery(own time.Duration) time.Duration {
	if e.poll > 0 {
		return e.poll
	}
	return own
}

// newEnvironment describes the machine of the running process.
func newEnvironment(environ []string, stdin io.Reader, stderr io.Writer) *environment {
	e := &environment{vars: map[string]string{}, now: time.Now}
	for _, pair := range environ {
		if name, value, ok := strings.Cut(pair, "="); ok {
			e.vars[name] = value
		}
	}
	e.configDir, _ = os.UserConfigDir()
	if file, ok := stdin.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		e.inTerminal = true
		e.readSecret = func() (string, error) {
			secret, err := term.ReadPassword(int(file.Fd()))
			return string(secret), err
		}
	}
	if file, ok := stderr.(*os.File); ok {
		e.errTerminal = term.IsTerminal(int(file.Fd()))
	}
	return e
}

type environmentKey struct{}

func withEnvironment(ctx context.Context, e *environment) context.Context {
	return context.WithValue(ctx, environmentKey{}, e)
}

// environmentOf returns the environment that Main put into the command's
// context.
func environmentOf(cmd *cobra.Command) *environment {
	if e, ok := cmd.Context().Value(environmentKey{}).(*environment); ok {
		return e
	}
	return newEnvironment(nil, cmd.InOrStdin(), cmd.ErrOrStderr())
}
