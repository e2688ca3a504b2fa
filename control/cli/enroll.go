// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/internal/certfile"
	"github.com/ikhnos/continuum/internal/controlclient"
	"github.com/ikhnos/continuum/internal/holder"
)

func newEnrollCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "enroll --dir DIR --enrollment-token-file FILE",
		Short: "Fetch a certificate for this machine with a one-use token",
		Long: `Make a key in --dir, spend the token for a certificate, and leave tls.crt, tls.key and
ca.crt there for any program; the key never leaves the machine. Neither an admin token
nor ikhnos login is needed: the one-use token comes from ikhnos sender connect or
ikhnos token create. Then keep the certificate new with ikhnos renew --watch.

Over a pair that is good it does nothing, so it may be run twice; with --force it
spends a token that the pair did not come by, as after a rekey or a restore.`,
		Example: `  ikhnos enroll --server https://HOST:8443 --ca-pin sha256:HEX \
      --dir /var/lib/continuum/c1/op-central --enrollment-token-file token`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return enroll(cmd) },
	}
	addHolderFlags(cmd)
	cmd.Flags().String("enrollment-token-file", "", "file with the one-use token; - reads standard input")
	cmd.Flags().Bool("force", false, "replace a good pair, too, unless it came by this token")
	_ = cmd.MarkFlagRequired("enrollment-token-file") // the flag was defined above
	return cmd
}

// addHolderFlags adds what enroll and renew have in common.
func addHolderFlags(cmd *cobra.Command) {
	cmd.Flags().String("dir", "", "folder of tls.crt, tls.key and ca.crt")
	cmd.Flags().String("kubernetes-secret", "", "NAMESPACE/NAME of a Secret that keeps a copy, inside its cluster")
	_ = cmd.MarkFlagRequired("dir") // the flag was defined above
}

func enroll(cmd *cobra.Command) error {
	token, err := readEnrollmentToken(cmd)
	if err != nil {
		return err
	}
	h, closeIdle, err := newHolder(cmd, func() (string, error) { return token, nil })
	if err != nil {
		return err
	}
	defer closeIdle()
	if err := h.Load(cmd.Context()); err != nil {
		return fmt.Errorf("reading the certificate: %w", err)
	}
	attempt := h.Attempt
	switch {
	case h.Usable() && isSet(cmd, "force") && h.TokenIsNew():
		attempt = h.Reenroll
	case h.Usable():
		warn(cmd, "there is a good certificate in %s, so nothing was done; --force replaces it by a new token", text(cmd, "dir"))
		return nil
	case h.Status().Present:
		progress(cmd, "the certificate in %s has ended", text(cmd, "dir"))
	}
	result, err := attempt(cmd.Context())
	if err != nil {
		return fromHolder(err)
	}
	return showHeld(cmd, h, result)
}

func readEnrollmentToken(cmd *cobra.Command) (string, error) {
	path := text(cmd, "enrollment-token-file")
	if path == "-" {
		content, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), 4<<10))
		if err != nil {
			return "", fmt.Errorf("reading the enrolment token: %w", err)
		}
		return string(content), nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the enrolment token: %w", err)
	}
	return string(content), nil
}

// newHolder makes the holder of --dir, and what closes its connections.
func newHolder(cmd *cobra.Command, token func() (string, error)) (*holder.Holder, func(), error) {
	client, err := holderClient(cmd)
	if err != nil {
		return nil, nil, err
	}
	set := holder.Settings{
		Directory: text(cmd, "dir"),
		Server:    client,
		Token:     token,
		Now:       environmentOf(cmd).now,
		Random:    rand.Float64,
	}
	if secret := text(cmd, "kubernetes-secret"); secret != "" {
		namespace, name, ok := strings.Cut(secret, "/")
		if !ok || namespace == "" || name == "" {
			return nil, nil, usageError("--kubernetes-secret takes NAMESPACE/NAME, not %q", secret)
		}
		if set.Shared, err = holder.OpenSecretStore(namespace, name); err != nil {
			return nil, nil, err
		}
	}
	return holder.New(set), client.CloseIdleConnections, nil
}

