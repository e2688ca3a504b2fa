// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"

	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/senders"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
	"github.com/ikhnos/continuum/internal/identity"
)

// Config of the extension. Exactly one of Policy and Senders says who may send.
type Config struct {
	// OperatorID is the operator whose senders these are.
	OperatorID string `mapstructure:"operator_id"`
	// Policy is the list that a control server keeps.
	Policy configoptional.Optional[PolicyConfig] `mapstructure:"policy"`
	// Senders is a list that stands in the configuration.
	Senders []SenderConfig `mapstructure:"senders"`
	// Match lists the names of a certificate that are compared: dns_san, uri_san
	// and common_name.
	Match []string `mapstructure:"match"`
	// CRL is a revocation list in a file.
	CRL CRLConfig `mapstructure:"crl"`
	// RequestTimeout bounds how long a request is held, from its headers on.
	RequestTimeout time.Duration `mapstructure:"request_timeout"`
	// Guard says what happens when the configuration leaves a way around this
	// extension.
	Guard GuardConfig `mapstructure:"guard"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// PolicyConfig is a policy that comes from a control server.
type PolicyConfig struct {
	Server controlclient.Config `mapstructure:"server"`
	// Proof is the receiver's own certificate. It is read for every call and may
	// not exist yet.
	Proof ProofConfig `mapstructure:"proof"`
	// CacheFile keeps the policy over restarts. Without it a restart refuses
	// everyone until the server answers.
	CacheFile string `mapstructure:"cache_file"`
	// MaxStaleness refuses requests, retryably, that long after the server last
	// confirmed the policy. Zero keeps the last policy for ever.
	MaxStaleness time.Duration `mapstructure:"max_staleness"`
	// Report is what the server is told: senders, applied or off.
	Report string `mapstructure:"report"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// ProofConfig names the files by which the operator proves who it is. The CA
// file is also what policies are verified against.
type ProofConfig struct {
	CertFile string `mapstructure:"cert_file"`
	KeyFile  string `mapstructure:"key_file"`
	CAFile   string `mapstructure:"ca_file"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// SenderConfig is one sender of a list in the configuration.
type SenderConfig struct {
	Name         string            `mapstructure:"name"`
	Kind         string            `mapstructure:"kind"`
	OrgID        string            `mapstructure:"org_id"`
	ClusterID    string            `mapstructure:"cluster_id"`
	OperatorID   string            `mapstructure:"operator_id"`
	OperatorName string            `mapstructure:"operator_name"`
	Labels       map[string]string `mapstructure:"labels"`
	Vouches      []VouchConfig     `mapstructure:"vouches"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// VouchConfig is one origin whose data an operator may relay.
type VouchConfig struct {
	OrgID     string            `mapstructure:"org_id"`
	ClusterID string            `mapstructure:"cluster_id"`
	Labels    map[string]string `mapstructure:"labels"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// CRLConfig names a revocation list, DER or PEM, and the CA that signs it.
type CRLConfig struct {
	File   string `mapstructure:"file"`
	CAFile string `mapstructure:"ca_file"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// GuardConfig is read by the guard of the whole configuration, too.
type GuardConfig struct {
	Mode            string         `mapstructure:"mode"`
	ExemptReceivers []component.ID `mapstructure:"exempt_receivers"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// Values of Report, Match and Guard.Mode.
const (
	reportSenders = "senders"
	reportApplied = "applied"
	reportOff     = "off"

	matchDNS        = "dns_san"
	matchURI        = "uri_san"
	matchCommonName = "common_name"

	guardEnforce = "enforce"
	guardWarn    = "warn"
	guardOff     = "off"
)

const defaultRequestTimeout = 30 * time.Second

func createDefaultConfig() component.Config {
	return &Config{
		Policy:         configoptional.Default(PolicyConfig{Server: controlclient.NewDefaultConfig(), Report: reportSenders}),
		Match:          []string{matchDNS, matchURI},
		RequestTimeout: defaultRequestTimeout,
		Guard:          GuardConfig{Mode: guardEnforce},
	}
}

var (
	errOperatorID   = errors.New(`"operator_id" is missing: write the id of this operator, such as op-abc`)
	errOneSource    = errors.New(`exactly one of "policy" and "senders" must be set`)
	errProofFiles   = errors.New(`"proof" needs "cert_file", "key_file" and "ca_file": the files of the receiver's certificate`)
	errStaleness    = errors.New(`"max_staleness" must not be negative`)
	errReport       = errors.New(`"report" must be one of senders, applied, off`)
	errMatch        = errors.New(`"match" must list at least one of dns_san, uri_san, common_name`)
	errCRL          = errors.New(`"crl" needs both "file" and "ca_file"`)
	errTimeout      = errors.New(`"request_timeout" must be positive`)
	errGuardMode    = errors.New(`"guard::mode" must be one of enforce, warn, off`)
	errSenderName   = errors.New(`"name" must be the whole name on the sender's certificate, without a wildcard`)
	errSenderKind   = errors.New(`"kind" must be cluster or operator`)
	errSenderOrg    = errors.New(`"org_id" is missing`)
	errClusterIDs   = errors.New(`a cluster needs "cluster_id" and has neither "operator_id", "operator_name" nor "vouches"`)
	errOperatorIDs  = errors.New(`an operator needs "operator_id" and has no "cluster_id"`)
	errVouch        = errors.New(`each of "vouches" needs "org_id" and "cluster_id"`)
	errVouchLabels  = errors.New(`the "labels" of one of "vouches" cannot be used`)
	errSenderTwice  = errors.New("two senders have this name")
	errIdentityDupe = errors.New("two senders have this kind and id")
)

// Validate reports every fault at once.
func (c *Config) Validate() error {
	var faults []error
	check := func(bad bool, fault error) {
		if bad {
			faults = append(faults, fault)
		}
	}
	check(c.OperatorID == "", errOperatorID)
	check(c.Policy.HasValue() == (len(c.Senders) > 0), errOneSource)
	check(len(c.Match) == 0 || slices.ContainsFunc(c.Match, func(m string) bool {
		return m != matchDNS && m != matchURI && m != matchCommonName
	}), errMatch)
	check((c.CRL.File == "") != (c.CRL.CAFile == ""), errCRL)
	check(c.RequestTimeout <= 0, errTimeout)
	check(!slices.Contains([]string{guardEnforce, guardWarn, guardOff}, c.Guard.Mode), errGuardMode)
	return errors.Join(append(faults, c.validateSenders()...)...)
}

func (c *Config) validateSenders() []error {
	var faults []error
	names, uris := map[string]bool{}, map[string]bool{}
	for i, s := range c.Senders {
		name, uri := senders.Canonical(s.Name), s.uri(c.OperatorID)
		err := s.validate()
		if names[name] {
			err = errors.Join(err, errSenderTwice)
		}
		if uris[uri] {
			err = errors.Join(err, errIdentityDupe)
		}
		names[name], uris[uri] = true, true
		if err != nil {
			faults = append(faults, fmt.Errorf("senders[%d] %q: %w", i, s.Name, err))
		}
	}
	return faults
}

func (s *SenderConfig) validate() error {
	var faults []error
	check := func(bad bool, fault error) {
		if bad {
			faults = append(faults, fault)
		}
	}
	check(senders.Canonical(s.Name) == "" || senders.Wildcard(s.Name), errSenderName)
	check(s.OrgID == "", errSenderOrg)
	switch controlapi.Kind(s.Kind) {
	case controlapi.KindCluster:
		check(s.ClusterID == "" || s.OperatorID != "" || s.OperatorName != "" || len(s.Vouches) > 0, errClusterIDs)
	case controlapi.KindOperator:
		check(s.OperatorID == "" || s.ClusterID != "", errOperatorIDs)
	default:
		faults = append(faults, errSenderKind)
	}
	check(slices.ContainsFunc(s.Vouches, func(v VouchConfig) bool { return v.OrgID == "" || v.ClusterID == "" }), errVouch)
	for _, v := range s.Vouches {
		check(identity.CheckLabels(v.Labels) != nil, errVouchLabels)
	}
	return errors.Join(append(faults, identity.CheckLabels(s.Labels))...)
}

// Validate reports every fault of a policy block at once.
func (p *PolicyConfig) Validate() error {
	var faults []error
	if p.Proof.CertFile == "" || p.Proof.KeyFile == "" || p.Proof.CAFile == "" {
		faults = append(faults, errProofFiles)
	}
	if p.MaxStaleness < 0 {
		faults = append(faults, errStaleness)
	}
	if !slices.Contains([]string{reportSenders, reportApplied, reportOff}, p.Report) {
		faults = append(faults, errReport)
	}
	return errors.Join(faults...)
}

// uri is the URI SAN of the sender, which follows from operator, kind and id.
func (s *SenderConfig) uri(operatorID string) string {
	id := s.ClusterID
	if controlapi.Kind(s.Kind) == controlapi.KindOperator {
		id = s.OperatorID
	}
	return identity.SenderURI(operatorID, controlapi.Kind(s.Kind), id)
}

// policySender is the sender as a policy would describe it.
func (s *SenderConfig) policySender(operatorID string) controlapi.PolicySender {
	p := controlapi.PolicySender{
		Name: s.Name, URI: s.uri(operatorID), Kind: controlapi.Kind(s.Kind), OrgID: s.OrgID,
		ClusterID: s.ClusterID, OperatorID: s.OperatorID, OperatorName: s.OperatorName,
		Labels: s.Labels, State: controlapi.SenderAllowed,
	}
	for _, v := range s.Vouches {
		p.Vouches = append(p.Vouches, controlapi.Vouch{OrgID: v.OrgID, ClusterID: v.ClusterID, Labels: v.Labels})
	}
	return p
}

// match is the Match list as the decision takes it.
func (c *Config) match() senders.Match {
	return senders.Match{
		DNS:        slices.Contains(c.Match, matchDNS),
		URI:        slices.Contains(c.Match, matchURI),
		CommonName: slices.Contains(c.Match, matchCommonName),
	}
}
