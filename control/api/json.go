// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

var (
	errNotUTF8   = errors.New("the body is not UTF-8")
	errNotJSON   = errors.New("the body is not one JSON document")
	errNull      = errors.New("is null and must have a value")
	errMistyped  = errors.New("has a value of another type")
	errUnknown   = errors.New("has a field that is not known here")
	errTwice     = errors.New("has the same key twice")
	errTrailing  = errors.New("text follows the JSON document")
	errNoContent = errors.New("a JSON document is needed")
)

// decodeStrict reads one JSON document into out, a pointer. Unlike encoding/json
// it refuses unknown fields, names in another case, a key that stands twice,
// null where nothing may be missing, bytes that are not UTF-8, and anything
// behind the document. Errors name the field by our own names, and never repeat
// the input.
func decodeStrict(body []byte, out any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return errNoContent
	}
	if !utf8.Valid(body) {
		return errNotUTF8
	}
	c := &checker{json.NewDecoder(bytes.NewReader(body))}
	c.UseNumber()
	if err := c.value("", reflect.TypeOf(out).Elem()); err != nil {
		return err
	}
	if _, err := c.Token(); !errors.Is(err, io.EOF) {
		return errTrailing
	}
	if err := json.Unmarshal(body, out); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return errNotJSON
		}
		return fmt.Errorf("%s %w", subject(""), errMistyped)
	}
	return nil
}

// checker walks a JSON document beside the Go type it will go into, so nothing
// deeper than that type is ever read.
type checker struct{ *json.Decoder }

// value checks the next value, which stands at a place such as senders[3].serial.
func (c *checker) value(at string, t reflect.Type) error {
	nullable := t.Kind() == reflect.Pointer || t.Kind() == reflect.Map || t.Kind() == reflect.Slice
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	token, err := c.Token()
	switch {
	case err != nil:
		return errNotJSON
	case token == nil && nullable:
		return nil
	case token == nil:
		return fmt.Errorf("%s %w", subject(at), errNull)
	case isScalar(t):
		return checkScalar(at, token, t)
	case t.Kind() == reflect.Slice && token == json.Delim('['):
		return c.elements(at, t.Elem())
	case t.Kind() != reflect.Slice && token == json.Delim('{'):
		return c.members(at, t)
	default:
		return mistyped(at, t)
	}
}

func subject(at string) string {
	if at == "" {
		return "the body"
	}
	return "the field " + at
}

// isScalar reports whether the type reads its JSON itself or is no container.
func isScalar(t reflect.Type) bool {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return true
	}
	return t.Kind() != reflect.Struct && t.Kind() != reflect.Map && t.Kind() != reflect.Slice
}

func checkScalar(at string, token json.Token, t reflect.Type) error {
	good := false
	switch value := token.(type) {
	case string:
		_, err := time.Parse(time.RFC3339, value)
		good = t.Kind() == reflect.String || t == reflect.TypeFor[time.Time]() && err == nil
	case json.Number:
		good = fits(string(value), t)
	case bool:
		good = t.Kind() == reflect.Bool
	}
	if !good {
		return mistyped(at, t)
	}
	return nil
}

// fits reports whether a number is a whole one in the range of a type.
func fits(number string, t reflect.Type) bool {
	var err error
	switch t.Kind() {
	case reflect.Int, reflect.Int32, reflect.Int64:
		_, err = strconv.ParseInt(number, 10, t.Bits())
	case reflect.Uint32:
		_, err = strconv.ParseUint(number, 10, t.Bits())
	default:
		return false
	}
	return err == nil
}

// mistyped says what stands at a place instead of what came.
func mistyped(at string, t reflect.Type) error {
	takes := "an object"
	switch {
	case t == reflect.TypeFor[time.Time]():
		takes = "a time such as 2026-01-31T12:00:00Z"
	case t.Kind() == reflect.String:
		takes = "text"
	case t.Kind() == reflect.Bool:
		takes = "true or false"
	case t.Kind() == reflect.Slice:
		takes = "a list"
	case t.Kind() == reflect.Uint32:
		takes = "a whole number from 0 to 4294967295"
	case t.Kind() != reflect.Struct && t.Kind() != reflect.Map:
		takes = "a whole number"
	}
	return fmt.Errorf("%s %w: it takes %s", subject(at), errMistyped, takes)
}

func (c *checker) elements(at string, element reflect.Type) error {
	for i := 0; c.More(); i++ {
		if err := c.value(at+"["+strconv.Itoa(i)+"]", element); err != nil {
			return err
		}
	}
	return c.closing()
}

func (c *checker) members(at string, t reflect.Type) error {
	seen := map[string]bool{}
	for c.More() {
		token, err := c.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return errNotJSON
		}
		if seen[name] {
			return fmt.Errorf("%s %w", subject(at), errTwice)
		}
		seen[name] = true
		if t.Kind() == reflect.Map { // its keys are the caller's, so they stand in no error
			if err := c.value(at, t.Elem()); err != nil {
				return err
			}
			continue
		}
		member, ok := fieldsOf(t)[name]
		if !ok {
			return fmt.Errorf("%s %w; it takes: %s", subject(at), errUnknown, known(t))
		}
		if err := c.value(strings.TrimPrefix(at+"."+name, "."), member); err != nil {
			return err
		}
	}
	return c.closing()
}

// known lists the fields of a struct.
func known(t reflect.Type) string {
	names := slices.Sorted(maps.Keys(fieldsOf(t)))
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func (c *checker) closing() error {
	if _, err := c.Token(); err != nil {
		return errNotJSON
	}
	return nil
}

var fieldCache sync.Map // reflect.Type -> map[string]reflect.Type

// fieldsOf lists the JSON names of a struct with their types, those of embedded
// structs among them.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if known, ok := fieldCache.Load(t); ok {
		return known.(map[string]reflect.Type)
	}
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "" && name != "-" {
			fields[name] = f.Type
		}
	}
	fieldCache.Store(t, fields)
	return fields
}
