// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/pki"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// AdoptMode says whether adopting is meant.
type AdoptMode string

// Modes of adopting.
const (
	AdoptNow    AdoptMode = "adopt"
	AdoptDryRun AdoptMode = "dry_run" // tells what would be done
)

// AdoptRequest admits leaves that one of our CAs signed at IssuedAfter or later
// and that a restored ledger lacks. An empty mode is adopt.
type AdoptRequest struct {
	IssuedAfter time.Time `json:"issuedAfter"`
	Mode        AdoptMode `json:"mode,omitempty"`
}

// AdoptResult says what became of a leaf.
type AdoptResult string

// Results of adopting.
const (
	AdoptResultAdopted AdoptResult = "adopted"
	AdoptResultLeft    AdoptResult = "left" // outside the ledger, for the reason given
)

// Adoption is one leaf that was looked at. Note says why it was left, or what
// else was done for it.
type Adoption struct {
	OperatorID string          `json:"operatorId"`
	Serial     string          `json:"serial"`
	Holder     string          `json:"holder"`
	Role       controlapi.Role `json:"role"`
	IssuedAt   time.Time       `json:"issuedAt"`
	NotAfter   time.Time       `json:"notAfter"`
	Result     AdoptResult     `json:"result"`
	Note       string          `json:"note,omitempty"`
}

// Adoptions answers an AdoptRequest.
type Adoptions struct {
	Mode  AdoptMode  `json:"mode"`
	Items []Adoption `json:"items"`
}

// errDryRun undoes a transaction whose answer is all that was wanted.
var errDryRun = errors.New("dry run")

// Adopt admits lost leaves, those of the actor's organisation that proved
// themselves since. A sender that the restored store does not know is connected
// again, and so is its cluster: both were there when the leaf was issued. What an
// operator has denied is never adopted.
func (s *Service) Adopt(ctx context.Context, a Actor, r AdoptRequest) (answer Adoptions, err error) {
	var f faults
	r.Mode = orDefault(r.Mode, AdoptNow)
	oneOf(&f, "mode", r.Mode, AdoptNow, AdoptDryRun)
	if r.IssuedAfter.IsZero() {
		f.add("issuedAfter", "is needed")
	}
	if err := f.problem(); err != nil {
		return Adoptions{}, err
	}
	err = s.update(ctx, a, func(c *change) error {
		answer = Adoptions{Mode: r.Mode, Items: []Adoption{}}
		lost, err := c.lostLeaves(r.IssuedAfter)
		if err != nil {
			return err
		}
		for _, leaf := range lost {
			item, err := c.adopt(leaf)
			if err != nil {
				return err
			}
			answer.Items = append(answer.Items, item)
		}
		if r.Mode == AdoptDryRun {
			return errDryRun
		}
		return nil
	})
	if err != nil && !errors.Is(err, errDryRun) {
		return Adoptions{}, err
	}
	return answer, nil
}

// lostLeaf is an unknown leaf that was read.
type lostLeaf struct {
	operator Operator
	pki.Record
	issuedAt time.Time
	spki     string
	issuer   string // subject key id of the CA, lower-case hex
}

// lostLeaves lists the unknown leaves of the actor's active operators, the first
// issued first. What no CA of ours would sign is left out.
func (c *change) lostLeaves(issuedAfter time.Time) ([]lostLeaf, error) {
	unknown, err := c.UnknownLeaves()
	if err != nil {
		return nil, err
	}
	var lost []lostLeaf
	for _, u := range unknown {
		op, err := activeOperator(c.Tx, c.actor.OrgID, u.OperatorID)
		if isReason(err, controlapi.ReasonNotFound) || isReason(err, controlapi.ReasonOperatorRevoked) {
			continue
		}
		if err != nil {
			return nil, err
		}
		ca, err := c.caCert(u.OperatorID)
		if err != nil {
			return nil, err
		}
		leaf := lostLeaf{operator: op, issuer: fmt.Sprintf("%x", ca.SubjectKeyId)}
		leaf.Record, leaf.issuedAt, leaf.spki, err = pki.Recognize(u.Leaf, u.OperatorID, ca)
		if err == nil && !leaf.issuedAt.Before(issuedAfter) {
			lost = append(lost, leaf)
		}
	}
	slices.SortStableFunc(lost, func(a, b lostLeaf) int {
		return cmp.Or(a.issuedAt.Compare(b.issuedAt), cmp.Compare(a.Serial, b.Serial))
	})
	return lost, nil
}

func (c *change) caCert(operatorID string) (*x509.Certificate, error) {
	var der []byte
	if err := c.QueryRow(`SELECT client_ca_cert FROM operators WHERE id = $1`, operatorID).Scan(&der); err != nil {
		return nil, fmt.Errorf("reading the CA of an operator: %w", err)
	}
	ca, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parsing the CA of an operator: %w", err)
	}
	return ca, nil
}

