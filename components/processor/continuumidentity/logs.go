// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"context"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
)

func (p *identityProcessor) logs(ctx context.Context, ld plog.Logs) (plog.Logs, error) {
	ps, err := p.begin(ctx, ld.LogRecordCount())
	if err != nil {
		return ld, err
	}
	ld.ResourceLogs().RemoveIf(func(rl plog.ResourceLogs) bool {
		if !ps.resource(rl.Resource().Attributes(), func() int { return logRecordCount(rl) }) {
			return true
		}
		if !ps.skipsBelow() {
			ps.scopeLogs(rl.ScopeLogs())
		}
		return false
	})
	return ld, ps.end(ctx, ld.LogRecordCount)
}

func (ps *pass) scopeLogs(scopes plog.ScopeLogsSlice) {
	for i := range scopes.Len() {
		ps.clean(scopes.At(i).Scope().Attributes(), levelScope)
		records := scopes.At(i).LogRecords()
		for j := range records.Len() {
			record := records.At(j)
			ps.clean(record.Attributes(), levelLogRecord)
			if body := record.Body(); body.Type() == pcommon.ValueTypeMap {
				ps.clean(body.Map(), levelLogBody)
			}
		}
	}
}

func logRecordCount(rl plog.ResourceLogs) (n int) {
	for i := range rl.ScopeLogs().Len() {
		n += rl.ScopeLogs().At(i).LogRecords().Len()
	}
	return n
}
