// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// slowNormalForm is the rule as the contract words it.
func slowNormalForm(key string) string {
	lower := strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, strings.ToValidUTF8(key, "?"))
	return strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(lower, "_"), "_")
}

func slowReserved(key string) bool {
	form := slowNormalForm(key)
	return form == "continuum" || strings.HasPrefix(form, "continuum_") || form == "vm_account_id"
}

func TestReserved(t *testing.T) {
	reserved := NewReserved("vm_account_id", "...")
	for key, want := range map[string]bool{
		"continuum":                 true,
		"continuum.org.id":          true,
		"Continuum.Org.Id":          true,
		"CONTINUUM_CLUSTER_ID":      true,
		"continuum..cluster..id":    true,
		"__continuum__":             true,
		".continuum.":               true,
		" continuum x":              true,
		"continuum\x00id":           true,
		"continuum-anything":        true,
		"\u200bcontinuum.org.id":    true,
		"continuum\u00e4":           true,
		"vm_account_id":             true,
		"VM.Account--ID_":           true,
		"":                          false,
		"_":                         false,
		"continuu":                  false,
		"continuums":                false,
		"continuum1":                false,
		"xcontinuum":                false,
		"x.continuum":               false,
		"contin.uum":                false,
		"contin\u200buum":           false,
		"c\u043entinuum.org.id":     false, // another letter, another key to every store
		"container.id":              false,
		"vm_account_ids":            false,
		"vm_account":                false,
		"vmaccountid":               false,
		"exported.continuum.org.id": false,
	} {
		assert.Equal(t, want, reserved.Has(key), "%q", key)
		assert.Equal(t, want, slowReserved(key), "%q", key)
		assert.True(t, !want || reserved.May(key), "%q", key)
	}
	var none Reserved
	assert.False(t, none.Has("continuum"))
}

func TestKeySet(t *testing.T) {
	set := NewKeySet("region", "k8s.Cluster", "..")
	for key, want := range map[string]bool{
		"region": true, "Region": true, "_region_": true, "k8s_cluster": true, "K8S..CLUSTER": true,
		"regions": false, "regio": false, "": false, "..": false, "k8scluster": false,
		strings.Repeat("r", 200): false,
	} {
		assert.Equal(t, want, set.Has(key), "%q", key)
		assert.True(t, !want || set.May(key), "%q", key)
	}
	long := strings.Repeat("a.", 100)
	assert.True(t, NewKeySet(long).Has(strings.ToUpper(long)))
	var none KeySet
	assert.False(t, none.Has("region"))
}

func TestLookUpsAllocateNothing(t *testing.T) {
	reserved, set := NewReserved("vm_account_id"), NewKeySet("region")
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		for _, key := range []string{"Continuum.Org.Id", "vm.account.id", "version", "__region__", "http.route"} {
			_, _ = reserved.Has(key), set.Has(key)
		}
	}))
}

func TestCheckLabels(t *testing.T) {
	assert.NoError(t, CheckLabels(nil))
	assert.NoError(t, CheckLabels(map[string]string{"region": "eu-west", "k8s.env_1": "pröd 1"}))
	for name, labels := range map[string]map[string]string{
		"reserved":     {"continuum.region": "x"},
		"reserved too": {"Continuum": "x"},
		"digit first":  {"1a": "x"},
		"empty name":   {"": "x"},
		"bad name":     {"a b": "x"},
		"newline":      {"a\n": "x"},
		"long name":    {strings.Repeat("a", 64): "x"},
		"empty value":  {"a": ""},
		"long value":   {"a": strings.Repeat("ä", 64)},
		"control":      {"a": "x\x07"},
		"format":       {"a": "x\u202e"},
		"alike":        {"a.b": "x", "A_b": "y"},
		"not utf-8":    {"a": "\xff"},
		"nine": {"a": "x", "b": "x", "c": "x", "d": "x", "e": "x", "f": "x", "g": "x", "h": "x",
			"i": "x"},
	} {
		err := CheckLabels(labels)
		assert.True(t, slices.ContainsFunc(LabelFaults, func(fault error) bool { return errors.Is(err, fault) }), name)
	}
	assert.NoError(t, CheckLabels(map[string]string{"a": strings.Repeat("ä", 63)}))
}

func FuzzReserved(f *testing.F) {
	for _, key := range []string{"continuum", "_Continuum..Id", "vm_account_id", "contin.uum", "", "\xffcontinuum\xff"} {
		f.Add(key)
	}
	reserved, set := NewReserved("vm_account_id"), NewKeySet("region", "a.b")
	f.Fuzz(func(t *testing.T, key string) {
		form := NormalForm(key)
		assert.Equal(t, slowNormalForm(key), form)
		assert.Equal(t, form, NormalForm(form))
		assert.Equal(t, slowReserved(key), reserved.Has(key))
		assert.Equal(t, form == "region" || form == "a_b", set.Has(key))
		assert.Equal(t, form == "", IsBlank(key))
	})
}
