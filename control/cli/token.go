// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

func newTokenCommand() *cobra.Command {
	return group("token", "One-use enrolment tokens",
		newTokenCreateCommand(), newTokenListCommand(), newTokenRevokeCommand())
}

func newTokenCreateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a one-use token; an earlier one for the same certificate dies",
		Long: `Make a one-use token for a certificate: of a connected sender (--sender), of every
connected sender that a pattern matches (--name-pattern), or of the operator's own
receiver. A token works once, for one name, so --uses N with a pattern makes N tokens
at most, and none when more senders match. Several tokens are lines of NAME and
TOKEN; read the file once, give each machine its own, and delete it.`,
		Example: "  ikhnos token create --operator op-eu --sender c9 --out c9.token\n" +
			"  ikhnos token create --operator op-eu --name-pattern 'edge-*' --uses 20 --out edge.tokens",
		Args: exactArgs(),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, _ []string) error {
			operatorID, sender := text(cmd, "operator"), text(cmd, "sender")
			ttl, _ := cmd.Flags().GetDuration("ttl")
			if isSet(cmd, "name-pattern") {
				return createTokens(cmd, client, ttl)
			}
			role := enrollmentRole(sender)
			if isSet(cmd, "role") && text(cmd, "role") != string(role) {
				return usageError("--role sender goes with --sender ID, --role receiver without")
			}
			if uses, _ := cmd.Flags().GetInt("uses"); uses != 1 {
				return usageError("--uses goes with --name-pattern: a token works once, for one name")
			}
			token, err := client.CreateToken(cmd.Context(), operatorID, role, sender, ttl)
			if isReason(err, controlapi.ReasonNotFound) && sender != "" {
				return notConnected(sender, operatorID, err)
			}
			if err != nil {
				return err
			}
			return deliver(cmd, token, &token.Token, "one-use token of "+token.Name+", until "+date(token.ExpiresAt))
		}),
	}
	addOperatorFlag(cmd)
	addChoice(cmd, "role", "whose certificate", string(controlapi.RoleReceiver), string(controlapi.RoleSender))
	cmd.Flags().String("sender", "", "cluster or operator that will send; without it the token is for the operator's receiver")
	cmd.Flags().String("name-pattern", "", "a token for each connected sender whose id matches, * for any letters")
	cmd.Flags().Int("uses", 1, "how many tokens a pattern may make, at most")
	addTTLFlag(cmd)
	addOutFlag(cmd)
	return cmd
}

// notConnected explains the not_found of a call on a connection.
func notConnected(sender, operatorID string, err error) error {
	return &explained{
		what:   sender + " is not connected to " + operatorID,
		reason: controlapi.ReasonNotFound,
		why:    "a token is made for a connection, and there is none yet",
		do:     "ikhnos sender connect " + sender + " --operator " + operatorID,
		err:    err,
	}
}

func newTokenListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Enrolment tokens of an operator, without their secrets",
		Args:  exactArgs(),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, _ []string) error {
			tokens, err := client.Tokens(cmd.Context(), text(cmd, "operator"))
			if err != nil {
				return err
			}
			now := environmentOf(cmd).now()
			header := []string{"ID", "FOR", "ROLE", "STATE", "ENDS", "MADE BY"}
			return showList(cmd, tokens, "No enrolment token.", header, func(t operators.Token) []string {
				return []string{t.TokenID, t.Name, string(t.Role), string(t.State), until(t.ExpiresAt, now), t.CreatedBy}
			})
		}),
	}
	addOperatorFlag(cmd)
	return cmd
}

func newTokenRevokeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke TOKEN-ID",
		Short: "End a token before it is used",
		Args:  exactArgs("the token's id (see ikhnos token list)"),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			if err := client.RevokeToken(cmd.Context(), text(cmd, "operator"), args[0]); err != nil {
				return err
			}
			return said(cmd, "revoked token "+args[0])
		}),
	}
	addOperatorFlag(cmd)
	return cmd
}
