// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
)

func newLedgerCommand() *cobra.Command {
	return group("ledger", "The hash chain of what was issued and revoked",
		newLedgerHeadCommand(), newLedgerVerifyCommand(), newLedgerExportCommand(), newLedgerNewEpochCommand())
}

func newLedgerHeadCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "head OPERATOR",
		Short: "The end of an operator's chain: keep it elsewhere to prove later that nothing was rewritten",
		Args:  exactArgs(theOperator),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			head, err := client.LedgerHead(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return show(cmd, head, func(w io.Writer) {
				_, _ = fmt.Fprintf(w, "%s %d %s\n", head.OperatorID, head.Sequence, head.Hash)
			})
		}),
	}
}

func newLedgerExportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export OPERATOR",
		Short: "Every event of an operator's chain with its hash, one JSON document a line",
		Args:  exactArgs(theOperator),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			return writeOut(cmd, func(w io.Writer) error {
				return eachLedgerPage(cmd, client, args[0], func(lines []byte) error {
					_, err := w.Write(lines)
					return err
				})
			})
		}),
	}
	cmd.Flags().String("out", "", "write to this file, mode 0600")
	return cmd
}

// eachLedgerPage reads a chain from its beginning, page by page, until the server
// has no more.
func eachLedgerPage(cmd *cobra.Command, client *apiclient.Client, operatorID string, take func(lines []byte) error) error {
	for after := int64(0); ; {
		lines, err := client.LedgerLines(cmd.Context(), operatorID, after)
		if err != nil {
			return err
		}
		lines = bytes.TrimSpace(lines)
		if len(lines) == 0 {
			return nil
		}
		if err := take(append(lines, '\n')); err != nil {
			return err
		}
		last, err := sequenceOf(lines[bytes.LastIndexByte(lines, '\n')+1:])
		if err != nil {
			return fmt.Errorf("reading the last line of a page: %w", err)
		}
		if last <= after {
			return errors.New("the server repeats a part of the chain")
		}
		after = last
	}
}

func sequenceOf(line []byte) (int64, error) {
	parsed, err := parseLedgerLine(line)
	if err != nil {
		return 0, err
	}
	var event struct {
		Sequence int64 `json:"sequence"`
	}
	err = json.Unmarshal(parsed.Event, &event)
	return event.Sequence, err
}

func newLedgerVerifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [OPERATOR]",
		Short: "Compute a chain again: of one operator, of all, or of an exported file without any server",
		Long: `Compute the hash chains again and say what is wrong first; the exit code is 10
when something is. Without --file it asks the server. With --data-dir or
--database-url it reads the server's data itself, beside a server or without one,
and compares each entry with its events too.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := readWantedHeads(text(cmd, "head"))
			if err != nil {
				return err
			}
			if path := text(cmd, "file"); path != "" {
				if len(args) > 0 {
					return usageError("--file takes no operator: the file says whose chain it is")
				}
				return verifyFile(cmd, path, wanted)
			}
			if wanted.hash != "" && len(args) == 0 {
				return usageError("a hash as --head goes with one operator or one file")
			}
			if offline, err := wantsStore(cmd); err != nil || offline {
				return errors.Join(err, verifyStore(cmd, args, wanted))
			}
			return withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
				return verifyChains(cmd, client, args, wanted)
			})(cmd, args)
		},
	}
	cmd.Flags().String("file", "", "verify this export, offline")
	cmd.Flags().String("head", "", "also demand that the chain holds this hash, or those in this file, kept from an earlier ledger head or backup verify")
	addStoreFlags(cmd.Flags())
	return cmd
}

func verifyFile(cmd *cobra.Command, path string, wanted wantedHeads) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading the export: %w", err)
	}
	defer func() { _ = file.Close() }()
	c := &chainResult{wanted: wanted, must: wanted.of("")}
	if err := c.read(file); err != nil {
		return fmt.Errorf("reading the export: %w", err)
	}
	if c.end(); c.Entries == 0 && c.Fault == "" {
		c.fail("it is missing: the file has no event")
	}
	return showChains(cmd, []*chainResult{c})
}

func verifyChains(cmd *cobra.Command, client *apiclient.Client, args []string, wanted wantedHeads) error {
	if len(args) == 0 {
		all, err := client.Operators(cmd.Context())
		if err != nil {
			return err
		}
		for i := range all {
			args = append(args, all[i].ID)
		}
	}
	chains := make([]*chainResult, 0, len(args))
	for _, operatorID := range args {
		c, err := verifyOnline(cmd, client, operatorID, wanted)
		if err != nil {
			return err
		}
		chains = append(chains, c)
	}
	return showChains(cmd, chains)
}

// verifyOnline walks an operator's chain and compares its end with the head that
// the server names.
func verifyOnline(cmd *cobra.Command, client *apiclient.Client, operatorID string, wanted wantedHeads) (*chainResult, error) {
	head, err := client.LedgerHead(cmd.Context(), operatorID)
	if err != nil {
		return nil, err
	}
	c := &chainResult{OperatorID: operatorID, must: wanted.of(operatorID)}
	if c.must.hash == "" && head.Sequence > 0 {
		c.must = passage{sequence: head.Sequence, hash: head.Hash}
	}
	err = eachLedgerPage(cmd, client, operatorID, func(lines []byte) error {
		if err := c.read(bytes.NewReader(lines)); err != nil || c.Fault == "" {
			return err
		}
		return io.EOF
	})
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	c.end()
	return c, nil
}

func showChains(cmd *cobra.Command, chains []*chainResult) error {
	broken := false
	for _, c := range chains {
		broken = broken || c.Fault != ""
	}
	err := showList(cmd, chains, "No operator, so no chain.", []string{"OPERATOR", "ENTRIES", "RESULT", "HEAD"}, func(c *chainResult) []string {
		result := "ok"
		if c.Fault != "" {
			result = fmt.Sprintf("entry %d is bad: %s", c.FirstBad, c.Fault)
		}
		return []string{c.OperatorID, fmt.Sprint(c.Entries), result, c.Hash}
	})
	if err == nil && broken {
		return &exitError{code: exitFound}
	}
	return err
}
