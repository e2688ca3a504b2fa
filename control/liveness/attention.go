// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
)

// Kinds of attention, in the order in which they are listed.
const (
	AttentionUnconfirmed = "unconfirmed" // a revocation
	AttentionRecovering  = "recovering"  // an operator, since a restore
	AttentionLost        = "sender_lost" // in a restore
	AttentionOperator    = "operator_offline"
	AttentionSilent      = "sender_silent"
	AttentionExpired     = "expired"
	AttentionRenewal     = "renewal_failing"
	AttentionRefused     = "sender_refused"
	AttentionCA          = "ca_ending"
	AttentionServer      = "server_certificate_ending"
	AttentionBackup      = "backup_old"
	AttentionPending     = "clusters_pending"
)

// When something that ends, or was long ago, needs attention.
const (
	// caEndingSoon leaves time to touch every sender of an operator: a CA is
	// replaced by a new operator (PK-13).
	caEndingSoon = 180 * 24 * time.Hour
	// serverEndingSoon is for a certificate given by --tls-cert; the server renews
	// its own long before.
	serverEndingSoon = 7 * 24 * time.Hour
	// backupOldAfter is a day and what a nightly job may be late.
	backupOldAfter = 26 * time.Hour
)

// Attention is one thing that somebody should look at: what, since when, why in
// words, and the command that shows more. Object is the name of it; OperatorID and
// HolderID are set where it is an operator's or a sender's.
type Attention struct {
	Kind       string     `json:"kind"`
	Object     string     `json:"object"`
	OperatorID string     `json:"operatorId,omitempty"`
	HolderID   string     `json:"holderId,omitempty"`
	Since      *time.Time `json:"since,omitempty"`
	Why        string     `json:"why"`
	Command    string     `json:"command"`
}

// addUnconfirmed lists the revocations that an operator has not confirmed, or of
// which none is known that could.
func (s *Summary) addUnconfirmed(tx *ledger.Tx, orgID string) error {
	return each(tx, func(scan func(...any) error) error {
		var id, subject string
		var at int64
		var waiting, nobody int
		if err := scan(&id, &subject, &at, &waiting, &nobody); err != nil {
			return err
		}
		since := time.UnixMilli(at).UTC().Truncate(time.Second)
		s.Attention = append(s.Attention, Attention{
			Kind: AttentionUnconfirmed, Object: id, Since: &since,
			Why:     fmt.Sprintf("the revocation of %s is not confirmed by %s", subject, whom(waiting-nobody, nobody)),
			Command: "ikhnos receipt get " + id,
		})
		return nil
	}, `SELECT r.id, r.subject, r.committed_at_ms, COUNT(*), SUM(CASE WHEN i.instance = '`+operators.AnyInstance+`' THEN 1 ELSE 0 END)`+
		unconfirmed+` AND r.org_id = $2
		GROUP BY r.id, r.subject, r.committed_at_ms ORDER BY r.committed_at_ms DESC`, s.At.Unix(), orgID)
}

// whom names who has not confirmed: instances that are known, and operators of
// which no instance is.
func whom(instances, nobody int) string {
	if nobody == 0 {
		return count(instances, "instance")
	}
	unknown := count(nobody, "operator") + " of which no instance has ever reported"
	if instances == 0 {
		return unknown
	}
	return count(instances, "instance") + " and " + unknown
}

// addOffline lists operators that fell silent, each with what hangs on it.
func (s *Summary) addOffline(ops []operators.Operator, statuses []SenderStatus, known map[string]evidence) {
	behind := map[string]int{}
	for _, sender := range statuses {
		if sender.Status == StatusNotMeasured {
			behind[sender.OperatorID]++
		}
	}
	for _, op := range ops {
		if op.Status != StateOffline {
			continue
		}
		s.Attention = append(s.Attention, Attention{
			Kind: AttentionOperator, Object: op.ID, OperatorID: op.ID, Since: known[op.ID].lastHeard(),
			Why:     fate(behind[op.ID]),
			Command: "ikhnos operator get " + op.ID,
		})
	}
}

