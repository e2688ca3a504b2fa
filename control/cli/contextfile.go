// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// savedContext is one server that `ikhnos login` stored, with the token for it.
type savedContext struct {
	Name   string   `json:"name"`
	Server string   `json:"server"`
	CAPins []string `json:"caPins,omitempty"`
	Org    string   `json:"org,omitempty"`
	Token  string   `json:"token"`
}

// contextFile is the file in the user's configuration directory.
type contextFile struct {
	Current  string         `json:"current"`
	Contexts []savedContext `json:"contexts"`
}

func (f *contextFile) find(name string) *savedContext {
	for i := range f.Contexts {
		if f.Contexts[i].Name == name {
			return &f.Contexts[i]
		}
	}
	return nil
}

// put adds or replaces a context and makes it the current one.
func (f *contextFile) put(c savedContext) {
	f.Current = c.Name
	if known := f.find(c.Name); known != nil {
		*known = c
		return
	}
	f.Contexts = append(f.Contexts, c)
	slices.SortFunc(f.Contexts, func(a, b savedContext) int { return strings.Compare(a.Name, b.Name) })
}

func (e *environment) contextPath() string {
	return filepath.Join(e.configDir, "ikhnos", "contexts.json")
}

// loadContexts reads the saved contexts; a file that does not exist holds none.
func (e *environment) loadContexts() (*contextFile, error) {
	file := &contextFile{}
	if e.configDir == "" {
		return file, nil
	}
	content, err := os.ReadFile(e.contextPath())
	if errors.Is(err, fs.ErrNotExist) {
		return file, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the saved contexts: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(file); err != nil {
		return nil, fmt.Errorf("reading %s: %w", e.contextPath(), err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading %s: more than one document", e.contextPath())
	}
	return file, nil
}

// saveContexts replaces the saved contexts.
func (e *environment) saveContexts(file *contextFile) error {
	if e.configDir == "" {
		return errors.New("there is no configuration directory: set HOME or XDG_CONFIG_HOME")
	}
	content, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the contexts: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(e.contextPath()), 0o700); err != nil {
		return fmt.Errorf("saving the contexts: %w", err)
	}
	return writeSecretFile(e.contextPath(), append(content, '\n'))
}

// writeSecretFile replaces path as a whole with a file that its owner alone can
// read, whatever mode stood there before.
func writeSecretFile(path string, content []byte) error {
	return writePrivate(path, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// privateTemporary is the pattern of what is being written; a kill may leave one.
const privateTemporary = ".ikhnos-*"

// writePrivate is writeSecretFile for what write writes. When write fails, path
// stays as it was.
func writePrivate(path string, write func(w io.Writer) error) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), privateTemporary) // mode 0600
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
			err = fmt.Errorf("writing %s: %w", path, err)
		}
	}()
	err = write(tmp)
	if err == nil {
		err = tmp.Sync()
	}
	if closeErr := tmp.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
