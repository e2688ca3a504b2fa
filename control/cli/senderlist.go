// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/internal/controlapi"
)

func newSenderListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Who may send, who does, and who is silent",
		Args:  exactArgs(),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, _ []string) error {
			filter := apiclient.SenderFilter{Operator: text(cmd, "operator"), Cluster: text(cmd, "cluster"), State: text(cmd, "state")}
			senders, err := client.Senders(cmd.Context(), filter)
			if err != nil {
				return err
			}
			now := environmentOf(cmd).now()
			header := []string{"STATE", "SENDER", "OPERATOR", "KIND", "LAST ACCEPTED", "CERTIFICATE ENDS", "REFUSED"}
			empty := "No sender is connected: ikhnos sender connect CLUSTER --operator OPERATOR"
			return showList(cmd, senders, empty, header, func(s liveness.SenderStatus) []string {
				return []string{mark(s.Status), s.HolderID, s.OperatorID, string(s.Kind),
					untilOf(s.LastAcceptedAt, now), untilOf(s.NotAfter, now), refusedText(s.Refused)}
			})
		}),
	}
	cmd.Flags().String("operator", "", "of this operator only")
	cmd.Flags().String("cluster", "", "this cluster only")
	cmd.Flags().String("state", "", "in this state only, for example silent")
	return cmd
}

func untilOf(t *time.Time, now time.Time) string {
	if t == nil {
		return ""
	}
	return until(*t, now)
}

// refusedText is reason=count, sorted by reason.
func refusedText(refused map[string]int64) string {
	counts := make(map[string]string, len(refused))
	for reason, n := range refused {
		if n > 0 {
			counts[reason] = strconv.FormatInt(n, 10)
		}
	}
	return labelsText(counts)
}

// mark is the shape and the words of a state, so that none is told by colour alone;
// nothing for none.
func mark(state string) string {
	if state == "" {
		return ""
	}
	look := liveness.LookOf(state)
	return look.Shape + " " + strings.ToLower(look.Title)
}

func newSenderGetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "One sender, at each operator it sends to",
		Args:  exactArgs(theSender),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			senders, err := sendersOf(cmd, client, args[0])
			if err != nil {
				return err
			}
			now := environmentOf(cmd).now()
			return show(cmd, document[liveness.SenderStatus]{senders}, func(w io.Writer) {
				for i := range senders {
					if i > 0 {
						_, _ = fmt.Fprintln(w)
					}
					writeSender(w, &senders[i], now)
				}
			})
		}),
	}
	cmd.Flags().String("operator", "", "at this operator only")
	return cmd
}

// sendersOf lists the connections of one holder, an error when there is none.
func sendersOf(cmd *cobra.Command, client *apiclient.Client, holderID string) ([]liveness.SenderStatus, error) {
	operatorID := text(cmd, "operator")
	all, err := client.Senders(cmd.Context(), apiclient.SenderFilter{Operator: operatorID, Cluster: holderID})
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, &exitError{exitRefused, &explained{
			what: holderID + " is connected to no operator", reason: controlapi.ReasonNotFound,
			why: "no connection of this name is known", do: "ikhnos sender connect " + holderID + " --operator " + firstOf(operatorID, "OPERATOR"),
		}}
	}
	return all, nil
}

func writeSender(w io.Writer, s *liveness.SenderStatus, now time.Time) {
	accepted := ""
	if s.LastAcceptedAt != nil {
		accepted = fmt.Sprintf("%s (%s)", until(*s.LastAcceptedAt, now), signalsText(s.Accepted))
	}
	fields(w, "sender", s.Name, "operator", s.OperatorID, "kind", string(s.Kind), "state", mark(s.Status),
		"decided", string(s.State), "dials", s.Address, "last accepted", accepted, "refused", refusedText(s.Refused),
		"certificate ends", untilOf(s.NotAfter, now), "serial", s.Serial, "connected", date(s.CreatedAt), "last receipt", s.ReceiptID)
}

func signalsText(n controlapi.SignalCounts) string {
	return fmt.Sprintf("requests: %d traces, %d metrics, %d logs", n.Traces, n.Metrics, n.Logs)
}
