// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// createTokens makes a token for every connected sender that --name-pattern
// matches, unless there are more than --uses.
func createTokens(cmd *cobra.Command, client *apiclient.Client, ttl time.Duration) error {
	pattern, operatorID := text(cmd, "name-pattern"), text(cmd, "operator")
	if isSet(cmd, "sender") || text(cmd, "role") == string(controlapi.RoleReceiver) && isSet(cmd, "role") {
		return usageError("--name-pattern chooses senders: leave --sender and --role receiver out")
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return usageError("--name-pattern %q is no pattern", pattern)
	}
	senders, err := client.OperatorSenders(cmd.Context(), operatorID)
	if err != nil {
		return err
	}
	var holders []string
	for i := range senders {
		s := &senders[i]
		if fits, _ := path.Match(pattern, s.HolderID); fits && s.State == controlapi.SenderAllowed {
			holders = append(holders, s.HolderID)
		}
	}
	uses, _ := cmd.Flags().GetInt("uses")
	switch {
	case len(holders) == 0:
		return &exitError{exitRefused, &explained{
			what: "no sender of " + operatorID + " matches " + pattern, reason: controlapi.ReasonNotFound,
			why: "a token is made for a connection that is allowed", do: "ikhnos sender list --operator " + operatorID,
		}}
	case len(holders) > uses:
		return usageError("%s of %s match, more than --uses %d: no token was made", count(len(holders), "sender"), operatorID, uses)
	}
	tokens := make([]operators.Token, 0, len(holders))
	for _, holderID := range holders {
		token, err := client.CreateToken(cmd.Context(), operatorID, controlapi.RoleSender, holderID, ttl)
		if err != nil {
			return err
		}
		tokens = append(tokens, *token)
	}
	return deliverTokens(cmd, tokens)
}

// deliverTokens hands several secrets over as lines of name and token.
func deliverTokens(cmd *cobra.Command, tokens []operators.Token) error {
	write := func(w io.Writer) {
		for i := range tokens {
			_, _ = fmt.Fprintf(w, "%s\t%s\n", tokens[i].Name, tokens[i].Token)
		}
	}
	file := text(cmd, "out")
	if file == "" {
		return show(cmd, document[operators.Token]{tokens}, write)
	}
	var content strings.Builder
	write(&content)
	if err := writeSecretFile(file, []byte(content.String())); err != nil {
		return &explained{
			what: "the tokens could not be kept", why: err.Error(), err: err,
			do: "run the command again with another --out; the tokens that were made now are replaced",
		}
	}
	for i := range tokens {
		tokens[i].Token = ""
	}
	return show(cmd, document[operators.Token]{tokens}, func(w io.Writer) {
		_, _ = fmt.Fprintf(w, "%s, until %s: in %s\n", count(len(tokens), "one-use token"), date(tokens[0].ExpiresAt), file)
	})
}
