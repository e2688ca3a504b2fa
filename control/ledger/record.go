// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	randv2 "math/rand/v2"
	"time"

	"github.com/ikhnos/continuum/control/audit"
)

// repeat answers a key that is known already: the same entry for the same
// operator, holder and role while it is good and its holder allowed.
func (tx *Tx) repeat(c *candidate) (Issuance, bool, error) {
	known, err := scanEntry(tx.QueryRow(`SELECT `+entryColumns+` FROM entries e WHERE e.spki = $1`, c.SPKI).Scan, tx.now)
	if errors.Is(err, ErrNotFound) {
		return Issuance{}, false, nil
	}
	if err != nil {
		return Issuance{}, false, err
	}
	if known.OperatorID != c.operatorID || known.HolderID != c.holderID || known.Role != c.role {
		return Issuance{}, false, &Refusal{Reason: ReasonKeyInUse}
	}
	if err := c.leafOK(known, tx.now.Unix()); err != nil {
		return Issuance{}, false, err
	}
	if err := c.holderOK(c.role); err != nil {
		return Issuance{}, false, err
	}
	return Issuance{Entry: known, CACert: c.caCert, CAKey: c.caKey, Repeated: true}, true, nil
}

// issue writes the entry of a new leaf with its event, which follows the operator's
// last one, and audit line.
func (tx *Tx) issue(c *candidate, event string, last int64, hash []byte) (Issuance, error) {
	ca, err := tx.store.caFacts(c.operatorID, c.caCert)
	if err != nil {
		return Issuance{}, err
	}
	dates, ok := leafDates(tx.now, c.Lifetime, ca.notAfter, randv2.N[time.Duration])
	if !ok {
		return Issuance{}, &Refusal{Reason: ReasonCAEnded}
	}
	e := Entry{
		OperatorID: c.operatorID, Serial: newSerial(), State: StateValid,
		Holder: c.holder, HolderID: c.holderID, Kind: c.kind, Role: c.role, Issuer: ca.issuer, Parent: c.parent,
		NotBefore: dates.notBefore, NotAfter: dates.notAfter, RenewAfter: dates.renewAfter, RenewBy: dates.renewBy,
		SPKI: c.SPKI, RequestedBy: c.requestedBy, IssuedAt: tx.now,
	}
	if err := tx.supersede(e); err != nil {
		return Issuance{}, err
	}
	if e.Sequence, err = tx.appendAfter(last, hash, c.operatorID, issuedEvent(e)); err != nil {
		return Issuance{}, err
	}
	if err := tx.insert(e, nil); err != nil {
		return Issuance{}, err
	}
	detail := map[string]any{"serial": e.Serial, "role": e.Role, "holder": e.Holder, "notAfter": e.NotAfter}
	maps.Copy(detail, c.detail)
	err = tx.Audit(audit.Entry{
		OrgID: c.orgID, Actor: c.holder, Event: event, Object: c.operatorID, Detail: detail,
		RequestID: c.RequestID, Address: c.Address,
	})
	return Issuance{Entry: e, CACert: c.caCert, CAKey: c.caKey}, err
}

// supersede marks the newest entry of e's holder and role as no longer that.
func (tx *Tx) supersede(e Entry) error {
	_, err := tx.Exec(`UPDATE entries SET superseded_at = $1 WHERE operator_id = $2 AND holder = $3 AND role = $4
		AND superseded_at IS NULL`, tx.now.Unix(), e.OperatorID, e.Holder, e.Role)
	if err != nil {
		return fmt.Errorf("superseding the last leaf: %w", err)
	}
	return nil
}

func (tx *Tx) insert(e Entry, supersededAt any) error {
	_, err := tx.Exec(`INSERT INTO entries (operator_id, serial, sequence, holder, holder_id, kind, role, issuer, parent,
			not_before, not_after, renew_after, renew_by, spki, requested_by, issued_at, superseded_at, revoke_reason)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, '')`,
		e.OperatorID, e.Serial, e.Sequence, e.Holder, e.HolderID, e.Kind, e.Role, e.Issuer, e.Parent,
		e.NotBefore.Unix(), e.NotAfter.Unix(), e.RenewAfter.Unix(), e.RenewBy.Unix(), e.SPKI, e.RequestedBy,
		e.IssuedAt.Unix(), supersededAt)
	if err != nil {
		return fmt.Errorf("writing an entry: %w", err)
	}
	return nil
}

// issuedEvent is what the chain keeps of an entry: all of it that never changes.
func issuedEvent(e Entry) map[string]any {
	return map[string]any{
		"type":        EventIssued,
		"serial":      e.Serial,
		"holder":      e.Holder,
		"holderId":    e.HolderID,
		"kind":        e.Kind,
		"role":        e.Role,
		"issuer":      e.Issuer,
		"parent":      e.Parent,
		"notBefore":   e.NotBefore.Format(time.RFC3339),
		"notAfter":    e.NotAfter.Format(time.RFC3339),
		"renewAfter":  e.RenewAfter.Format(time.RFC3339),
		"renewBy":     e.RenewBy.Format(time.RFC3339),
		"spkiSha256":  e.SPKI,
		"requestedBy": e.RequestedBy,
		"issuedAt":    e.IssuedAt.Format(time.RFC3339),
	}
}

// newSerial draws 159 random bits as lower-case hex of even length.
func newSerial() string {
	b := make([]byte, 20)
	for {
		_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
		b[0] &= 0x7f
		if trimmed := bytes.TrimLeft(b, "\x00"); len(trimmed) > 0 {
			return hex.EncodeToString(trimmed)
		}
	}
}
