// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package certfile keeps certificate, key and CA of one holder in a directory
// that any program can read: tls.crt, tls.key and ca.crt.
//
//	dir/                   0700
//	  tls.crt -> ..data/tls.crt
//	  tls.key -> ..data/tls.key
//	  ca.crt  -> ..data/ca.crt
//	  ..data  -> ..gen-00000002
//	  ..gen-00000002/      tls.crt, ca.crt 0644; tls.key 0600; renewal.json
//	  ..gen-00000001/      the generation before
//	  pending.key          0600, the key of a request without an answer
//
// A generation is written and synced completely before the one link ..data is
// swapped, so that the directory holds the old pair or the new one at every
// instant, a power cut included, and never parts of both. Three plain files, as
// other programs write them, count as a generation and become links when the
// next one is published. A Kubernetes Secret mount has the same form and is read
// the same way.
package certfile
