// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ikhnos/continuum/internal/identity"
)

// forgedOperator is the operator that the forged record claims to come through.
const forgedOperator = "op-evil"

// Forgery plants another cluster's identity in every place a log can hold it, in
// the exact keys and in spellings that some store would take for them.
func Forgery(logs plog.ResourceLogs, record plog.LogRecord) {
	resource := logs.Resource().Attributes()
	resource.PutStr(identity.KeyClusterID, ClusterID)
	resource.PutStr(identity.KeyOperatorID, forgedOperator)
	resource.PutStr("Continuum_Cluster_ID", ClusterID)
	scope := logs.ScopeLogs().At(0).Scope().Attributes()
	scope.PutStr("continuum-cluster-id", ClusterID)
	record.Attributes().PutStr(identity.KeyClusterID, ClusterID)
	record.Attributes().PutStr("..continuum.operator.id", forgedOperator)
}

// SendLog sends one log record to a cluster's collector as an application of that
// host would: OTLP on loopback, without a certificate. change may edit it.
func (f *Fleet) SendLog(ctx context.Context, clusterID, body string, change func(plog.ResourceLogs, plog.LogRecord)) error {
	conn, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", f.collectors[clusterID].GRPCPort),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("dialling the collector of %s: %w", clusterID, err)
	}
	defer func() { _ = conn.Close() }()
	logs := plog.NewLogs()
	resource := logs.ResourceLogs().AppendEmpty()
	resource.Resource().Attributes().PutStr("service.name", "application")
	record := resource.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
	record.Body().SetStr(body)
	if change != nil {
		change(resource, record)
	}
	if _, err := plogotlp.NewGRPCClient(conn).Export(ctx, plogotlp.NewExportRequestFromLogs(logs)); err != nil {
		return fmt.Errorf("sending through %s: %w", clusterID, err)
	}
	return nil
}

// Stamped returns an error when a record does not carry exactly the identity of
// a cluster behind the regional operator.
func Stamped(r Record, clusterID string) error {
	for key, want := range map[string]string{
		identity.KeyOrgID:        OrgID,
		identity.KeyClusterID:    clusterID,
		identity.KeyOperatorID:   RegionalID,
		identity.KeyOperatorName: "EU West",
		"region":                 "eu-west", // label of the operator
		"env":                    "demo",    // label of the cluster
	} {
		if got := r.Attribute(key); got != want {
			return fmt.Errorf("%s record %q: %s is %q, not %q", r.Signal, r.Summary, key, got, want)
		}
	}
	return nil
}

// Clean returns an error when a record carries anything reserved beside what the
// operators stamp: another spelling on the resource, or anything below it.
func Clean(r Record) error {
	stamped := []string{identity.KeyOrgID, identity.KeyClusterID, identity.KeyOperatorID, identity.KeyOperatorName}
	for _, key := range slices.Sorted(maps.Keys(r.Resource)) {
		if reserved(key) && !slices.Contains(stamped, key) {
			return fmt.Errorf("%s record %q: %s survived on the resource", r.Signal, r.Summary, key)
		}
	}
	for _, attributes := range []map[string]any{r.Scope, r.Item} {
		for _, key := range slices.Sorted(maps.Keys(attributes)) {
			if reserved(key) {
				return fmt.Errorf("%s record %q: %s survived below the resource", r.Signal, r.Summary, key)
			}
		}
	}
	return nil
}

func reserved(key string) bool {
	normal := identity.NormalForm(key)
	return normal == "continuum" || strings.HasPrefix(normal, "continuum_")
}
