// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"net/url"
	"strings"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// SenderName is the name on a sender's certificate, CN and DNS SAN alike. It is
// compared whole and never split.
func SenderName(operatorID, holderID string) string { return operatorID + "-export-" + holderID }

// TrustDomain is the host of every URI that an operator's CA may sign.
func TrustDomain(operatorID string) string { return operatorID + ".ikhnos" }

// SenderURI is the URI SAN of a sender's certificate.
func SenderURI(operatorID string, kind controlapi.Kind, holderID string) string {
	return "spiffe://" + TrustDomain(operatorID) + "/" + string(kind) + "/" + holderID
}

// ParseSenderURI takes a URI of the form that SenderURI makes apart. ok is false
// for any other URI.
func ParseSenderURI(u *url.URL) (operatorID string, kind controlapi.Kind, holderID string, ok bool) {
	if !strings.EqualFold(u.Scheme, "spiffe") || u.User != nil || u.Port() != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", "", "", false
	}
	operatorID, ok = strings.CutSuffix(strings.ToLower(u.Host), ".ikhnos")
	if !ok || operatorID == "" {
		return "", "", "", false
	}
	kindText, holderID, ok := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if !ok || holderID == "" || strings.Contains(holderID, "/") {
		return "", "", "", false
	}
	kind = controlapi.Kind(kindText)
	if kind != controlapi.KindCluster && kind != controlapi.KindOperator {
		return "", "", "", false
	}
	return operatorID, kind, holderID, true
}

// ReceiverNames are the DNS SANs of a receiver's certificate: the stable name of
// the operator and the name of the Service that its chart installs, each in the
// forms under which Kubernetes resolves them.
func ReceiverNames(operatorID string) []string {
	var names []string
	for _, base := range []string{operatorID, operatorID + "-regional-operator"} {
		names = append(names, base,
			base+".continuum-system",
			base+".continuum-system.svc",
			base+".continuum-system.svc.cluster.local")
	}
	return names
}

// StableName is the name by which senders verify an operator, whatever address
// they dial (server_name_override in an exporter's tls block).
func StableName(operatorID string) string { return operatorID + ".continuum-system.svc" }
