// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
)

// Bounds of ids, names and notes, in characters (contract, section 2).
const (
	maxOperatorID = 24
	maxClusterID  = 31
	maxOrgID      = 31
	maxName       = 63
	maxNote       = 500

	operatorPrefix = "op-"
	nameInfix      = "-export-" // joins the two ids of a sender's name
)

var dnsLabel = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// faults collects everything that is wrong with a request, so that one answer
// names all of it. No detail repeats input.
type faults []controlapi.FieldError

func (f *faults) add(field, format string, args ...any) {
	*f = append(*f, controlapi.FieldError{Field: field, Detail: fmt.Sprintf(format, args...)})
}

// problem is nil when nothing was wrong.
func (f *faults) problem() error {
	if len(*f) == 0 {
		return nil
	}
	return controlapi.Invalid(*f...)
}

// id checks what every id has in common.
func (f *faults) id(field, id string, longest int) {
	if !dnsLabel.MatchString(id) || len(id) > longest {
		f.add(field, "must be a lower-case DNS label of 1 to %d characters", longest)
	}
	if strings.Contains(id, nameInfix) {
		f.add(field, "must not contain %s", nameInfix)
	}
}

func (f *faults) operatorID(field, id string) {
	f.id(field, id, maxOperatorID)
	if !strings.HasPrefix(id, operatorPrefix) || len(id) == len(operatorPrefix) {
		f.add(field, "must start with %s and go on after it", operatorPrefix)
	}
}

func (f *faults) clusterID(field, id string) {
	f.id(field, id, maxClusterID)
	if strings.HasPrefix(id, operatorPrefix) {
		f.add(field, "must not start with %s, which marks operators", operatorPrefix)
	}
}

// holderID checks the id of a cluster or of an operator.
func (f *faults) holderID(field, id string) {
	if strings.HasPrefix(id, operatorPrefix) {
		f.operatorID(field, id)
	} else {
		f.clusterID(field, id)
	}
}

// name checks a name for people: printable, so that no control or format
// character can change how a line reads.
func (f *faults) name(field, name string) {
	if !printable(name, 1, maxName) || strings.TrimSpace(name) == "" {
		f.add(field, "must be 1 to %d printable characters", maxName)
	}
}

func (f *faults) note(field, note string) {
	if !printable(note, 0, maxNote) {
		f.add(field, "must be at most %d printable characters", maxNote)
	}
}

// labels checks names, values and that no store could take a label for an
// identity attribute or for another label. One answer names each kind of
// fault once, without the labels themselves.
func (f *faults) labels(field string, labels map[string]string) {
	err := identity.CheckLabels(labels)
	for _, fault := range identity.LabelFaults {
		if errors.Is(err, fault) {
			f.add(field, "%s", fault)
		}
	}
}

// oneOf checks an enum.
func oneOf[T ~string](f *faults, field string, value T, allowed ...T) {
	if slices.Contains(allowed, value) {
		return
	}
	words := make([]string, len(allowed))
	for i, a := range allowed {
		words[i] = string(a)
	}
	f.add(field, "must be one of: %s", strings.Join(words, ", "))
}

// duration reads a duration of whole seconds such as "90s" or "1h".
func (f *faults) duration(field, text string, shortest, longest time.Duration) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil || d < shortest || d > longest || d%time.Second != 0 {
		f.add(field, "must be a duration of whole seconds from %s to %s, such as 90s or 1h",
			formatDuration(shortest), formatDuration(longest))
	}
	return d
}

// formatDuration writes a duration of whole seconds in its largest whole unit.
func formatDuration(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	default:
		return fmt.Sprintf("%ds", d/time.Second)
	}
}

func printable(s string, shortest, longest int) bool {
	n := utf8.RuneCountInString(s)
	if n < shortest || n > longest || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}
