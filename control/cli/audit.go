// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/audit/trail"
	"github.com/ikhnos/continuum/control/cli/apiclient"
)

func newAuditCommand() *cobra.Command {
	return group("audit", "Who changed what, and when", newAuditListCommand(), newAuditExportCommand())
}

func addAuditFlags(cmd *cobra.Command) {
	cmd.Flags().String("since", "", "from this long ago (7d, 12h) or an RFC 3339 time")
	cmd.Flags().String("actor", "", "by this one only")
	cmd.Flags().String("event", "", "this event only")
	cmd.Flags().String("object", "", "about this object only")
}

func auditEntries(cmd *cobra.Command, client *apiclient.Client) ([]trail.Record, error) {
	filter := apiclient.AuditFilter{Actor: text(cmd, "actor"), Event: text(cmd, "event"), Object: text(cmd, "object")}
	var err error
	if filter.Since, err = parseSince(text(cmd, "since"), environmentOf(cmd).now()); err != nil {
		return nil, err
	}
	return client.Audit(cmd.Context(), filter)
}

// parseSince reads a time in the past, as 7d, 12h or RFC 3339.
func parseSince(s string, now time.Time) (time.Time, error) { return parsePast("since", s, now) }

// parsePast is parseInstant with durations that count back.
func parsePast(flag, s string, now time.Time) (time.Time, error) {
	at, err := parseInstant(flag, s, now)
	if _, absolute := time.Parse(time.RFC3339, s); err != nil || s == "" || absolute == nil {
		return at, err
	}
	return now.Add(now.Sub(at)), nil
}

func newAuditListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "The audit trail",
		Args:  exactArgs(),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, _ []string) error {
			entries, err := auditEntries(cmd, client)
			if err != nil {
				return err
			}
			header := []string{"WHEN", "WHO", "WHAT", "OBJECT", "FROM"}
			return showList(cmd, entries, "Nothing of this kind.", header, func(e trail.Record) []string {
				return []string{date(e.At), e.Actor, e.Event, e.Object, e.Address}
			})
		}),
	}
	addAuditFlags(cmd)
	return cmd
}

func newAuditExportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "The audit trail for other programs",
		Args:  exactArgs(),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, _ []string) error {
			entries, err := auditEntries(cmd, client)
			if err != nil {
				return err
			}
			return writeOut(cmd, func(w io.Writer) error {
				if text(cmd, "format") == "csv" {
					return writeAuditCSV(w, entries)
				}
				encoder := json.NewEncoder(w)
				encoder.SetEscapeHTML(false)
				for i := range entries {
					if err := encoder.Encode(&entries[i]); err != nil {
						return err
					}
				}
				return nil
			})
		}),
	}
	addAuditFlags(cmd)
	addChoice(cmd, "format", "form of a line", "jsonl", "csv")
	cmd.Flags().String("out", "", "write to this file, mode 0600")
	return cmd
}

func writeAuditCSV(w io.Writer, entries []trail.Record) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"sequence", "at", "actor", "event", "object", "detail", "requestId", "address"})
	for i := range entries {
		e := &entries[i]
		detail := ""
		if len(e.Detail) > 0 {
			detail = jsonText(e.Detail)
		}
		_ = out.Write([]string{strconv.FormatInt(e.Sequence, 10), date(e.At), e.Actor, e.Event, e.Object, detail, e.RequestID, e.Address})
	}
	out.Flush()
	return out.Error()
}
