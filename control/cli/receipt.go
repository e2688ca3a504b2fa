// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// defaultWait is the longest that the server waits for confirmations.
const defaultWait = 10 * time.Second

// addRevokeFlags adds the flags of every command that answers a receipt.
func addRevokeFlags(cmd *cobra.Command) {
	cmd.Flags().String("note", "", "why, for the audit trail")
	addWaitFlag(cmd)
}

func addWaitFlag(cmd *cobra.Command) {
	cmd.Flags().Duration("wait", defaultWait, "wait this long, at most 10s, for the operators to confirm")
}

func waitOf(cmd *cobra.Command) time.Duration {
	wait, _ := cmd.Flags().GetDuration("wait")
	return min(wait, defaultWait)
}

func newReceiptCommand() *cobra.Command {
	cmd := group("receipt", "Who has confirmed a revocation", &cobra.Command{
		Use:   "get ID",
		Short: "What the operators have confirmed of a revocation by now",
		Args:  exactArgs("the receipt's id"),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			receipt, err := client.Receipt(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return showReceipt(cmd, receipt, "revocation")
		}),
	})
	cmd.Long = "Who has confirmed a revocation. Each one prints the id of its receipt; ikhnos sender get shows\n" +
		"a sender's last one, and ikhnos status those that are not confirmed."
	return cmd
}

// showReceipt prints a receipt; the exit code says whether all have confirmed.
func showReceipt(cmd *cobra.Command, r *controlapi.Receipt, what string) error {
	if err := show(cmd, r, func(w io.Writer) { writeReceipt(w, r, what) }); err != nil {
		return err
	}
	return confirmedCode(r)
}

// confirmedCode is nil when every known instance has confirmed and there is one.
func confirmedCode(r *controlapi.Receipt) error {
	if n := confirmations(r); n == 0 || n < len(r.Instances) {
		return &exitError{code: exitNotConfirmed}
	}
	return nil
}

func confirmations(r *controlapi.Receipt) int {
	n := 0
	for _, instance := range r.Instances {
		if instance.State == controlapi.ReceiptConfirmed {
			n++
		}
	}
	return n
}

func writeReceipt(w io.Writer, r *controlapi.Receipt, what string) {
	committed := milliseconds(r.CommittedAtMs, &r.CommittedAt)
	_, _ = fmt.Fprintf(w, "%s, committed %s\n", what, time.UnixMilli(committed).UTC().Format("15:04:05.000Z"))
	rows := make([][]string, 0, len(r.Instances))
	for i := range r.Instances {
		rows = append(rows, receiptRow(&r.Instances[i], committed))
	}
	writeReceiptRows(w, rows)
	if len(r.Instances) == 0 {
		_, _ = fmt.Fprintf(w, "not confirmed: no instance of the operator is known; receipt %s\n", r.ReceiptID)
		return
	}
	_, _ = fmt.Fprintf(w, "confirmed by %d of %s; receipt %s\n",
		confirmations(r), count(len(r.Instances), "instance"), r.ReceiptID)
}

// receiptRow tells of one instance in times relative to the commit.
func receiptRow(i *controlapi.ReceiptInstance, committed int64) []string {
	row := []string{i.Operator + " / " + shortInstance(i.Instance)}
	switch i.State {
	case controlapi.ReceiptConfirmed:
		row = append(row, "applied "+offset(milliseconds(i.AppliedAtMs, i.AppliedAt), committed))
	case controlapi.ReceiptUnreachable:
		row = append(row, "unreachable: it may still accept")
	default:
		row = append(row, "pending")
	}
	accepted := "nothing accepted"
	if at := milliseconds(i.LastAcceptedAtMs, i.LastAcceptedAt); at != 0 {
		accepted = "last accepted " + offset(at, committed)
	}
	refused := "no request since"
	if at := milliseconds(i.FirstRefusedAtMs, i.FirstRefusedAt); at != 0 {
		refused = "first refused " + offset(at, committed)
	}
	if i.State != controlapi.ReceiptConfirmed {
		return row
	}
	return append(row, accepted, refused)
}

func writeReceiptRows(w io.Writer, rows [][]string) {
	for i := range rows {
		for j := range rows[i] {
			if j < len(rows[i])-1 {
				rows[i][j] += " " // three spaces between columns
			}
		}
		rows[i][0] = "  " + rows[i][0]
	}
	writeTable(w, rows)
}

// shortInstance is enough of an instance's id to tell a few apart.
func shortInstance(id string) string {
	if len(id) > 12 {
		return id[:8]
	}
	return id
}

// milliseconds prefers the fine time and falls back to the one in seconds.
func milliseconds(ms int64, at *time.Time) int64 {
	if ms != 0 || at == nil || at.IsZero() {
		return ms
	}
	return at.UnixMilli()
}

// offset is a signed distance from the commit, "+0.18 s".
func offset(at, committed int64) string {
	return fmt.Sprintf("%+.2f s", float64(at-committed)/1000)
}