// adopt admits one leaf, or says why not.
func (c *change) adopt(l lostLeaf) (Adoption, error) {
	item := Adoption{
		OperatorID: l.OperatorID, Serial: l.Serial, Holder: l.Holder, Role: l.Role,
		IssuedAt: l.issuedAt, NotAfter: l.NotAfter, Result: AdoptResultLeft,
	}
	var err error
	if item.Note, err = c.adoptable(l); err != nil || item.Note != "" {
		return item, err
	}
	if l.Role == controlapi.RoleSender {
		var admitted bool
		if admitted, item.Note, err = c.admitSender(l); err != nil || !admitted {
			return item, err
		}
	}
	parent, err := c.likelyParent(l)
	if err != nil {
		return item, err
	}
	adopted, err := c.Adopt(ledger.Entry{
		OperatorID: l.OperatorID, Serial: l.Serial, Holder: l.Holder, HolderID: l.HolderID, Kind: string(l.Kind), Role: string(l.Role),
		Issuer: l.issuer, Parent: parent, NotBefore: l.NotBefore, NotAfter: l.NotAfter, RenewAfter: l.RenewAfter, RenewBy: l.RenewBy,
		SPKI: l.spki, RequestedBy: c.actor.Name, IssuedAt: l.issuedAt,
	})
	if err != nil {
		return item, fmt.Errorf("adopting a leaf: %w", err)
	}
	if !adopted {
		item.Note = "the ledger knows its serial or its key"
		return item, nil
	}
	item.Result = AdoptResultAdopted
	return item, c.record(audit.OperatorCertificateAdopted, l.OperatorID, map[string]any{
		"serial": l.Serial, "holder": l.Holder, "role": string(l.Role), "notAfter": l.NotAfter.Format(time.RFC3339),
	})
}

// adoptable says why a leaf cannot be adopted whoever its holder is, "" if it can.
func (c *change) adoptable(l lostLeaf) (string, error) {
	if c.Now().After(l.NotAfter) {
		return "it has ended", nil
	}
	denied, err := c.LostDenial(l.OperatorID, l.Holder, l.Serial)
	if err != nil {
		return "", err
	}
	if denied {
		return "it was denied before the restore", nil
	}
	var revoked int
	err = c.QueryRow(`SELECT COUNT(*) FROM entries WHERE operator_id = $1 AND holder = $2 AND role = $3
		AND issued_at <= $4 AND revoked_at >= $4 AND revoke_reason <> $5`,
		l.OperatorID, l.Holder, string(l.Role), l.issuedAt.Unix(), ledger.ReasonRecovered).Scan(&revoked)
	if err != nil {
		return "", fmt.Errorf("looking for revoked leaves: %w", err)
	}
	if revoked > 0 {
		return "a certificate that it may have been renewed from was revoked since", nil
	}
	return "", nil
}

// likelyParent is the living leaf from which a lost one was most likely renewed:
// revoking that one revokes it too.
func (c *change) likelyParent(l lostLeaf) (string, error) {
	serials, err := collect(c.Tx, scanString, `SELECT serial FROM entries WHERE operator_id = $1 AND holder = $2 AND role = $3
		AND issued_at <= $4 AND revoked_at IS NULL ORDER BY sequence DESC LIMIT 1`,
		l.OperatorID, l.Holder, string(l.Role), l.issuedAt.Unix())
	if err != nil || len(serials) == 0 {
		return "", err
	}
	return serials[0], nil
}

// admitSender demands that the holder of a lost leaf may send, and connects one
// that the restored store does not know.
func (c *change) admitSender(l lostLeaf) (admitted bool, note string, err error) {
	sender, err := senderRow(c.Tx, c.actor.OrgID, l.OperatorID, l.HolderID)
	switch {
	case isReason(err, controlapi.ReasonNotFound):
		return c.reconnect(l)
	case err != nil:
		return false, "", err
	case sender.State != controlapi.SenderAllowed:
		return false, "its sender is " + string(sender.State), nil
	}
	err = c.holderInForce(sender)
	var p *controlapi.Problem
	if errors.As(err, &p) {
		return false, "its sender is not in force: " + string(p.Reason), nil
	}
	return err == nil, "", err
}

// reconnect connects the sender of a lost leaf again.
func (c *change) reconnect(l lostLeaf) (admitted bool, note string, err error) {
	var removed int
	err = c.QueryRow(`SELECT COUNT(*) FROM senders WHERE operator_id = $1 AND holder_id = $2`, l.OperatorID, l.HolderID).Scan(&removed)
	switch {
	case err != nil:
		return false, "", fmt.Errorf("looking for a removed sender: %w", err)
	case removed > 0:
		return false, "its sender was removed", nil
	case l.Kind == controlapi.KindOperator:
		return false, "the operator that holds it was created after the backup: create it again", nil
	}
	cluster, err := clusterRow(c.Tx, c.actor.OrgID, l.HolderID)
	note = "its sender was connected again"
	if isReason(err, controlapi.ReasonNotFound) {
		note = "its cluster was registered and its sender connected again: set its labels"
		wanted, checkErr := ClusterRequest{ID: l.HolderID}.cluster()
		if checkErr != nil {
			return false, "", checkErr
		}
		cluster, err = c.registerCluster(wanted)
	}
	switch {
	case isReason(err, controlapi.ReasonNameTaken):
		return false, "its cluster was deleted", nil
	case err != nil:
		return false, "", err
	case cluster.State == ClusterRevoked:
		return false, "its cluster is revoked", nil
	case cluster.State == ClusterPending:
		if _, err := c.approve(cluster); err != nil {
			return false, "", err
		}
	}
	_, err = c.connectNew(l.operator, l.HolderID, "")
	return err == nil, note, err
}
