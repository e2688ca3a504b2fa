// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ikhnos/continuum/control/cli/apiclient"
)

// completeWithin is how long a shell waits for names from the server.
const completeWithin = 3 * time.Second

// names lists what may stand somewhere on a command line.
type names func(cmd *cobra.Command, client *apiclient.Client) []string

func operatorIDs(cmd *cobra.Command, client *apiclient.Client) (ids []string) {
	all, _ := client.Operators(cmd.Context()) // without an answer there is nothing to offer
	for i := range all {
		ids = append(ids, all[i].ID)
	}
	return ids
}

func clusterIDs(cmd *cobra.Command, client *apiclient.Client) (ids []string) {
	all, _ := client.Clusters(cmd.Context())
	for i := range all {
		ids = append(ids, all[i].ID)
	}
	return ids
}

// senderIDs are the holders that send to --operator, or to any.
func senderIDs(cmd *cobra.Command, client *apiclient.Client) (ids []string) {
	all, _ := client.Senders(cmd.Context(), apiclient.SenderFilter{Operator: text(cmd, "operator")})
	for i := range all {
		ids = append(ids, all[i].HolderID)
	}
	return ids
}

func orgIDs(cmd *cobra.Command, client *apiclient.Client) (ids []string) {
	all, _ := client.Orgs(cmd.Context())
	for i := range all {
		ids = append(ids, all[i].ID)
	}
	return ids
}

// The names that the first argument of a command and the value of a flag may have.
var (
	argumentNames = map[string]names{
		"cluster approve": clusterIDs, "cluster delete": clusterIDs, "cluster get": clusterIDs, "cluster revoke": clusterIDs, "cluster set": clusterIDs,
		"operator address": operatorIDs, "operator delete": operatorIDs, "operator get": operatorIDs, "operator heartbeat": operatorIDs,
		"operator install": operatorIDs, "operator retire": operatorIDs, "operator revoke": operatorIDs,
		"sender connect": clusterIDs, "sender get": senderIDs, "sender rekey": senderIDs, "sender restore": senderIDs,
		"sender revoke": senderIDs, "sender wait": senderIDs,
		"policy get": operatorIDs, "ca show": operatorIDs, "ledger head": operatorIDs, "ledger export": operatorIDs,
	}
	flagNames = map[string]names{
		"operator": operatorIDs, "destination": operatorIDs, "to": operatorIDs, "cluster": clusterIDs, "source": clusterIDs, "sender": senderIDs, "org": orgIDs,
	}
)

// addCompletion lets a shell complete names, and the words of flags that take a few.
func addCompletion(cmd *cobra.Command) {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	if get := argumentNames[path]; get != nil && cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return complete(cmd, get), cobra.ShellCompDirectiveNoFileComp
		}
	}
	add := func(f *pflag.Flag) {
		var offer func(cmd *cobra.Command) []string
		get, named := flagNames[f.Name]
		words, few := f.Value.(*choice)
		switch {
		case few:
			offer = func(*cobra.Command) []string { return words.of }
		case f.Name == "context":
			offer = contextNames
		case named:
			offer = func(cmd *cobra.Command) []string { return complete(cmd, get) }
		default:
			return
		}
		// It fails only for a flag that is not there or has a completion already.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return offer(cmd), cobra.ShellCompDirectiveNoFileComp
		})
	}
	cmd.LocalFlags().VisitAll(add)
}

// complete asks the server for names; without one, or a token, there are none.
func complete(cmd *cobra.Command, get names) []string {
	client, err := connect(cmd)
	if err != nil {
		return nil
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	cmd.SetContext(ctx)
	return get(cmd, client)
}

func contextNames(cmd *cobra.Command) (found []string) {
	file, err := environmentOf(cmd).loadContexts()
	if err != nil {
		return nil
	}
	for _, c := range file.Contexts {
		found = append(found, c.Name)
	}
	return found
}
