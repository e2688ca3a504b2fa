// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/config/configopaque"
)

func TestSecret(t *testing.T) {
	for _, tt := range []struct {
		name, text, want string
		err              error
	}{
		{"word", "ikhb_abc", "ikhb_abc", nil},
		{"white space around", " \r\n\tikhb_abc\n\n", "ikhb_abc", nil},
		{"empty", "", "", errSecretEmpty},
		{"only white space", " \n", "", errSecretEmpty},
		{"two words", "ikhb_abc ikhb_def", "", errSecretForm},
		{"two lines", "ikhb_abc\nX-Other: 1", "", errSecretForm},
		{"not ASCII", "ikhb_\u00e4", "", errSecretForm},
		{"control character", "ikhb_\x00", "", errSecretForm},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "secret")
			require.NoError(t, os.WriteFile(path, []byte(tt.text), 0o600))
			sources := []*Config{{SecretFile: path}, {Secret: configopaque.String(tt.text)}}
			for _, cfg := range sources {
				got, err := cfg.secret()
				require.ErrorIs(t, err, tt.err)
				require.Equal(t, tt.want, got)
			}
		})
	}
}

func TestSecretFileUnreadable(t *testing.T) {
	cfg := &Config{SecretFile: filepath.Join(t.TempDir(), "absent")}
	_, err := cfg.secret()
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A wrong file, a disk image say, is not read into memory.
func TestSecretFileTooLarge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("a", 1<<20)), 0o600))
	_, err := (&Config{SecretFile: path}).secret()
	require.ErrorIs(t, err, errSecretForm)
}
