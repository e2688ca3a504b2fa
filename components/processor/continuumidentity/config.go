// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"errors"
	"fmt"
	"slices"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"

	"github.com/ikhnos/continuum/internal/identity"
)

// Mode says what happens to a claim that is not the sender's to make.
type Mode string

// Modes. ModeOff strips and verifies nothing, ModeStamp overwrites or removes the
// claim, ModeEnforce drops its resource.
const (
	ModeOff     Mode = "off"
	ModeStamp   Mode = "stamp"
	ModeEnforce Mode = "enforce"
)

// LabelsBelow says what happens below the resource to attributes with the name of
// a label.
type LabelsBelow string

// Values of LabelsBelow. LabelsRename puts `exported.` in front of the key.
const (
	LabelsKeep   LabelsBelow = "keep"
	LabelsRename LabelsBelow = "rename"
	LabelsRemove LabelsBelow = "remove"
)

// Guard says whether the check of the whole configuration requires this instance
// to stand behind certnameauth.
type Guard string

// Values of Guard.
const (
	GuardEnforce Guard = "enforce"
	GuardOff     Guard = "off"
)

var (
	errNothingToDo = errors.New("one of `sender` and `operator` is required")
	errMode        = errors.New("`sender::mode` must be one of off, stamp and enforce")
	errLabelsBelow = errors.New("`labels_below` must be one of keep, rename and remove")
	errGuard       = errors.New("`guard` must be one of enforce and off")
	errReservedKey = errors.New("`reserved_keys` must have a letter or digit in each key")
	errOperatorID  = errors.New("`operator::id` must not be empty")
	errAttributes  = errors.New("`sender::attributes` must name `cluster_id` or `operator_id`")
)

// Config of one instance. Usually `sender` and `operator` are two instances, at
// the two ends of a pipeline.
type Config struct {
	// Sender verifies and stamps the authenticated sender.
	Sender configoptional.Optional[SenderConfig] `mapstructure:"sender"`
	// Operator stamps the collector itself.
	Operator configoptional.Optional[OperatorConfig] `mapstructure:"operator"`
	// ReservedKeys are reserved besides `continuum` and everything below it, in
	// every spelling. They are added to vm_account_id and vm_project_id.
	ReservedKeys []string `mapstructure:"reserved_keys"`
	// LabelsBelow is about attributes below the resource that are named like a label.
	LabelsBelow LabelsBelow `mapstructure:"labels_below"`
	// Guard of the whole configuration. It is read there, not here.
	Guard Guard `mapstructure:"guard"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// SenderConfig is about the authenticated sender.
type SenderConfig struct {
	// Mode is off, stamp (default) or enforce.
	Mode Mode `mapstructure:"mode"`
	// Attributes are the names under which the authenticator tells the sender.
	// The defaults are those of certnameauth.
	Attributes Attributes `mapstructure:"attributes"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// Attributes are names of attributes in client.AuthData, none of them a name of
// anything that a sender writes itself. An empty name is never looked up.
type Attributes struct {
	// Name of the sender, for metrics and logs.
	Name string `mapstructure:"name"`
	// Kind is `cluster` or `operator`; without it a sender with an operator id is
	// an operator, any other a cluster.
	Kind string `mapstructure:"kind"`
	// OrgID is written to continuum.org.id.
	OrgID string `mapstructure:"org_id"`
	// ClusterID is written to continuum.cluster.id.
	ClusterID string `mapstructure:"cluster_id"`
	// OperatorID is written to continuum.operator.id.
	OperatorID string `mapstructure:"operator_id"`
	// OperatorName is written to continuum.operator.name.
	OperatorName string `mapstructure:"operator_name"`
	// LabelPrefix starts the names of labels; the rest is the label.
	LabelPrefix string `mapstructure:"label_prefix"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// OperatorConfig is what the collector calls itself.
type OperatorConfig struct {
	ID     string            `mapstructure:"id"`
	Name   string            `mapstructure:"name"`
	Labels map[string]string `mapstructure:"labels"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// certnameauthAttributes are what certnameauth offers.
var certnameauthAttributes = Attributes{
	Name:         identity.AttrName,
	Kind:         identity.AttrKind,
	OrgID:        identity.AttrOrgID,
	ClusterID:    identity.AttrClusterID,
	OperatorID:   identity.AttrOperatorID,
	OperatorName: identity.AttrOperatorName,
	LabelPrefix:  identity.AttrLabelPrefix,
}

func createDefaultConfig() component.Config {
	return &Config{
		Sender:      configoptional.Default(SenderConfig{Mode: ModeStamp, Attributes: certnameauthAttributes}),
		LabelsBelow: LabelsKeep,
		Guard:       GuardEnforce,
	}
}

// Validate reports every fault of the configuration that a field alone does not
// show.
func (c *Config) Validate() error {
	var errs []error
	if !c.Sender.HasValue() && !c.Operator.HasValue() {
		errs = append(errs, errNothingToDo)
	}
	if !slices.Contains([]LabelsBelow{LabelsKeep, LabelsRename, LabelsRemove}, c.LabelsBelow) {
		errs = append(errs, fmt.Errorf("%w, not %q", errLabelsBelow, c.LabelsBelow))
	}
	if c.Guard != GuardEnforce && c.Guard != GuardOff {
		errs = append(errs, fmt.Errorf("%w, not %q", errGuard, c.Guard))
	}
	for _, key := range c.ReservedKeys {
		if identity.NormalForm(key) == "" {
			errs = append(errs, fmt.Errorf("%w, not %q", errReservedKey, key))
		}
	}
	return errors.Join(errs...)
}

// Validate checks the block `sender`.
func (c *SenderConfig) Validate() error {
	var errs []error
	if !slices.Contains([]Mode{ModeOff, ModeStamp, ModeEnforce}, c.Mode) {
		errs = append(errs, fmt.Errorf("%w, not %q", errMode, c.Mode))
	}
	if c.Attributes.ClusterID == "" && c.Attributes.OperatorID == "" {
		errs = append(errs, errAttributes)
	}
	return errors.Join(errs...)
}

// Validate checks the block `operator`.
func (c *OperatorConfig) Validate() error {
	var errs []error
	if c.ID == "" {
		errs = append(errs, errOperatorID)
	}
	if err := identity.CheckLabels(c.Labels); err != nil {
		errs = append(errs, fmt.Errorf("`operator::labels`: %w", err))
	}
	return errors.Join(errs...)
}