// holderClient is a client for the machine paths. It never carries an admin token.
func holderClient(cmd *cobra.Command) (*controlclient.Client, error) {
	cfg, err := settings(cmd)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(cfg.Server, "https://") {
		return nil, &exitError{exitUsage, &explained{
			what: "no control server is given",
			why:  "neither --server, IKHNOS_SERVER nor a saved context names one that starts with https://",
			do:   fmt.Sprintf("%s --server https://HOST:8443 …", cmd.CommandPath()),
		}}
	}
	transport, err := controlclient.PinnedTransport(cfg.CAPins, nil)
	if err != nil {
		return nil, usageError("%s: %w", sourceOf(cmd, "ca-pin", "IKHNOS_CA_PIN"), err)
	}
	client, err := controlclient.New(&http.Client{Transport: transport, Timeout: cfg.Timeout}, cfg.Server, environmentOf(cmd).now)
	if err != nil {
		return nil, usageError("--server: %w", err)
	}
	return client, nil
}

// fromHolder gives a failed attempt its exit code and its advice.
func fromHolder(err error) error {
	var failure *holder.Failure
	if !errors.As(err, &failure) {
		return err
	}
	switch {
	case failure.Reason == holder.ReasonPinMismatch || failure.Reason == holder.ReasonServerUnreachable:
		told := &explained{
			what: "the control server did not answer",
			why:  failure.Error(),
			do:   "check --server and the network; a certificate in use stays good until it ends",
			err:  failure,
		}
		if failure.Reason == holder.ReasonPinMismatch || isTrust(failure) {
			told.what = "the control server's certificate is not trusted"
			told.do = "give --ca-pin with the pin that the server logged at its start"
		}
		return &exitError{exitUnreachable, told}
	case failure.Outcome == holder.OutcomeInvalid:
		return &explained{
			what: "the answer was not used, the certificate is unchanged",
			why:  reasoned(failure),
			do:   "see whether the operator was created anew; then enrol again in an empty folder",
			err:  failure,
		}
	}
	return err
}

// reasoned is the cause of a failure and, once, its reason: the text of a refusal
// by the server has it already.
func reasoned(failure *holder.Failure) string {
	cause := failure.Error()
	if strings.Contains(cause, failure.Reason) {
		return cause
	}
	return fmt.Sprintf("%s (reason: %s)", cause, failure.Reason)
}

// held is what enroll and renew print.
type held struct {
	Outcome    holder.Outcome `json:"outcome"`
	Name       string         `json:"name"`
	Serial     string         `json:"serial"`
	NotAfter   time.Time      `json:"notAfter"`
	RenewAfter time.Time      `json:"renewAfter"`
	Directory  string         `json:"directory"`
}

// showHeld prints a change of the certificate in one line.
func showHeld(cmd *cobra.Command, h *holder.Holder, result holder.Result) error {
	status := h.Status()
	doc := held{result.Outcome, status.Name, status.Serial, status.NotAfter.UTC(), status.RenewAfter.UTC(), text(cmd, "dir")}
	return show(cmd, doc, func(w io.Writer) {
		_, _ = fmt.Fprintf(w, "%s %s: serial %s, ends %s, renewed after %s, in %s\n", doc.Outcome, plain(doc.Name), doc.Serial,
			date(doc.NotAfter), date(doc.RenewAfter), plain(doc.Directory))
	})
}

// damaged is the error of a folder whose files cannot be used, nil for any other.
func damaged(dir string) error {
	if _, err := certfile.Load(dir); errors.Is(err, certfile.ErrDamaged) {
		return &exitError{exitFound, &explained{
			what: "the certificate in " + dir + " cannot be used",
			why:  err.Error(),
			do:   "enrol again with a new token: ikhnos token create, then ikhnos enroll",
			err:  err,
		}}
	}
	return nil
}
