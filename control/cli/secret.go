// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// addOutFlag adds --out to a command whose answer holds a secret.
func addOutFlag(cmd *cobra.Command) {
	cmd.Flags().String("out", "", "write the secret to this file, mode 0600, and do not print it")
}

// deliver hands over a secret that the server shows once. With --out it goes to
// that file and what is printed no longer holds it; else it is the whole of
// standard output, and about says on a terminal what it is. secret points into
// doc.
func deliver(cmd *cobra.Command, doc any, secret *string, about string) error {
	path := text(cmd, "out")
	if path == "" {
		return show(cmd, doc, func(w io.Writer) {
			progress(cmd, "%s, shown once:", about)
			_, _ = fmt.Fprintln(w, *secret)
		})
	}
	if err := writeSecretFile(path, []byte(*secret+"\n")); err != nil {
		return &explained{
			what: "the secret could not be kept",
			why:  err.Error(),
			do:   "run the command again with another --out; what was minted now is replaced or can be revoked",
			err:  err,
		}
	}
	*secret = ""
	return show(cmd, doc, func(w io.Writer) { _, _ = fmt.Fprintf(w, "%s: in %s\n", about, path) })
}

// writeOut lets write fill standard output or, with --out, a file that only its
// owner can read.
func writeOut(cmd *cobra.Command, write func(w io.Writer) error) error {
	path := text(cmd, "out")
	if path == "" {
		return write(cmd.OutOrStdout())
	}
	var content bytes.Buffer
	if err := write(&content); err != nil {
		return err
	}
	return writeSecretFile(path, content.Bytes())
}
