// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Main runs one command line, the program's name left out, and returns the exit
// code of the process.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends what does not look at the context
	return run(withEnvironment(ctx, newEnvironment(environ, stdin, stderr)), args, stdin, stdout, stderr)
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := New()
	root.SetArgs(append([]string{}, args...)) // nil would mean os.Args
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.InitDefaultCompletionCmd() // it keeps the output that is set now
	checkUsage(root)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil {
		printError(stderr, err, cmd.CommandPath())
	}
	return exitCode(err)
}

const rootHelp = `Control server of Continuum: who may send telemetry, and who does.

From nothing to a collector whose sender is known for certain:

  ikhnos server --public-url https://HOST:8443    on the server's machine; its log names its pin
  ikhnos login --server https://HOST:8443         where you work; asks for the token that
                                                  ikhnos admin-token show-initial prints there
  ikhnos operator create Central --role central   the collector that receives; prints how it runs
  ikhnos cluster add c1 --approve                 who will send
  ikhnos sender connect c1 --operator op-...      prints how the sender enrols, stays enrolled,
                                                  and the exporter for its collector
  ikhnos sender wait c1 --operator op-...         ends when its data was accepted
  ikhnos status                                   every morning: what needs a person

On a sender's machine, ikhnos doctor finds what is wrong on the way. ikhnos demo shows
all of it on this machine.

Exit codes: 0 done, 1 failed, 2 usage, 3 refused by the server, 4 done but not confirmed
everywhere, 5 server not reached, 10 a check found something.`

// New returns the whole command tree.
func New() *cobra.Command {
	root := group("ikhnos", "Control server of Continuum: who may send telemetry, and who does")
	root.Long = rootHelp
	section := func(title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: title, Title: title + ":"})
		for _, cmd := range commands {
			cmd.GroupID = title
		}
		root.AddCommand(commands...)
	}
	section("Start", newDemoCommand(), newServerCommand(), newLoginCommand(), newContextCommand())
	section("Every day", newStatusCommand(), newOperatorCommand(), newClusterCommand(), newSenderCommand(), newTokenCommand(),
		newApplyCommand(), newExportCommand())
	section("Evidence", newPolicyCommand(), newReceiptCommand(), newCertCommand(), newCACommand(), newLedgerCommand(), newAuditCommand())
	section("On the machine of a collector", newEnrollCommand(), newRenewCommand(), newDoctorCommand(), newCheckCommand())
	section("For the server", newOrgCommand(), newAdminTokenCommand(), newBackupCommand(), newRestoreCommand(), newPassphraseCommand())
	section("Help", newExplainCommand(), newVersionCommand())
	root.SetHelpCommandGroupID("Help")
	root.SetCompletionCommandGroupID("Help")
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.SetFlagErrorFunc(flagError)
	addGlobalFlags(root.PersistentFlags())
	return root
}

// checkUsage makes whatever is wrong with a command line, before the command
// begins, an error of usage, and lets the help say which flags cannot be left out.
func checkUsage(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[cobra.BashCompOneRequiredFlag] != nil {
			f.Usage += " (required)"
		}
	})
	addCompletion(cmd)
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		var err error
		if check != nil {
			err = check(cmd, args)
		}
		if err = errors.Join(err, cmd.ValidateRequiredFlags()); err == nil {
			return nil
		}
		return &exitError{exitUsage, err}
	}
	for _, sub := range cmd.Commands() {
		checkUsage(sub)
	}
}

// group is a command that only holds others. A word that is none of them is a
// usage error that names the nearest one.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return usageError("unknown command %q for %q%s", args[0], cmd.CommandPath(),
				suggestion(args[0], commandNames(cmd), cmd.CommandPath()+" "))
		},
	}
	cmd.AddCommand(commands...)
	return cmd
}

func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// flagError turns what the flag parser found into one line with the nearest flag.
func flagError(cmd *cobra.Command, err error) error {
	name, unknown := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !unknown {
		return &exitError{code: exitUsage, err: err}
	}
	var names []string
	visit := func(f *pflag.Flag) { names = append(names, f.Name) }
	cmd.Flags().VisitAll(visit)
	cmd.InheritedFlags().VisitAll(visit)
	return usageError("unknown flag --%s for %q%s", name, cmd.CommandPath(), suggestion(name, names, "--"))
}

// exactArgs wants one argument for each name, and says which are missing.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usageError("%s needs %s", cmd.CommandPath(), strings.Join(names[len(args):], " and "))
		case len(args) > len(names):
			return usageError("%s does not take %q", cmd.CommandPath(), args[len(names)])
		}
		return nil
	}
}

// suggestion is "; did you mean …?" with the nearest candidate, or nothing.
func suggestion(word string, candidates []string, prefix string) string {
	best, bestDistance := "", len(word)/2+1
	for _, candidate := range candidates {
		if d := distance(word, candidate); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + prefix + best + "?"
}

// distance is how many letters have to be added, removed or changed.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		previous := slices.Clone(row)
		row[0] = i + 1
		for j := range len(b) {
			change := previous[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, previous[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
