// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package policystate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// File keeps a State: the signed policy, the time of the last contact and the
// remembered denials, one line each. An empty path keeps nothing.
type File string

var (
	errCacheForm   = errors.New("the cache file does not have its form")
	errCacheMemory = errors.New("the cache file's third line, the remembered denials, cannot be read")
)

// Load reads the state and verifies every policy in it. A file that does not
// exist is fs.ErrNotExist. A second line that is no time counts as no contact
// ever; a third line that cannot be read makes the file useless, since it may
// have denied somebody.
func (f File) Load(v Verifier) (*State, error) {
	if f == "" {
		return nil, fs.ErrNotExist
	}
	data, err := os.ReadFile(string(f))
	if err != nil {
		return nil, fmt.Errorf("reading the cache file: %w", err)
	}
	first, rest, _ := bytes.Cut(data, []byte("\n"))
	second, third, _ := bytes.Cut(rest, []byte("\n"))
	if len(bytes.TrimSpace(first)) == 0 {
		return nil, errCacheForm
	}
	s := &State{JWS: string(bytes.TrimSpace(first))}
	if s.Policy, err = v.Verify(s.JWS); err != nil {
		return nil, fmt.Errorf("reading the cache file: %w", err)
	}
	if at, err := time.Parse(time.RFC3339, string(bytes.TrimSpace(second))); err == nil {
		s.Contact = at
	}
	if third = bytes.TrimSpace(third); len(third) > 0 {
		if err := json.Unmarshal(third, &s.memory); err != nil {
			return nil, errCacheMemory
		}
	}
	for _, jws := range s.memory.Previous {
		p, err := v.Verify(jws)
		if err != nil {
			return nil, fmt.Errorf("reading the policy of an earlier epoch in the cache file: %w", err)
		}
		s.previous = append(s.previous, p)
	}
	return s, nil
}

// Save makes the state durable: after it returned nil, the state survives any
// crash; when it fails, the file is what it was.
func (f File) Save(s *State) error {
	if f == "" {
		return nil
	}
	if err := f.save(s); err != nil {
		return fmt.Errorf("writing the cache file: %w", err)
	}
	return nil
}

func (f File) save(s *State) error {
	third, err := json.Marshal(s.memory.written())
	if err != nil {
		return err
	}
	dir := filepath.Dir(string(f))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	text := s.JWS + "\n" + stamp(s.Contact) + "\n" + string(third) + "\n"
	temporary := string(f) + ".tmp"
	if err := writeSynced(temporary, text); err != nil {
		return err
	}
	if err := os.Rename(temporary, string(f)); err != nil {
		return err
	}
	return syncDir(dir)
}

// Touch writes the time of the last contact alone, in its place: the line always
// has the same length. It is not synced; losing it makes the policy look older.
func (f File) Touch(s *State) error {
	if f == "" {
		return nil
	}
	file, err := os.OpenFile(string(f), os.O_WRONLY, 0)
	if err == nil {
		_, err = file.WriteAt([]byte(stamp(s.Contact)), int64(len(s.JWS)+1))
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("writing the time of contact to the cache file: %w", err)
	}
	return nil
}

func stamp(t time.Time) string { return controlapi.Seconds(t).Format(time.RFC3339) }

func writeSynced(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Sync(), file.Close())
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
