// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/liveness"
)

const theSerial = "the certificate's serial number"

func newCertCommand() *cobra.Command {
	return group("cert", "Certificates that were issued, and any PEM file",
		newCertListCommand(), newCertGetCommand(), newCertRevokeCommand(), newCertInspectCommand(), newCertAdoptCommand())
}

func newCertListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "The ledger over all operators",
		Args:  exactArgs(),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, _ []string) error {
			now := environmentOf(cmd).now()
			filter := apiclient.CertificateFilter{
				Operator: text(cmd, "operator"), Holder: text(cmd, "holder"), State: text(cmd, "state"),
				Newest: text(cmd, "failing") == "true",
			}
			var err error
			if filter.EndsBefore, err = parseInstant("ends-before", text(cmd, "ends-before"), now); err != nil {
				return err
			}
			entries, err := client.Certificates(cmd.Context(), filter)
			if err != nil {
				return err
			}
			if filter.Newest {
				if entries, err = failing(cmd, client, entries); err != nil {
					return err
				}
			}
			header := []string{"OPERATOR", "HOLDER", "ROLE", "STATE", "ENDS", "RENEWS", "SERIAL"}
			return showList(cmd, entries, "No certificate.", header, func(e ledger.Entry) []string {
				return []string{e.OperatorID, e.Holder, e.Role, e.State, until(e.NotAfter, now), until(e.RenewAfter, now), e.Serial}
			})
		}),
	}
	cmd.Flags().String("operator", "", "of this operator only")
	cmd.Flags().String("holder", "", "of this holder only, by its whole name")
	cmd.Flags().String("state", "", "in this state only: valid, superseded, revoked, ended")
	cmd.Flags().String("ends-before", "", "ending within this time (7d, 12h) or before an RFC 3339 time")
	cmd.Flags().Bool("failing", false, "newest certificates whose renewal is overdue or was refused")
	return cmd
}

// failing keeps what should have been renewed by now and was not, and those whose
// last renewal the server refused (ST-1).
func failing(cmd *cobra.Command, client *apiclient.Client, newest []ledger.Entry) ([]ledger.Entry, error) {
	senders, err := client.Senders(cmd.Context(), apiclient.SenderFilter{State: liveness.StatusRenewalFailing})
	if err != nil {
		return nil, err
	}
	all, err := client.Operators(cmd.Context())
	if err != nil {
		return nil, err
	}
	refused := map[string]bool{}
	for i := range senders {
		refused[senders[i].Name] = true
	}
	for i := range all {
		refused[all[i].ID] = all[i].Status == liveness.StatusRenewalFailing
	}
	late, now := []ledger.Entry{}, environmentOf(cmd).now()
	for _, e := range newest {
		living := e.State == ledger.StateValid || e.State == ledger.StateEnded
		if living && (now.After(e.RenewBy) || refused[e.Holder]) {
			late = append(late, e)
		}
	}
	return late, nil
}

// parseInstant reads a time in the future, as 7d, 12h or RFC 3339; the zero time
// for nothing.
func parseInstant(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return at, nil
	}
	d, err := parseDays(s)
	if err != nil {
		return time.Time{}, usageError("--%s takes a duration such as 7d or 12h, or an RFC 3339 time", flag)
	}
	return now.Add(d), nil
}

// parseDays is time.ParseDuration with days.
func parseDays(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		hours, err := time.ParseDuration(days + "h")
		return 24 * hours, err
	}
	return time.ParseDuration(s)
}

func newCertGetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get SERIAL",
		Short: "One certificate of the ledger",
		Args:  exactArgs(theSerial),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			entry, err := findCertificate(cmd, client, args[0])
			if err != nil {
				return err
			}
			return show(cmd, entry, func(w io.Writer) { writeEntry(w, entry) })
		}),
	}
	cmd.Flags().String("operator", "", "of this operator only")
	return cmd
}

// findCertificate looks a serial, or the beginning of one, up in the ledger.
func findCertificate(cmd *cobra.Command, client *apiclient.Client, serial string) (*ledger.Entry, error) {
	serial = strings.ToLower(strings.ReplaceAll(serial, ":", ""))
	entries, err := client.Certificates(cmd.Context(), apiclient.CertificateFilter{Operator: text(cmd, "operator")})
	if err != nil {
		return nil, err
	}
	var found []ledger.Entry
	for _, e := range entries {
		if serial != "" && strings.HasPrefix(e.Serial, serial) {
			found = append(found, e)
		}
	}
	switch len(found) {
	case 1:
		return &found[0], nil
	case 0:
		return nil, &exitError{exitRefused, &explained{
			what: "the ledger has no certificate with this serial",
			why:  "no entry of the organisation begins with it",
			do:   "ikhnos cert list",
		}}
	default:
		return nil, usageError("%d certificates begin with this serial; give more of it", len(found))
	}
}

func writeEntry(w io.Writer, e *ledger.Entry) {
	fields(w, "serial", e.Serial, "operator", e.OperatorID, "holder", e.Holder, "kind", e.Kind, "role", e.Role,
		"state", e.State, "issued", by(date(e.IssuedAt), e.RequestedBy), "valid from", date(e.NotBefore), "ends", date(e.NotAfter),
		"renews after", date(e.RenewAfter), "renews by", date(e.RenewBy), "renewed from", e.Parent,
		"revoked", dateOf(e.RevokedAt), "reason", e.RevokeReason, "key", "sha256:"+e.SPKI, "issuer", e.Issuer)
}

func newCertRevokeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke SERIAL",
		Short: "Revoke one certificate and what was renewed from it",
		Args:  exactArgs(theSerial),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			entry, err := findCertificate(cmd, client, args[0])
			if err != nil {
				return err
			}
			if err := ask(cmd, entry.Holder, "This revokes a certificate of "+entry.Holder+" and what was renewed from it."); err != nil {
				return err
			}
			receipt, err := client.RevokeCertificate(cmd.Context(), entry.OperatorID, entry.Serial, text(cmd, "note"), waitOf(cmd))
			if err != nil {
				return err
			}
			return showReceipt(cmd, receipt, "revoked "+entry.Serial+" of "+entry.Holder)
		}),
	}
	cmd.Flags().String("operator", "", "of this operator only")
	addRevokeFlags(cmd)
	addConfirmFlags(cmd)
	return cmd
}
