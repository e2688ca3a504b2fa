// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"time"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// OperatorInstances is what the instances of an operator enforce, beside the
// version of the policy that is the operator's now.
type OperatorInstances struct {
	Policy controlapi.Version `json:"policy"`
	Items  []OperatorInstance `json:"items"`
}

// OperatorInstance is the last report of one instance. Current says that its policy
// is the operator's, or a later one; Missing are the senders whose state it does not
// know yet.
type OperatorInstance struct {
	Instance       string                  `json:"instance"`
	Version        string                  `json:"version"`
	StartedAt      time.Time               `json:"startedAt"`
	ReportedAt     time.Time               `json:"reportedAt"`
	Policy         controlapi.ReportPolicy `json:"policy"`
	Current        bool                    `json:"current"`
	Missing        []MissingSender         `json:"missing"`
	ReceiverSerial string                  `json:"receiverSerial"`
	ClockOffsetMs  int64                   `json:"clockOffsetMs"`
}

// MissingSender is a sender with the state that it has since a later version.
type MissingSender struct {
	Name  string                 `json:"name"`
	State controlapi.SenderState `json:"state"`
	Since controlapi.Version     `json:"since"`
}

// OperatorCA is the CA of an operator. KeyErased says that it signs nothing more.
type OperatorCA struct {
	OperatorID  string    `json:"operatorId"`
	Certificate string    `json:"certificate"` // PEM
	NotBefore   time.Time `json:"notBefore"`
	NotAfter    time.Time `json:"notAfter"`
	SPKI        string    `json:"spkiSha256"`
	KeyErased   bool      `json:"keyErased"`
}

// statePaths registers what operators run and what they trust.
func (s *Server) statePaths() {
	admin(s, endpoint{method: http.MethodGet, path: operatorPath + "/instances", role: operators.RoleViewer, summary: "What each instance of an operator enforces"},
		func(ctx context.Context, r *request, _ none) (out OperatorInstances, err error) {
			return out, s.viewOperator(ctx, r, func(tx *ledger.Tx, id string) error {
				out, err = instancesOf(tx, id)
				return err
			})
		})
	admin(s, endpoint{method: http.MethodGet, path: operatorPath + "/ca", role: operators.RoleViewer, summary: "The CA of an operator"},
		func(ctx context.Context, r *request, _ none) (out OperatorCA, err error) {
			return out, s.viewOperator(ctx, r, func(tx *ledger.Tx, id string) error {
				out, err = authorityOf(tx, id)
				return err
			})
		})
}

func instancesOf(tx *ledger.Tx, id string) (OperatorInstances, error) {
	out := OperatorInstances{Items: []OperatorInstance{}}
	now, err := tx.Version()
	if err != nil {
		return out, err
	}
	out.Policy.Epoch = now.Epoch
	if err := tx.QueryRow(`SELECT change_number FROM operators WHERE id = $1`, id).Scan(&out.Policy.Number); err != nil {
		return out, fmt.Errorf("reading an operator's version: %w", err)
	}
	err = each(tx, `SELECT report, reported_at FROM reports WHERE operator_id = $1 ORDER BY instance`, func(scan func(...any) error) error {
		var text string
		var at int64
		if err := scan(&text, &at); err != nil {
			return err
		}
		var report controlapi.Report
		if err := json.Unmarshal([]byte(text), &report); err != nil {
			return fmt.Errorf("reading a report: %w", err)
		}
		out.Items = append(out.Items, OperatorInstance{
			Instance: report.Instance, Version: report.Version, StartedAt: report.StartedAt, ReportedAt: time.Unix(at, 0).UTC(),
			Policy: report.Policy, Current: !older(report.Policy.Version, out.Policy), Missing: []MissingSender{},
			ReceiverSerial: report.ReceiverSerial, ClockOffsetMs: report.ClockOffsetMs,
		})
		return nil
	}, id)
	if err != nil {
		return out, err
	}
	return out, out.addMissing(tx, id)
}

func older(a, b controlapi.Version) bool {
	return a.Epoch < b.Epoch || a.Epoch == b.Epoch && a.Number < b.Number
}

// addMissing tells each instance's senders that changed after its version.
func (o *OperatorInstances) addMissing(tx *ledger.Tx, id string) error {
	return each(tx, `SELECT name, state, since_epoch, since_number FROM senders
		WHERE operator_id = $1 AND removed_at IS NULL ORDER BY name`, func(scan func(...any) error) error {
		var m MissingSender
		if err := scan(&m.Name, &m.State, &m.Since.Epoch, &m.Since.Number); err != nil {
			return err
		}
		for i := range o.Items {
			if item := &o.Items[i]; older(item.Policy.Version, m.Since) {
				item.Missing = append(item.Missing, m)
			}
		}
		return nil
	}, id)
}

func authorityOf(tx *ledger.Tx, id string) (OperatorCA, error) {
	out := OperatorCA{OperatorID: id}
	var der []byte
	err := tx.QueryRow(`SELECT client_ca_cert, client_ca_key IS NULL, client_ca_spki FROM operators WHERE id = $1`, id).
		Scan(&der, &out.KeyErased, &out.SPKI)
	if err != nil {
		return out, fmt.Errorf("reading a CA: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return out, fmt.Errorf("parsing a CA: %w", err)
	}
	out.Certificate = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	out.NotBefore, out.NotAfter = cert.NotBefore.UTC(), cert.NotAfter.UTC()
	return out, nil
}
