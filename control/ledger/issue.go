// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/ikhnos/continuum/control/audit"
)

// maxLiving is how many living leaves one holder may have in one role before its
// renewals are refused.
const maxLiving = 20

// Issue decides on one leaf and, when nothing speaks against it, writes its
// entry, all in one transaction. When it returns nil the entry is durable and the
// leaf may leave. The same key for the same operator, holder and role gets the
// same entry again. Errors are *Refusal, after which nothing is spent or written,
// what Meanwhile returned, or a fault.
func (s *Store) Issue(ctx context.Context, r IssueRequest) (Issuance, error) {
	if (len(r.TokenHash) > 0) == (r.Proof != nil) {
		return Issuance{}, errors.New("issuing needs either a token or a proof")
	}
	var out Issuance
	var spent *token
	err := s.backend.update(ctx, true, func(tx *Tx) (err error) {
		out, spent = Issuance{}, nil
		if r.Proof != nil {
			out, err = tx.renew(r)
		} else {
			out, spent, err = tx.enroll(r)
		}
		return err
	}, func() error {
		if r.Meanwhile == nil {
			return nil
		}
		return r.Meanwhile(out)
	})
	var refusal *Refusal
	if errors.As(err, &refusal) && refusal.Reason == ReasonTokenSpent {
		// The refusing transaction is undone, and its audit line would be too.
		if auditErr := s.auditReuse(ctx, r, spent); auditErr != nil {
			return Issuance{}, auditErr
		}
	}
	if err != nil {
		return Issuance{}, err
	}
	return out, nil
}

// candidate is the leaf that a request is about to get.
type candidate struct {
	*standing
	IssueRequest
	role, kind, holder, holderID string
	parent                       string // serial, "" at enrolment
	requestedBy                  string
	detail                       map[string]any // of the audit line
}

// renew is the renewal path. It writes nothing before all is decided.
func (tx *Tx) renew(r IssueRequest) (Issuance, error) {
	parent, facts, err := tx.renewal(*r.Proof, r.SPKI)
	if err := tx.refuse(*r.Proof, parent, err, "", false); err != nil {
		return Issuance{}, err
	}
	if err := tx.recovered(parent.standing); err != nil {
		return Issuance{}, err
	}
	if r.SPKI == parent.SPKI {
		return Issuance{}, &Refusal{ReasonKeyInUse, "the key is that of the certificate to renew"}
	}
	c := &candidate{
		standing: parent.standing, IssueRequest: r,
		role: parent.Role, kind: parent.Kind, holder: parent.Holder, holderID: parent.HolderID,
		parent: parent.Serial, requestedBy: parent.Holder,
		detail: map[string]any{"parent": parent.Serial},
	}
	if facts.known {
		again, ok, err := tx.repeat(c)
		if ok && err == nil {
			err = tx.spendProof(parent, r.Proof)
		}
		if ok || err != nil {
			return again, err
		}
	}
	if err := tx.mayRenew(c); err != nil {
		return Issuance{}, err
	}
	if facts.living >= maxLiving {
		return Issuance{}, &Refusal{Reason: ReasonTooManyCertificates}
	}
	out, err := tx.issue(c, audit.OperatorCertificateRenewed, facts.sequence, facts.hash)
	if err == nil {
		err = tx.spendProof(parent, r.Proof)
	}
	if err == nil {
		err = tx.replaceChild(c, out.Entry.Serial)
	}
	return out, err
}

// token is an enrolment token as stored.
type token struct {
	id, orgID, operatorID, role, holderID, createdBy, state, spentSPKI string
	epoch, expiresAt                                                   int64
}

