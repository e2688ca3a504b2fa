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

// CheckLabels reports every fault of one holder's labels: more than MaxLabels, a
// name or value of a wrong form, a reserved name, two names that normalise alike.
// Errors name labels and never repeat a value.
func CheckLabels(labels map[string]string) error {
	var errs []error
	if len(labels) > MaxLabels {
		errs = append(errs, fmt.Errorf("at most %d labels, not %d", MaxLabels, len(labels)))
	}
	seen := make(map[string]string, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		form := NormalForm(name)
		switch {
		case !labelName.MatchString(name):
			errs = append(errs, fmt.Errorf("label name %q: 1 to 63 of letters, digits, dot, underscore and hyphen, a letter first", name))
		case IsContinuum(name):
			errs = append(errs, fmt.Errorf("label name %q is reserved", name))
		case seen[form] != "":
			errs = append(errs, fmt.Errorf("label names %q and %q are the same to a store", seen[form], name))
		}
		seen[form] = name
		if !isLabelValue(labels[name]) {
			errs = append(errs, fmt.Errorf("value of label %q: 1 to 63 printable characters", name))
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
