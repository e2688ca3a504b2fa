// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/internal/holder"
)

func newRenewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "renew --dir DIR",
		Short: "Renew the certificate of this machine by its key",
		Long: `Renew the certificate in --dir when it is time, by proof of its key; no token is needed.
A certificate lives 30 days and is renewed after ten. With --watch it goes on until it
is stopped, so run it as a service beside the collector, as the user that owns the
folder; ikhnos sender connect --format systemd prints its unit. A collector takes the
new files by the reload_interval of its tls blocks; for other programs there is
--exec-after.`,
		Example: `  ikhnos renew --watch --server https://HOST:8443 --ca-pin sha256:HEX --dir /var/lib/continuum/c1/op-central
  ikhnos renew --dir /etc/app/tls --exec-after 'systemctl reload app'`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return renew(cmd) },
	}
	addHolderFlags(cmd)
	cmd.Flags().Bool("force", false, "renew although it is not time yet")
	cmd.Flags().Bool("watch", false, "keep renewing until stopped")
	cmd.Flags().String("exec-after", "", "shell command to run after each new certificate")
	return cmd
}

func renew(cmd *cobra.Command) error {
	if isSet(cmd, "watch") && isSet(cmd, "force") {
		return usageError("--force renews once, --watch when it is time: give one of them")
	}
	h, closeIdle, err := newHolder(cmd, nil)
	if err != nil {
		return err
	}
	defer closeIdle()
	dir := text(cmd, "dir")
	if err := h.Load(cmd.Context()); err != nil {
		return fmt.Errorf("reading the certificate: %w", err)
	}
	if !h.Status().Present {
		if err := damaged(dir); err != nil {
			return err
		}
		return &explained{
			what: "there is no certificate in " + dir,
			why:  "a renewal proves the key of a certificate that is there",
			do:   "ikhnos enroll --dir " + shellWords(dir) + " --enrollment-token-file FILE",
		}
	}
	if isSet(cmd, "watch") {
		return watchRenewals(cmd, h)
	}
	if h.UntilDue() > 0 && !isSet(cmd, "force") {
		progress(cmd, "kept: it is renewed after %s", date(h.Status().RenewAfter))
		return nil
	}
	result, err := h.Attempt(cmd.Context())
	if err != nil {
		return fromHolder(err)
	}
	if err := showHeld(cmd, h, result); err != nil {
		return err
	}
	return execAfter(cmd)
}

// watchRenewals keeps the certificate until the command is stopped, which is its
// good end. It prints changes alone: a new certificate, and the first failure of
// each kind.
func watchRenewals(cmd *cobra.Command, h *holder.Holder) error {
	said := ""
	var failed error
	h.Keep(cmd.Context(), func(l holder.Look) {
		reason := ""
		var failure *holder.Failure
		if errors.As(l.Err, &failure) {
			reason = failure.Reason
			if reason != said {
				warn(cmd, "renewal: %s; trying again", reasoned(failure))
			}
		}
		if l.Attempted {
			said = reason
		}
		result := l.Result
		if l.Adopted {
			result.Outcome = holder.OutcomeAdopted
		}
		if !l.Adopted && (!l.Attempted || l.Err != nil) {
			return
		}
		if err := showHeld(cmd, h, result); err != nil && failed == nil {
			failed = err
		}
		if err := execAfter(cmd); err != nil {
			warn(cmd, "%v", err)
		}
	})
	return failed
}

// execAfter runs the command of --exec-after, its output on standard error.
func execAfter(cmd *cobra.Command) error {
	line := text(cmd, "exec-after")
	if line == "" {
		return nil
	}
	// A command of the user's own; stopping us does not cut it off half-way.
	after := exec.CommandContext(context.WithoutCancel(cmd.Context()), "sh", "-c", line)
	after.Stdout, after.Stderr = cmd.ErrOrStderr(), cmd.ErrOrStderr()
	if err := after.Run(); err != nil {
		return fmt.Errorf("running --exec-after: %w", err)
	}
	return nil
}
