// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package identity

// Attribute keys that say where a record came from. They stand on resources
// alone and are written by continuumidentity alone.
const (
	KeyOrgID        = "continuum.org.id"
	KeyClusterID    = "continuum.cluster.id"
	KeyIntentID     = "continuum.intent.id"
	KeyOperatorID   = "continuum.operator.id"
	KeyOperatorName = "continuum.operator.name"
)

// reservedWord is the normal form that, alone or before an underscore, makes a
// key reserved.
const reservedWord = "continuum"

// NormalForm folds every spelling that some store would take for the same key:
// ASCII letters in lower case, every run of other bytes than letters and digits
// one underscore, none at the ends.
func NormalForm(key string) string {
	return string(appendNormalForm(make([]byte, 0, len(key)), key, len(key)))
}

// appendNormalForm appends the normal form of key to dst and gives up as soon as
// it is longer than limit bytes.
func appendNormalForm(dst []byte, key string, limit int) []byte {
	start := len(dst)
	gap := false
	for i := 0; i < len(key) && len(dst)-start <= limit; i++ {
		c, ok := fold(key[i])
		if !ok {
			gap = len(dst) > start
			continue
		}
		if gap {
			dst = append(dst, '_')
			gap = false
		}
		dst = append(dst, c)
	}
	return dst
}

// fold returns an ASCII letter in lower case or a digit; ok is false for any
// other byte.
func fold(c byte) (folded byte, ok bool) {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c, 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
}

// opening tells by five bytes, without a branch between them, that a key is no
// spelling of any form: each position holds, for every byte, the forms that may
// have it there. Forms share seven bits; the eighth stands for a key that begins
// with what a spelling may put in front.
type opening [5][256]uint8

// openingGap is the eighth bit.
const openingGap = 1 << 7

// add marks the n-th form. A spelling that begins with a letter or digit has the
// bytes of the form, in either case, up to the first underscore or the end.
func (o *opening) add(form string, n int) {
	passed := false // that point
	for at := range o {
		here := at >= len(form) || form[at] == '_'
		for c := range o[at] {
			folded, isWord := fold(byte(c))
			if passed || here && !isWord || !here && folded == form[at] {
				o[at][c] |= 1 << (n % 7)
			}
			if at > 0 || !isWord {
				o[at][c] |= openingGap
			}
		}
		passed = passed || here
	}
}

// may is false only for a key that has a normal form, and another than these.
func (o *opening) may(key string) bool {
	if len(key) < len(o) {
		return key == "" || o[0][key[0]] != 0
	}
	return o[0][key[0]]&o[1][key[1]]&o[2][key[2]]&o[3][key[3]]&o[4][key[4]] != 0
}

// KeySet is a set of keys in which every spelling of a member is one too. It is
// immutable, and a look-up allocates nothing. The zero value is empty.
type KeySet struct {
	opening           opening
	forms             map[string]struct{}
	shortest, longest int // of forms
}

// NewKeySet makes the set of the given keys. A key without any letter or digit
// has no normal form and is left out.
func NewKeySet(keys ...string) *KeySet {
	s := &KeySet{forms: make(map[string]struct{}, len(keys))}
	for _, key := range keys {
		form := NormalForm(key)
		if form == "" {
			continue
		}
		s.opening.add(form, len(s.forms))
		if len(s.forms) == 0 || len(form) < s.shortest {
			s.shortest = len(form)
		}
		s.longest = max(s.longest, len(form))
		s.forms[form] = struct{}{}
	}
	return s
}

// May is false only for a key that is neither a member nor free of letters and
// digits. It looks at five bytes at most and is meant to be asked first.
func (s *KeySet) May(key string) bool { return s.opening.may(key) }

// Has reports whether key is a spelling of a member.
func (s *KeySet) Has(key string) bool { return s.opening.may(key) && s.find(key) }

func (s *KeySet) find(key string) bool {
	if len(key) < s.shortest {
		return false // a normal form is never longer than its spelling
	}
	var buffer [72]byte
	_, ok := s.forms[string(appendNormalForm(buffer[:0], key, s.longest))]
	return ok
}

// Reserved tells keys that only continuumidentity may write from all others: those
// whose normal form is `continuum` or starts with `continuum_`, and every
// spelling of the further keys. It is immutable, and a look-up allocates nothing.
// The zero value reserves nothing.
type Reserved struct {
	opening opening
	more    *KeySet // nil in the zero value
}

// NewReserved returns the rule with further reserved keys.
func NewReserved(more ...string) *Reserved {
	r := &Reserved{more: NewKeySet(more...)}
	r.opening = r.more.opening
	r.opening.add(reservedWord, len(r.more.forms))
	return r
}

// May is false only for a key that is neither reserved nor free of letters and
// digits. It looks at five bytes at most and is meant to be asked first.
func (r *Reserved) May(key string) bool { return r.opening.may(key) }

// Has reports whether key is reserved.
func (r *Reserved) Has(key string) bool { return r.opening.may(key) && r.find(key) }

func (r *Reserved) find(key string) bool {
	return r.more != nil && (IsContinuum(key) || r.more.Has(key))
}

// IsBlank reports whether key has no letter and no digit, and so no normal form.
// A store that flattens nested maps leaves it no part in the flat name.
func IsBlank(key string) bool {
	for i := range len(key) {
		if isWordByte(key[i]) {
			return false
		}
	}
	return true
}

// IsContinuum reports whether the normal form of key is `continuum` or starts
// with `continuum_`.
func IsContinuum(key string) bool {
	const n = len(reservedWord)
	if len(key) < n {
		return false
	}
	if c, ok := fold(key[n-1]); ok && c != reservedWord[n-1] {
		if _, ok := fold(key[0]); ok {
			return false // the usual case: another word that begins alike
		}
	}
	i := 0
	for i < len(key) && !isWordByte(key[i]) {
		i++
	}
	if len(key)-i < n {
		return false
	}
	for j := range n {
		if c, _ := fold(key[i+j]); c != reservedWord[j] {
			return false
		}
	}
	return len(key)-i == n || !isWordByte(key[i+n])
}

func isWordByte(c byte) bool {
	_, ok := fold(c)
	return ok
}
