// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"

	"github.com/ikhnos/continuum/internal/controlapi"
)

func instanceOf(kind component.Kind, name string) componentstatus.InstanceID {
	return *componentstatus.NewInstanceID(component.NewIDWithName(component.MustNewType("x"), name), kind)
}

// TestHealth: HB-4, HB-5, HB-9: the status is of components, not of what they deliver,
// and there is no pipeline for it.
func TestHealth(t *testing.T) {
	receiver := instanceOf(component.KindReceiver, "r")
	exporter := instanceOf(component.KindExporter, "e")
	type event struct {
		after  time.Duration
		source componentstatus.InstanceID
		status componentstatus.Status
	}
	for _, tt := range []struct {
		name   string
		events []event
		at     time.Duration
		want   controlapi.HealthStatus
	}{
		{"nothing heard", nil, 0, controlapi.HealthOK},
		{"running", []event{{0, receiver, componentstatus.StatusOK}}, time.Hour, controlapi.HealthOK},
		{"recoverable for less than 60 s", []event{{0, exporter, componentstatus.StatusRecoverableError}}, 59 * time.Second, controlapi.HealthOK},
		{"recoverable for 60 s", []event{{0, exporter, componentstatus.StatusRecoverableError}}, 60 * time.Second, controlapi.HealthRecoverableError},
		{"reported again meanwhile", []event{
			{0, exporter, componentstatus.StatusRecoverableError},
			{50 * time.Second, exporter, componentstatus.StatusRecoverableError},
		}, 60 * time.Second, controlapi.HealthRecoverableError},
		{"recovered and failed again", []event{
			{0, exporter, componentstatus.StatusRecoverableError},
			{50 * time.Second, exporter, componentstatus.StatusOK},
			{55 * time.Second, exporter, componentstatus.StatusRecoverableError},
		}, 60 * time.Second, controlapi.HealthOK},
		{"permanent at once", []event{{0, receiver, componentstatus.StatusPermanentError}}, 0, controlapi.HealthPermanentError},
		{"fatal at once", []event{{0, receiver, componentstatus.StatusFatalError}}, 0, controlapi.HealthPermanentError},
		{"recoverable, then permanent", []event{
			{0, receiver, componentstatus.StatusRecoverableError},
			{time.Second, receiver, componentstatus.StatusPermanentError},
		}, 2 * time.Second, controlapi.HealthPermanentError},
		{"the worst of several", []event{
			{0, exporter, componentstatus.StatusRecoverableError},
			{0, receiver, componentstatus.StatusPermanentError},
			{0, instanceOf(component.KindProcessor, "p"), componentstatus.StatusOK},
		}, time.Hour, controlapi.HealthPermanentError},
		{"a stopped one is forgotten", []event{
			{0, receiver, componentstatus.StatusPermanentError},
			{time.Second, receiver, componentstatus.StatusStopping},
		}, time.Minute, controlapi.HealthOK},
		{"connectors count", []event{{0, instanceOf(component.KindConnector, "c"), componentstatus.StatusPermanentError}}, 0, controlapi.HealthPermanentError},
		{"processors count", []event{{0, instanceOf(component.KindProcessor, "p"), componentstatus.StatusPermanentError}}, 0, controlapi.HealthPermanentError},
		{"extensions do not", []event{{0, instanceOf(component.KindExtension, "x"), componentstatus.StatusPermanentError}}, time.Hour, controlapi.HealthOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var h health
			start := time.Now()
			for _, e := range tt.events {
				h.observe(e.source, e.status, start.Add(e.after))
			}
			require.Equal(t, tt.want, h.status(start.Add(tt.at)))
		})
	}
}
