// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/ikhnos/continuum/control/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}
