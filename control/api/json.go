// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"sync"
	"unicode/utf8"
)

var (
	errNotUTF8   = errors.New("the body is not UTF-8")
	errNotJSON   = errors.New("the body is not one JSON document")
	errNull      = errors.New("a field is null that must have a value")
	errMistyped  = errors.New("a field has a value of another type")
	errUnknown   = errors.New("the body has a field that is not known here")
	errTwice     = errors.New("the body has the same key twice")
	errTrailing  = errors.New("text follows the JSON document")
	errNoContent = errors.New("a JSON document is needed")
)

// decodeStrict reads one JSON document into out, a pointer. Unlike encoding/json
// it refuses unknown fields, names in another case, a key that stands twice,
// null where nothing may be missing, bytes that are not UTF-8, and anything
// behind the document. Errors never repeat the input.
func decodeStrict(body []byte, out any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return errNoContent
	}
	if !utf8.Valid(body) {
		return errNotUTF8
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if err := checkValue(dec, reflect.TypeOf(out).Elem()); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errTrailing
	}
	if err := json.Unmarshal(body, out); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return errNotJSON
		}
		return errMistyped
	}
	return nil
}

// checkValue walks the next value of dec beside the Go type it will go into, so
// nothing deeper than that type is ever read.
func checkValue(dec *json.Decoder, t reflect.Type) error {
	nullable := t.Kind() == reflect.Pointer || t.Kind() == reflect.Map || t.Kind() == reflect.Slice
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if isScalar(t) {
		return checkScalar(dec, nullable)
	}
	token, err := dec.Token()
	if err != nil {
		return errNotJSON
	}
	switch {
	case token == nil && nullable:
		return nil
	case token == nil:
		return errNull
	case t.Kind() == reflect.Slice && token == json.Delim('['):
		return checkElements(dec, t.Elem())
	case t.Kind() != reflect.Slice && token == json.Delim('{'):
		return checkMembers(dec, t)
	default:
		return errMistyped
	}
}

// isScalar reports whether the type reads its JSON itself or is no container.
func isScalar(t reflect.Type) bool {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return true
	}
	return t.Kind() != reflect.Struct && t.Kind() != reflect.Map && t.Kind() != reflect.Slice
}

func checkScalar(dec *json.Decoder, nullable bool) error {
	token, err := dec.Token()
	switch _, container := token.(json.Delim); {
	case err != nil:
		return errNotJSON
	case container:
		return errMistyped
	case token == nil && !nullable:
		return errNull
	}
	return nil
}

func checkElements(dec *json.Decoder, element reflect.Type) error {
	for dec.More() {
		if err := checkValue(dec, element); err != nil {
			return err
		}
	}
	return closing(dec)
}

func checkMembers(dec *json.Decoder, t reflect.Type) error {
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return errNotJSON
		}
		if seen[name] {
			return errTwice
		}
		seen[name] = true
		var member reflect.Type
		if t.Kind() == reflect.Map {
			member = t.Elem()
		} else if member, ok = fieldsOf(t)[name]; !ok {
			return errUnknown
		}
		if err := checkValue(dec, member); err != nil {
			return err
		}
	}
	return closing(dec)
}

func closing(dec *json.Decoder) error {
	if _, err := dec.Token(); err != nil {
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
