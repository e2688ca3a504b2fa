// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"unicode"
	"unicode/utf8"
)

// MaxLabels is the number of labels that an operator may have, and a cluster.
const MaxLabels = 8

const maxLabelLength = 63 // characters, of a name and of a value

var labelName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,62}$`)

// Faults of labels, as CheckLabels reports them. Their texts repeat no input.
var (
	ErrLabelCount    = fmt.Errorf("at most %d labels", MaxLabels)
	ErrLabelName     = errors.New("the name must be 1 to 63 of letters, digits, '.', '_' and '-', a letter first")
	ErrLabelReserved = errors.New("the name is reserved: stores take it for continuum.*")
	ErrLabelTwice    = errors.New("the name is the same to a store as another one")
	ErrLabelValue    = errors.New("the value must be 1 to 63 printable characters")

	// LabelFaults are all of them.
	LabelFaults = []error{ErrLabelCount, ErrLabelName, ErrLabelReserved, ErrLabelTwice, ErrLabelValue}
)

// CheckLabels reports every fault of one holder's labels, each wrapped with the
// name of the label, never with its value.
func CheckLabels(labels map[string]string) error {
	var errs []error
	fault := func(name string, err error) { errs = append(errs, fmt.Errorf("label %q: %w", name, err)) }
	if len(labels) > MaxLabels {
		errs = append(errs, ErrLabelCount)
	}
	seen := make(map[string]bool, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		form := NormalForm(name)
		switch {
		case !labelName.MatchString(name):
			fault(name, ErrLabelName)
		case IsContinuum(name):
			fault(name, ErrLabelReserved)
		case seen[form]:
			fault(name, ErrLabelTwice)
		}
		seen[form] = true
		if !isLabelValue(labels[name]) {
			fault(name, ErrLabelValue)
		}
	}
	return errors.Join(errs...)
}

// isLabelValue allows what is visible and the plain space: unicode.IsPrint has no
// control and no format characters.
func isLabelValue(value string) bool {
	n := utf8.RuneCountInString(value)
	if n < 1 || n > maxLabelLength || !utf8.ValidString(value) {
		return false
	}
	for _, r := range value {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
