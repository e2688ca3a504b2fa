// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"

	"github.com/ikhnos/continuum/control/cli"
)

// TestText: what the text of the pages names is there.
func TestText(t *testing.T) {
	found := 0
	for _, name := range pages(t) {
		p := readPage(t, name)
		assert.Empty(t, p.brokenLinks(t), "%s: links that lead nowhere", name)
		for _, command := range p.named() {
			found++
			assert.NoError(t, checkCommand(command), "%s: %s", name, command)
		}
	}
	assert.Greater(t, found, 100)
}

var codePattern = regexp.MustCompile("`([^`]+)`")

// named are the commands of ikhnos in the text, and those in blocks that do not run.
func (p *page) named() (commands []string) {
	for _, m := range codePattern.FindAllStringSubmatch(p.prose, -1) {
		if strings.HasPrefix(m[1]+" ", "ikhnos ") {
			commands = append(commands, strings.Join(strings.Fields(m[1]), " "))
		}
	}
	for _, b := range p.blocks {
		for _, e := range exceptions {
			for _, command := range e.pattern.FindAllString(b.text, -1) {
				command = strings.ReplaceAll(strings.TrimPrefix(command, "bin/"), "\\\n", " ")
				if e.page == p.name && strings.HasPrefix(command, "ikhnos ") {
					commands = append(commands, command)
				}
			}
		}
	}
	return commands
}

var wordPattern = regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`)

// checkCommand is nil when the command exists and takes these flags. Its arguments
// and what it requires are checked as well, unless the text gives no argument: then
// it only names the command.
func checkCommand(line string) error {
	words := wordPattern.FindAllString(line, -1)[1:]
	for i, word := range words {
		words[i] = strings.Trim(word, `'"`)
	}
	root := cli.New()
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(rest); err != nil && !strings.HasPrefix(err.Error(), "flag needs an argument") {
		return err // a flag that is named without its value is there
	}
	args := cmd.Flags().Args()
	if len(args) == 0 {
		return nil
	}
	own := 0
	cmd.LocalNonPersistentFlags().VisitAll(func(*pflag.Flag) { own++ })
	if cmd.HasSubCommands() && own <= 1 { // help alone
		return fmt.Errorf("%s has no command %s", cmd.CommandPath(), args[0])
	}
	if err := cmd.ValidateArgs(args); err != nil {
		return err
	}
	return cmd.ValidateRequiredFlags()
}

// TestCheckCommand: the check finds what is wrong.
func TestCheckCommand(t *testing.T) {
	for _, good := range []string{
		"ikhnos", "ikhnos --help", "ikhnos status --watch", "ikhnos explain REASON", "ikhnos operator create",
		`ikhnos operator create "EU West" --id op-eu`, "ikhnos sender get c7 --operator op-eu", "ikhnos backup verify FILE",
		"ikhnos enroll --force", "ikhnos server --public-url", "ikhnos completion bash",
	} {
		assert.NoError(t, checkCommand(good), good)
	}
	for _, bad := range []string{
		"ikhnos stats", "ikhnos status --wach", "ikhnos operator make op-eu", "ikhnos sender rekey c7", "ikhnos operator get a b",
		"ikhnos cluster set c7 --silent-after soon", "ikhnos backup FILE",
	} {
		assert.Error(t, checkCommand(bad), bad)
	}
}
