// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"reflect"
	"slices"

	"github.com/ikhnos/continuum/control/install"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// Words that query parameters take.
var (
	clusterStates  = []operators.ClusterState{operators.ClusterPending, operators.ClusterApproved, operators.ClusterRevoked}
	clusterKinds   = []operators.ClusterKind{operators.ClusterKubernetes, operators.ClusterHost}
	operatorStates = []operators.OperatorState{operators.OperatorActive, operators.OperatorRevoked}
	operatorRoles  = []operators.OperatorRole{operators.RoleRegional, operators.RoleCentral}
	senderStates   = []controlapi.SenderState{controlapi.SenderAllowed, controlapi.SenderHeld, controlapi.SenderRevoked}
	leafRoles      = []string{ledger.RoleReceiver, ledger.RoleSender}
	leafStates     = []string{ledger.StateValid, ledger.StateSuperseded, ledger.StateRevoked, ledger.StateEnded}
)

// senderWords are what is decided about a sender and how it does.
func senderWords() []string {
	var all []string
	for _, state := range senderStates {
		all = append(all, string(state))
	}
	for _, status := range liveness.Statuses {
		if !slices.Contains(all, status) {
			all = append(all, status)
		}
	}
	return all
}

// typeWords are the words of types that are an enum.
var typeWords = map[reflect.Type][]any{
	reflect.TypeFor[controlapi.Reason]():           words(controlapi.Reasons()...),
	reflect.TypeFor[controlapi.Role]():             words(leafRoles...),
	reflect.TypeFor[controlapi.Kind]():             words(controlapi.KindCluster, controlapi.KindOperator),
	reflect.TypeFor[controlapi.PolicyMode]():       words(controlapi.PolicyEnforce, controlapi.PolicyDenyAll),
	reflect.TypeFor[controlapi.SenderState]():      words(senderStates...),
	reflect.TypeFor[controlapi.HealthStatus]():     words(controlapi.HealthOK, controlapi.HealthRecoverableError, controlapi.HealthPermanentError),
	reflect.TypeFor[controlapi.CertificateState](): words(controlapi.CertificateUsable, controlapi.CertificateOverdue, controlapi.CertificateRefused, controlapi.CertificateExpired),
	reflect.TypeFor[controlapi.ReceiptState]():     words(controlapi.ReceiptConfirmed, controlapi.ReceiptPending, controlapi.ReceiptUnreachable),
	reflect.TypeFor[operators.AdminRole]():         words(operators.RoleViewer, operators.RoleConnector, operators.RoleAdmin, operators.RoleServer),
	reflect.TypeFor[operators.AdoptMode]():         words(operators.AdoptNow, operators.AdoptDryRun),
	reflect.TypeFor[operators.AdoptResult]():       words(operators.AdoptResultAdopted, operators.AdoptResultLeft),
	reflect.TypeFor[operators.ClusterKind]():       words(clusterKinds...),
	reflect.TypeFor[operators.ClusterState]():      words(clusterStates...),
	reflect.TypeFor[operators.OperatorRole]():      words(operatorRoles...),
	reflect.TypeFor[operators.OperatorState]():     words(operatorStates...),
	reflect.TypeFor[operators.Exposure]():          words(operators.ExposureCluster, operators.ExposureNodePort, operators.ExposureLoadBalancer),
	reflect.TypeFor[operators.Switch]():            words(operators.SwitchOff, operators.SwitchOn),
	reflect.TypeFor[operators.KeySource]():         words(operators.KeysEnrolled, operators.KeysPrinted),
	reflect.TypeFor[operators.DestinationKind]():   words(operators.DestinationOTLP, operators.DestinationOperator),
	reflect.TypeFor[operators.CertificateWord]():   words(operators.CertificateNone, operators.CertificateOK, operators.CertificateRenewalFailing, operators.CertificateExpired),
	reflect.TypeFor[operators.RevokeReason]():      words(operators.RevokeCompromised, operators.RevokeRetired, operators.RevokeHold),
	reflect.TypeFor[operators.TokenState]():        words(operators.TokenOpen, operators.TokenSpent, operators.TokenRevoked, operators.TokenExpired),
	reflect.TypeFor[install.Format]():              words(install.Formats()...),
}

// fieldWords are the words of fields that are plain text in Go, by schema.
var fieldWords = map[string][]any{
	"LedgerEntry.role":       words(leafRoles...),
	"LedgerEntry.kind":       words(controlapi.KindCluster, controlapi.KindOperator),
	"LedgerEntry.state":      words(leafStates...),
	"Health.state":           words(liveness.StateUnknown, liveness.StateOnline, liveness.StateOffline),
	"Operator.status":        words(liveness.OperatorStatuses...),
	"Operator.clientCaScope": words(operators.ScopeOperator, "org", ""), // the others are an older server's
	"Operator.receiverAuth":  words(operators.AuthMTLS),
	"SenderStatus.status":    words(liveness.Statuses...),
	"Attention.kind": words(liveness.AttentionUnconfirmed, liveness.AttentionRecovering, liveness.AttentionLost, liveness.AttentionOperator,
		liveness.AttentionSilent, liveness.AttentionExpired, liveness.AttentionRenewal, liveness.AttentionRefused, liveness.AttentionCA,
		liveness.AttentionServer, liveness.AttentionBackup, liveness.AttentionPending),
	"Probe.status": words("ok", "ready"),
}

func words[T ~string](values ...T) []any {
	all := make([]any, len(values))
	for i, value := range values {
		all[i] = string(value)
	}
	return all
}