func fate(senders int) string {
	switch senders {
	case 0:
		return "nobody sends to it"
	case 1:
		return "its one sender is not measured"
	default:
		return fmt.Sprintf("its %d senders are not measured", senders)
	}
}

// addSenders counts senders and lists those in need, by what is wrong.
func (s *Summary) addSenders(statuses []SenderStatus) {
	active := map[string]int{} // by operator
	for _, sender := range statuses {
		s.Senders[sender.Status]++
		if sender.Status == StatusActive {
			active[sender.OperatorID]++
		}
	}
	for _, kind := range []struct {
		status, kind string
		why          func(SenderStatus) string
	}{
		{StatusSilent, AttentionSilent, func(one SenderStatus) string { return others(active[one.OperatorID], one.OperatorID) }},
		{StatusExpired, AttentionExpired, func(SenderStatus) string { return "its newest certificate has ended" }},
		{StatusRenewalFailing, AttentionRenewal, func(one SenderStatus) string { return failing(one, s.At) }},
		{StatusRefused, AttentionRefused, func(one SenderStatus) string { return refusals(one.Refused) }},
	} {
		for _, sender := range statuses {
			if sender.Status == kind.status {
				s.Attention = append(s.Attention, s.senderLine(kind.kind, sender, kind.why(sender)))
			}
		}
	}
}

func (s *Summary) senderLine(kind string, sender SenderStatus, why string) Attention {
	line := Attention{
		Kind: kind, Object: sender.Name, OperatorID: sender.OperatorID, HolderID: sender.HolderID,
		Since: sender.LastAcceptedAt, Why: why,
		Command: "ikhnos sender get " + sender.HolderID + " --operator " + sender.OperatorID,
	}
	switch {
	case kind == AttentionExpired:
		line.Since = sender.NotAfter
	case kind == AttentionRenewal && sender.RenewalRefused != "":
		line.Since, line.Command = sender.RenewalRefusedAt, "ikhnos explain "+sender.RenewalRefused
	case kind == AttentionRenewal:
		line.Since = sender.RenewBy
	}
	return line
}

// others tells whether a silence is one sender's or everybody's.
func others(active int, operatorID string) string {
	switch active {
	case 0:
		return "nobody else sends through " + operatorID + " either"
	case 1:
		return "the one other behind " + operatorID + " sends"
	default:
		return fmt.Sprintf("the %d others behind %s send", active, operatorID)
	}
}

func failing(sender SenderStatus, now time.Time) string {
	why := "its certificate ends in " + Length(sender.NotAfter.Sub(now))
	if sender.RenewalRefused == "" {
		return why + "; it has not asked for its renewal"
	}
	return why + "; its last attempt was refused: " + sender.RenewalRefused
}

// refusals names reasons, the most frequent first.
func refusals(counts map[string]int64) string {
	reasons := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	if len(reasons) == 0 {
		return "its last requests were refused"
	}
	return "its last requests were refused: " + strings.Join(reasons, ", ")
}

// addReceivers lists operators that run, with a certificate that does not renew.
func (s *Summary) addReceivers(ops []operators.Operator) {
	for _, op := range ops {
		line := Attention{
			Object: op.ID, OperatorID: op.ID, Command: "ikhnos cert list --operator " + op.ID + " --holder " + op.ID,
		}
		switch c := op.Certificates; op.Status {
		case StatusExpired:
			line.Kind, line.Since = AttentionExpired, c.ReceiverNotAfter
			line.Why = "its receiver's certificate has ended: no sender can connect"
		case StatusRenewalFailing:
			line.Kind, line.Since = AttentionRenewal, c.ReceiverRenewBy
			line.Why = "its receiver's certificate ends in " + Length(c.ReceiverNotAfter.Sub(s.At))
		default:
			continue
		}
		s.Attention = append(s.Attention, line)
	}
}

