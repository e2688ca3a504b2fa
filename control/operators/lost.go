// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
)

// LostSender is a sender that an operator allows because the policy of an earlier
// epoch did, and that the restored store knows nothing of. It stays allowed until
// its leaf is adopted or it is revoked. One that was accepted within the last day
// cannot be a sender that was removed: those are remembered for longer.
type LostSender struct {
	OperatorID     string
	HolderID       string
	Name           string
	LastAcceptedAt time.Time
}

// LostSenders lists them from what the operators of an organisation report; none
// before the first restore.
func LostSenders(tx *ledger.Tx, orgID string) ([]LostSender, error) {
	version, err := tx.Version()
	if err != nil || version.Epoch == ledger.FirstEpoch {
		return nil, err
	}
	type report struct {
		operatorID string
		senders    []controlapi.ReportSender
	}
	scan := func(r scanner) (found report, err error) {
		var text string
		if err := r.Scan(&found.operatorID, &text); err != nil {
			return found, err
		}
		var content controlapi.Report
		err = json.Unmarshal([]byte(text), &content)
		found.senders = content.Senders
		return found, err
	}
	reports, err := collect(tx, scan, `SELECT r.operator_id, r.report FROM reports r JOIN operators o ON o.id = r.operator_id
		WHERE o.org_id = $1 AND o.state = 'active' AND r.epoch = $2 ORDER BY r.operator_id, r.instance`,
		orgID, version.Epoch)
	if err != nil || len(reports) == 0 {
		return nil, err
	}
	known, err := collect(tx, scanString, `SELECT name FROM senders WHERE org_id = $1`, orgID)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, name := range known {
		seen[name] = true
	}
	var lost []LostSender
	for _, r := range reports {
		for _, s := range r.senders {
			holderID, ok := strings.CutPrefix(s.Name, identity.SenderName(r.operatorID, ""))
			if !ok || seen[s.Name] || s.LastAcceptedAt == nil || tx.Now().Sub(*s.LastAcceptedAt) >= vouchFor {
				continue
			}
			seen[s.Name] = true
			lost = append(lost, LostSender{r.operatorID, holderID, s.Name, controlapi.Seconds(*s.LastAcceptedAt)})
		}
	}
	return lost, nil
}

// senderToRevoke is a sender, or one that only its operator still knows: that one
// is entered, so that the next policy can deny it.
func (c *change) senderToRevoke(operatorID, holderID string) (Sender, error) {
	sender, err := senderRow(c.Tx, c.actor.OrgID, operatorID, holderID)
	if !isReason(err, controlapi.ReasonNotFound) {
		return sender, err
	}
	lost, lostErr := LostSenders(c.Tx, c.actor.OrgID)
	if lostErr != nil {
		return Sender{}, lostErr
	}
	for _, l := range lost {
		if l.OperatorID == operatorID && l.HolderID == holderID {
			return c.enterLost(l)
		}
	}
	return Sender{}, err
}

func (c *change) enterLost(l LostSender) (Sender, error) {
	kind := controlapi.KindCluster
	if strings.HasPrefix(l.HolderID, operatorPrefix) {
		kind = controlapi.KindOperator
	}
	version, err := c.Version()
	if err != nil {
		return Sender{}, fmt.Errorf("reading the change number: %w", err)
	}
	if _, err := c.connect(l.OperatorID, l.HolderID, kind, "", controlapi.Version(version)); err != nil {
		return Sender{}, err
	}
	return senderRow(c.Tx, c.actor.OrgID, l.OperatorID, l.HolderID)
}
