// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxSecretBytes bounds what is read of a secret file.
const maxSecretBytes = 4 << 10

var (
	errSecretEmpty = errors.New("the secret is empty")
	errSecretForm  = errors.New("the secret is not one word of printable ASCII of at most 4 KiB")
)

// secret returns the bearer secret of the next beat, white space around it
// removed. No error repeats any of it.
func (c *Config) secret() (string, error) {
	text := string(c.Secret)
	if c.SecretFile != "" {
		var err error
		if text, err = readBounded(c.SecretFile); err != nil {
			return "", fmt.Errorf("reading the secret file: %w", err)
		}
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return "", errSecretEmpty
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", errSecretForm
	}
	return text, nil
}

func readBounded(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxSecretBytes+1))
	if len(data) > maxSecretBytes {
		return "", errSecretForm
	}
	return string(data), err
}