// enroll is the token path. The token comes back for the audit of its reuse.
func (tx *Tx) enroll(r IssueRequest) (Issuance, *token, error) {
	t, st, err := tx.token(r.TokenHash)
	if err != nil {
		return Issuance{}, nil, err
	}
	if err := t.usable(st.epoch, r.SPKI, tx.now.Unix()); err != nil {
		return Issuance{}, t, err
	}
	c := &candidate{
		standing: st, IssueRequest: r,
		role: t.role, kind: KindOperator, holder: t.operatorID, holderID: t.operatorID,
		requestedBy: t.createdBy, detail: map[string]any{"token": t.id},
	}
	if t.role == RoleSender {
		c.kind, c.holder, c.holderID = st.kind.String, st.name.String, t.holderID
	}
	if err := st.operatorOK(); err != nil {
		return Issuance{}, t, err
	}
	if again, ok, err := tx.repeat(c); ok || err != nil {
		if err == nil {
			err = tx.spend(t, r.SPKI)
		}
		return again, t, err
	}
	if err := st.holderOK(c.role); err != nil {
		return Issuance{}, t, err
	}
	event, err := tx.enrolled(c)
	if err != nil {
		return Issuance{}, t, err
	}
	sequence, hash, err := tx.head(c.operatorID)
	if err != nil {
		return Issuance{}, t, err
	}
	out, err := tx.issue(c, event, sequence, hash)
	if err == nil {
		err = tx.spend(t, r.SPKI)
	}
	return out, t, err
}

// enrolled is the audit event of an enrolment: a sender that had a certificate here
// before has it reissued (IS-10).
func (tx *Tx) enrolled(c *candidate) (event string, err error) {
	if c.role != RoleSender {
		return audit.OperatorCertificateIssued, nil
	}
	var before bool
	err = tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM entries WHERE operator_id = $1 AND holder = $2 AND role = $3)`,
		c.operatorID, c.holder, c.role).Scan(&before)
	if err != nil {
		return "", fmt.Errorf("looking for a sender's earlier leaves: %w", err)
	}
	if !before {
		return audit.OperatorCertificateIssued, nil
	}
	c.detail["ca"] = "operator"
	return audit.OperatorClientCertReissued, nil
}

// token reads a token and its operator's standing. The row is read once more
// when it was locked, because another server may have spent it in between.
func (tx *Tx) token(hash []byte) (*token, *standing, error) {
	t, err := tx.readToken(hash)
	if err != nil {
		return nil, nil, err
	}
	holderID := t.holderID
	if t.role == RoleReceiver {
		holderID = ""
	}
	st, err := tx.standing(t.operatorID, holderID)
	if err == nil && tx.store.backend.dialect().lockRow {
		t, err = tx.readToken(hash)
	}
	return t, st, err
}

func (tx *Tx) readToken(hash []byte) (*token, error) {
	var t token
	err := tx.QueryRow(`SELECT id, org_id, operator_id, role, holder_id, created_by, state, spent_spki, epoch, expires_at
		FROM enrollment_tokens WHERE secret_hash = $1`, hash).
		Scan(&t.id, &t.orgID, &t.operatorID, &t.role, &t.holderID, &t.createdBy, &t.state, &t.spentSPKI, &t.epoch, &t.expiresAt)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, &Refusal{Reason: ReasonTokenUnknown}
	}
	if err != nil {
		return nil, fmt.Errorf("reading a token: %w", err)
	}
	return &t, nil
}

// usable refuses a token that is dead, over, or belongs to another key. For its
// own key a spent token answers beyond its time.
func (t *token) usable(epoch int64, spki string, now int64) error {
	switch {
	case t.state == "spent" && t.spentSPKI != spki:
		return &Refusal{Reason: ReasonTokenSpent}
	case t.state == "revoked" || t.epoch != epoch:
		return &Refusal{Reason: ReasonTokenRevoked}
	case t.state == "open" && now >= t.expiresAt:
		return &Refusal{Reason: ReasonTokenExpired}
	}
	return nil
}

// spend ties a token to the key it is used with.
func (tx *Tx) spend(t *token, spki string) error {
	if t.state == "spent" {
		return nil
	}
	_, err := tx.Exec(`UPDATE enrollment_tokens SET state = 'spent', spent_spki = $1, spent_at = $2 WHERE id = $3`,
		spki, tx.now.Unix(), t.id)
	if err != nil {
		return fmt.Errorf("spending a token: %w", err)
	}
	return nil
}

// auditReuse records that a spent token came with another key.
func (s *Store) auditReuse(ctx context.Context, r IssueRequest, t *token) error {
	return s.Update(ctx, func(tx *Tx) error {
		return tx.Audit(audit.Entry{
			OrgID:     t.orgID,
			Actor:     audit.ActorServer,
			Event:     audit.EnrollmentTokenReused,
			Object:    t.operatorID,
			Detail:    map[string]any{"token": t.id, "role": t.role, "holder": t.holderID, "reason": ReasonTokenSpent},
			RequestID: r.RequestID,
			Address:   r.Address,
		})
	})
}
