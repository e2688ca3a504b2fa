// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
)

// skewLimit is how far the two clocks may be apart before a proof is refused
// (contract, section 4).
const skewLimit = 60 * time.Second

// examined is one thing that doctor has looked at.
type examined struct {
	Check string `json:"check"`
	OK    bool   `json:"ok"`
	Found string `json:"found"`
	Do    string `json:"do,omitempty"`
}

// doctor examines this machine's connection.
type doctor struct {
	cmd   *cobra.Command
	found []examined
}

func newDoctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine's connection; exit code 10 when there is a problem",
		Long: `Check this machine's connection: whether the control server is reached and is the
right one, whether the clocks agree, whether the certificate in --dir is good, and
whether the operator at --operator-address answers with the right name and accepts
the certificate's handshake. Nothing is changed and no data is sent; an admin token
is not needed, and checked when there is one.`,
		Example: `  ikhnos doctor --server https://HOST:8443 --ca-pin sha256:HEX \
      --dir /var/lib/continuum/c1/op-eu --operator-address eu.example.com:4317`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := &doctor{cmd: cmd, found: []examined{}}
			dirs, _ := cmd.Flags().GetStringArray("dir")
			if text(cmd, "operator-address") != "" && len(dirs) == 0 {
				return usageError("--operator-address needs --dir with the certificate to show there")
			}
			if err := d.server(); err != nil {
				return err
			}
			for _, dir := range dirs {
				d.directory(dir)
			}
			if cmd.Context().Err() != nil {
				return cmd.Context().Err()
			}
			return d.report()
		},
	}
	cmd.Flags().StringArray("dir", nil, "folder of tls.crt, tls.key and ca.crt (repeatable)")
	cmd.Flags().String("operator-address", "", "HOST[:PORT] at which this machine dials the operator")
	return cmd
}

func (d *doctor) ok(check, format string, args ...any) {
	d.found = append(d.found, examined{Check: check, OK: true, Found: fmt.Sprintf(format, args...)})
}

func (d *doctor) problem(check, do, format string, args ...any) {
	d.found = append(d.found, examined{Check: check, Found: fmt.Sprintf(format, args...), Do: do})
}

func (d *doctor) report() error {
	problems := 0
	for _, e := range d.found {
		if !e.OK {
			problems++
		}
	}
	err := show(d.cmd, document[examined]{d.found}, func(w io.Writer) {
		for _, e := range d.found {
			if e.OK {
				_, _ = fmt.Fprintf(w, "ok       %-11s  %s\n", e.Check, plain(e.Found))
			} else {
				_, _ = fmt.Fprintf(w, "problem  %-11s  %s\n  do     %s\n", e.Check, plain(e.Found), plain(e.Do))
			}
		}
		_, _ = fmt.Fprintf(w, "%s\n", firstOf(map[bool]string{true: "no problem found"}[problems == 0], count(problems, "problem")))
	})
	if err == nil && problems > 0 {
		err = &exitError{code: exitFound}
	}
	return err
}

// server checks the way to the control server, who answers there, and its clock.
func (d *doctor) server() error {
	cfg, err := settings(d.cmd)
	if err != nil {
		return err
	}
	if cfg.Server == "" {
		d.problem("server", "give --server https://HOST:8443 or IKHNOS_SERVER", "no control server is given")
		return nil
	}
	client, err := newClient(d.cmd, cfg)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	now := environmentOf(d.cmd).now
	sent := now()
	answer, err := client.Health(d.cmd.Context())
	received := now()
	if err != nil {
		d.unreachable(cfg, err)
		return nil
	}
	d.ok("server", "%s answers", cfg.Server)
	trust := "a CA that this machine trusts"
	if len(cfg.CAPins) > 0 {
		trust = "the pinned CA"
	}
	d.ok("trust", "its certificate is from %s and ends %s", trust, until(answer.CertificateEnds, received))
	d.clock(answer.Date, sent.Add(received.Sub(sent)/2))
	d.token(cfg, client)
	return nil
}

func (d *doctor) unreachable(cfg apiclient.Config, err error) {
	var away *apiclient.UnreachableError
	if errors.As(err, &away) {
		err = away.Err
	}
	switch {
	case errors.Is(err, controlclient.ErrPinMismatch):
		d.problem("trust", "compare --ca-pin with the line \"pin sha256:…\" of the server's log; if they are the same, somebody else answers at this address",
			"%s presents none of the pinned keys", cfg.Server)
	case isTrust(err) && len(cfg.CAPins) == 0:
		d.problem("trust", "give --ca-pin with the pin that the server logged at its start", "%v", err)
	case isTrust(err):
		d.problem("trust", "dial the server by a name that its certificate has: a host of its --public-url or --listen", "%v", err)
	default:
		d.problem("server", "check the address, the firewall and proxies between here and there, and that the server runs", "%s does not answer: %v", cfg.Server, err)
	}
}

// clock compares the server's Date, which has whole seconds, with ours at that
// moment.
func (d *doctor) clock(header string, here time.Time) {
	date, err := http.ParseTime(header)
	if err != nil {
		d.problem("clock", "check that nothing between here and the server takes the Date header away", "the server's time is not known")
		return
	}
	offset := here.Sub(date.Add(time.Second / 2)).Round(time.Second)
	side := "ahead of"
	if offset < 0 {
		side = "behind"
	}
	switch {
	case offset.Abs() > skewLimit:
		d.problem("clock", "set this machine's clock, with NTP; ikhnos explain clock_skew", "this clock is %s %s the server's", span(offset), side)
	case offset.Abs() > time.Second:
		d.ok("clock", "this clock is %s %s the server's, which is near enough", span(offset), side)
	default:
		d.ok("clock", "agrees with the server's")
	}
}

// token checks the admin token, where there is one.
func (d *doctor) token(cfg apiclient.Config, client *apiclient.Client) {
	if cfg.Token == "" {
		return
	}
	var problem *controlapi.Problem
	switch _, err := client.Clusters(d.cmd.Context()); {
	case err == nil:
		d.ok("admin token", "opens organisation %s", client.Org())
	case errors.As(err, &problem):
		d.problem("admin token", problemRemedy(problem), "%s (reason: %s)", strings.TrimSuffix(firstOf(problem.Detail, problem.Title), "."), problem.Reason)
	default:
		d.problem("admin token", "run this again: the server answered a moment ago", "could not be checked: %v", err)
	}
}
