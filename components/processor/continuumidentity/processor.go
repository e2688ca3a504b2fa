// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"context"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pipeline"
	"go.opentelemetry.io/collector/processor"

	"github.com/ikhnos/continuum/components/processor/continuumidentity/internal/metadata"
	"github.com/ikhnos/continuum/internal/identity"
)

// defaultReservedKeys choose the tenant in a VictoriaMetrics cluster.
var defaultReservedKeys = []string{"vm_account_id", "vm_project_id"}

// operatorStamp is what the block `operator` makes of every resource.
type operatorStamp struct {
	keys   *identity.KeySet // every spelling of them goes
	attrs  []attr
	labels *identity.KeySet
}

// identityProcessor works on one signal. It keeps nothing of one request for the
// next, and needs no Start.
type identityProcessor struct {
	signal    string
	mode      Mode // empty without the block `sender`
	senders   senders
	reserved  *identity.Reserved // reserves nothing without the block `sender`
	operator  *operatorStamp     // nil without the block
	below     LabelsBelow
	telemetry *metadata.TelemetryBuilder
	log       *conflictLog
}

func newProcessor(set processor.Settings, cfg *Config, signal pipeline.Signal) (*identityProcessor, error) {
	telemetry, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	p := &identityProcessor{
		signal:    signal.String(),
		senders:   senders{attributes: certnameauthAttributes},
		reserved:  &reservesNothing,
		operator:  newOperatorStamp(cfg.Operator.Get()),
		below:     cfg.LabelsBelow,
		telemetry: telemetry,
		log:       newConflictLog(set.Logger, time.Now),
	}
	if sender := cfg.Sender.Get(); sender != nil {
		p.mode, p.senders.attributes = sender.Mode, sender.Attributes
		p.reserved = identity.NewReserved(slices.Concat(defaultReservedKeys, cfg.ReservedKeys)...)
	}
	return p, nil
}

func newOperatorStamp(cfg *OperatorConfig) *operatorStamp {
	if cfg == nil {
		return nil
	}
	labels := slices.Collect(maps.Keys(cfg.Labels))
	return &operatorStamp{
		keys:   identity.NewKeySet(append(labels, identity.KeyOperatorID, identity.KeyOperatorName)...),
		attrs:  appendLabels(operatorAttrs(cfg.ID, cfg.Name), cfg.Labels, nil),
		labels: identity.NewKeySet(labels...),
	}
}

func (p *identityProcessor) shutdown(context.Context) error {
	p.telemetry.Shutdown()
	return nil
}
