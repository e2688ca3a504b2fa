// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
)

// ErrEncrypted: the backup is encrypted and no identity was given.
var ErrEncrypted = errors.New("the backup is encrypted")

// encryptedIntro is how every age file begins.
const encryptedIntro = "age-encryption.org/v1\n"

// Encrypt returns a writer that encrypts to age recipients (age1…). Its Close
// ends the file and leaves w open.
func Encrypt(w io.Writer, recipients []string) (io.WriteCloser, error) {
	parsed, err := age.ParseRecipients(strings.NewReader(strings.Join(recipients, "\n")))
	if err != nil {
		return nil, errors.New("a recipient is no age public key (age1…)") // the cause may repeat a private key
	}
	return age.Encrypt(w, parsed...)
}

// Decrypt returns the content of r, decrypted with the age identities of a file
// when it is encrypted; ErrEncrypted without one, ErrDamaged when it was changed.
func Decrypt(r io.Reader, identities []byte) (io.Reader, error) {
	in := bufio.NewReader(r)
	intro, err := in.Peek(len(encryptedIntro))
	if err != nil || string(intro) != encryptedIntro {
		return in, nil // NewReader says what is wrong with it
	}
	if identities == nil {
		return nil, ErrEncrypted
	}
	parsed, err := age.ParseIdentities(bytes.NewReader(identities))
	if err != nil {
		return nil, errors.New("the identity file holds no age private key (AGE-SECRET-KEY-…)") // the cause may repeat one
	}
	plain, err := age.Decrypt(in, parsed...)
	var other *age.NoIdentityMatchError
	switch {
	case errors.As(err, &other):
		return nil, errors.New("the backup is encrypted to another identity")
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return damageReader{plain}, nil
}

// damageReader reads what age authenticates: any fault is damage.
type damageReader struct{ io.Reader }

// Read reads decrypted content.
func (d damageReader) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return n, err
}
