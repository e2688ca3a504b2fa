// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package itemlimit

import (
	"context"

	"go.opentelemetry.io/collector/pdata/plog"
)

var logSizer plog.ProtoMarshaler

func (l *itemLimit) logs(ctx context.Context, ld plog.Logs) (plog.Logs, error) {
	before := ld.LogRecordCount()
	ld.ResourceLogs().RemoveIf(l.resourceLogs)
	return ld, l.end(ctx, before-ld.LogRecordCount(), ld.ResourceLogs().Len())
}

// resourceLogs reports whether nothing of a resource may stay. Further down, around
// is the size of a part and of what it stands in, until the items are taken off.
func (l *itemLimit) resourceLogs(rl plog.ResourceLogs) bool {
	around := logSizer.ResourceLogsSize(rl)
	if around <= l.max {
		return false
	}
	scopes := rl.ScopeLogs()
	before := scopes.Len()
	sizes := make([]int, before)
	for i := range sizes {
		sizes[i] = logSizer.ScopeLogsSize(scopes.At(i))
		around -= framed(sizes[i])
	}
	scopes.RemoveIf(func(sl plog.ScopeLogs) bool {
		size := sizes[0]
		sizes = sizes[1:]
		return l.scopeLogs(sl, around+size)
	})
	return around > l.maxAround || before > 0 && scopes.Len() == 0
}

func (l *itemLimit) scopeLogs(sl plog.ScopeLogs, around int) bool {
	if around <= l.max {
		return false
	}
	before := sl.LogRecords().Len()
	sl.LogRecords().RemoveIf(func(record plog.LogRecord) bool {
		size := logSizer.LogRecordSize(record)
		around -= framed(size)
		return size > l.max
	})
	return around > l.maxAround || before > 0 && sl.LogRecords().Len() == 0
}