// addAuthorities finds the CA that ends next and lists those that end soon.
func (s *Summary) addAuthorities(tx *ledger.Tx, orgID string) error {
	return each(tx, func(scan func(...any) error) error {
		var id string
		var der []byte
		if err := scan(&id, &der); err != nil {
			return err
		}
		ca, err := x509.ParseCertificate(der)
		if err != nil {
			return fmt.Errorf("parsing the CA certificate of %s: %w", id, err)
		}
		ends := ca.NotAfter.UTC()
		if s.NextCAEnd == nil || ends.Before(*s.NextCAEnd) {
			s.NextCAEnd = &ends
		}
		if left := ends.Sub(s.At); left < caEndingSoon {
			s.Attention = append(s.Attention, Attention{
				Kind: AttentionCA, Object: id, OperatorID: id,
				Why:     "its CA ends in " + Length(max(left, 0)) + ", and every certificate below it; create its successor and move its senders",
				Command: "ikhnos ca show " + id,
			})
		}
		return nil
	}, `SELECT id, client_ca_cert FROM operators WHERE org_id = $1 AND state = 'active' ORDER BY id`, orgID)
}

// addServer lists what the server itself needs, and counts confirmed policies.
func (s *Summary) addServer(tx *ledger.Tx, orgID string) error {
	if ends := s.Server.CertificateEnds; ends != nil && ends.Sub(s.At) < serverEndingSoon {
		s.Attention = append(s.Attention, Attention{
			Kind: AttentionServer, Object: "server",
			Why:     "the control server's own certificate ends in " + Length(max(ends.Sub(s.At), 0)),
			Command: "ikhnos doctor",
		})
	}
	last, err := LastBackup(tx)
	if err != nil {
		return err
	}
	s.Server.LastBackupAt = last
	if last != nil && s.At.Sub(*last) > backupOldAfter {
		s.Attention = append(s.Attention, Attention{
			Kind: AttentionBackup, Object: "server", Since: last,
			Why:     "no backup has succeeded for " + Length(s.At.Sub(*last)),
			Command: "ikhnos backup --help",
		})
	}
	return tx.QueryRow(`SELECT COUNT(*), COALESCE(SUM(confirmed), 0) FROM (
		SELECT MIN(CASE WHEN r.epoch > c.epoch OR r.epoch = c.epoch AND r.number >= o.change_number THEN 1 ELSE 0 END) AS confirmed
		FROM operators o JOIN reports r ON r.operator_id = o.id JOIN change_counter c ON c.id = 1
		WHERE o.org_id = $1 AND o.state = 'active' AND r.reported_at >= $2 GROUP BY o.id) AS reporting`,
		orgID, s.At.Add(-OnlineFor).Unix()).Scan(&s.Server.PolicyOperators, &s.Server.PolicyConfirmed)
}

// addPending lists the clusters that wait for a person, in one line.
func (s *Summary) addPending() {
	n := s.Clusters[string(operators.ClusterPending)]
	if n == 0 {
		return
	}
	why := "registered, and waiting for a person"
	s.Attention = append(s.Attention, Attention{
		Kind: AttentionPending, Object: count(n, "cluster"), Why: why, Command: "ikhnos cluster list --state pending",
	})
}

// count is "1 instance", "2 instances".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// SettingLastBackup is the setting in which a backup leaves the time of its
// success, Unix seconds in decimal.
const SettingLastBackup = "backup_last_success"

// LastBackup is when the last backup succeeded, nil before the first.
func LastBackup(tx *ledger.Tx) (*time.Time, error) {
	text, ok, err := tx.Setting(SettingLastBackup)
	if err != nil || !ok {
		return nil, err
	}
	seconds, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("reading the time of the last backup: %w", err)
	}
	at := time.Unix(seconds, 0).UTC()
	return &at, nil
}
