// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ikhnos/continuum/internal/identity"
)

// forgedOperator is the operator that the forged record claims to come through.
const forgedOperator = "op-evil"

// claim is one attribute that the forged record carries, and where.
type claim struct{ place, key, value string }

// Places of a claim.
const (
	onResource = "resource"
	onScope    = "scope"
	onRecord   = "record"
)

// claims are another cluster's identity in every place a log can hold it, in the
// exact keys and in spellings that some store would take for them.
var claims = []claim{
	{onResource, identity.KeyClusterID, ClusterID},
	{onResource, identity.KeyOperatorID, forgedOperator},
	{onResource, "Continuum_Cluster_ID", ClusterID},
	{onScope, "continuum-cluster-id", ClusterID},
	{onRecord, identity.KeyClusterID, ClusterID},
	{onRecord, "..continuum.operator.id", forgedOperator},
}

// Forgery plants all claims in a record.
func Forgery(logs plog.ResourceLogs, record plog.LogRecord) {
	places := map[string]pcommon.Map{
		onResource: logs.Resource().Attributes(),
		onScope:    logs.ScopeLogs().At(0).Scope().Attributes(),
		onRecord:   record.Attributes(),
	}
	for _, c := range claims {
		places[c.place].PutStr(c.key, c.value)
	}
}

// fate says what became of a claim in the record that arrived.
func (c claim) fate(r Record) string {
	value, ok := map[string]map[string]any{onResource: r.Resource, onScope: r.Scope, onRecord: r.Item}[c.place][c.key]
	if !ok {
		return "removed"
	}
	return text(value)
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
