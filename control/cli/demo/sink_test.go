// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"

	"github.com/ikhnos/continuum/internal/identity"
)

func exportLog(t *testing.T, s *Sink, cluster, body string, change func(plog.ResourceLogs, plog.LogRecord)) {
	t.Helper()
	logs := plog.NewLogs()
	resource := logs.ResourceLogs().AppendEmpty()
	resource.Resource().Attributes().PutStr(identity.KeyClusterID, cluster)
	record := resource.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
	record.Body().SetStr(body)
	if change != nil {
		change(resource, record)
	}
	_, err := (&logsServer{sink: s}).Export(t.Context(), plogotlp.NewExportRequestFromLogs(logs))
	require.NoError(t, err)
}

func TestSinkKeepsTheLastRecordsOfEachSender(t *testing.T) {
	s := NewSink(func() time.Time { return time.Unix(0, 0) }, nil)
	defer s.Stop()
	for i := range keepPerSender + 5 {
		exportLog(t, s, "c1", fmt.Sprint(i), nil)
	}
	exportLog(t, s, "c2", "one", nil)
	kept := s.Records("c1", SignalLogs)
	require.Len(t, kept, keepPerSender)
	assert.Equal(t, "5", kept[0].Summary)
	assert.Equal(t, map[string]int{"c1": keepPerSender + 5, "c2": 1}, s.Counts())
}

func TestSinkWaitEndsWithItsContext(t *testing.T) {
	s := NewSink(time.Now, nil)
	defer s.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Wait(ctx, func(Record) bool { return true })
	require.ErrorIs(t, err, context.Canceled)
}

// TestForgeryIsSeen: what the demo plants is what its checks find when nobody
// strips it, so a collector that strips nothing fails the demo.
func TestForgeryIsSeen(t *testing.T) {
	s := NewSink(time.Now, nil)
	defer s.Stop()
	exportLog(t, s, ForgerID, "forged", Forgery)
	r, err := s.Wait(t.Context(), func(Record) bool { return true })
	require.NoError(t, err)
	require.Error(t, Clean(r))
	require.Error(t, Stamped(r, ForgerID))
}

func TestSinkPage(t *testing.T) {
	s := NewSink(func() time.Time { return time.Unix(0, 0) }, nil)
	defer s.Stop()
	exportLog(t, s, "c1", "<script>alert(1)</script>", func(_ plog.ResourceLogs, r plog.LogRecord) {
		r.Attributes().PutStr("user", "alice")
	})
	w := httptest.NewRecorder()
	s.Page().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?sender=c1", nil))
	page := w.Body.String()
	assert.Contains(t, page, "&lt;script&gt;")
	assert.NotContains(t, page, "<script>")
	assert.Contains(t, page, "continuum.cluster.id=c1")
	assert.Contains(t, page, "item: user=alice")
}
