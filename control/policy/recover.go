// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// recoverDenials denies again what an operator denied before the server was
// restored: senders that nobody has decided on since, and leaves with all that
// was renewed from them. What the restored store has lost is remembered, so that
// it is never adopted. A report of the present epoch ends the wait of the
// operator's renewals.
func recoverDenials(tx *ledger.Tx, operatorID string, r *controlapi.Report, version ledger.Version) error {
	if r.Policy.Epoch == version.Epoch {
		if err := tx.Recovered(operatorID); err != nil {
			return err
		}
	}
	var names []string
	leaves := 0
	for _, name := range r.Denied.Names {
		denied, err := denyAgain(tx, operatorID, name, version.Epoch)
		if err != nil {
			return err
		}
		if !denied {
			continue
		}
		serials, err := tx.RevokeHolder(operatorID, name, ledger.RoleSender, ledger.ReasonRecovered)
		if err != nil {
			return err
		}
		names, leaves = append(names, name), leaves+len(serials)
	}
	revoked, err := tx.DenySerials(operatorID, r.Denied.Serials)
	if err != nil {
		return err
	}
	if leaves += revoked; len(names) == 0 && leaves == 0 {
		return nil
	}
	return finishRecovery(tx, operatorID, names, leaves)
}

// denyAgain revokes a sender unless somebody has decided on it in this epoch, and
// reports whether it did.
func denyAgain(tx *ledger.Tx, operatorID, name string, epoch int64) (bool, error) {
	result, err := tx.Exec(`UPDATE senders SET state = $1 WHERE operator_id = $2 AND name = $3
		AND state <> $1 AND since_epoch < $4`, controlapi.SenderRevoked, operatorID, name, epoch)
	if err != nil {
		return false, err
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		return n > 0, err
	}
	var known int
	err = tx.QueryRow(`SELECT COUNT(*) FROM senders WHERE operator_id = $1 AND name = $2`, operatorID, name).Scan(&known)
	if err != nil || known > 0 {
		return false, err
	}
	return false, tx.DenyLostName(operatorID, name)
}

func finishRecovery(tx *ledger.Tx, operatorID string, names []string, leaves int) error {
	version, err := tx.NextVersion(operatorID)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := tx.Exec(`UPDATE senders SET since_epoch = $1, since_number = $2 WHERE operator_id = $3 AND name = $4`,
			version.Epoch, version.Number, operatorID, name); err != nil {
			return err
		}
	}
	var orgID string
	if err := tx.QueryRow(`SELECT org_id FROM operators WHERE id = $1`, operatorID).Scan(&orgID); err != nil {
		return err
	}
	return tx.Audit(audit.Entry{
		OrgID: orgID, Actor: operatorID, Event: audit.DenialsRecovered, Object: operatorID,
		Detail: map[string]any{"names": names, "leaves": leaves},
	})
}
