// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ikhnosrenew

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"

	"github.com/ikhnos/continuum/internal/controlclient"
)

const defaultStartupTimeout = 60 * time.Second

var (
	errNoCertificates = errors.New("`certificates` must name at least one certificate, such as receiver or export")
	errStartup        = errors.New("`startup_timeout` must be positive")
	errDirectory      = errors.New("`directory` is missing: write the folder where tls.crt, tls.key and ca.crt are kept")
	errDirectoryTwice = errors.New("`directory` must be another one for every certificate")
	errMode           = errors.New("`mode` must be `renew` or `follow`")
	errServer         = errors.New("`server` is missing: a certificate with `mode: renew` needs the control server")
	errFollowEnrolls  = errors.New("`enrollment` must not be set with `mode: follow`, which never calls the server")
	errTokenFile      = errors.New("`enrollment::token_file` is missing")
	errSecretName     = errors.New("`kubernetes_secret` needs `namespace` and `name`")
	errSecretTwice    = errors.New("`kubernetes_secret` must be another one for every certificate")
)

// Mode says who asks for new generations of a certificate.
type Mode string

// Values of mode.
const (
	// Renew enrols and renews at the control server.
	Renew Mode = "renew"
	// Follow takes what others put in the Secret or the directory.
	Follow Mode = "follow"
)

// Config is the configuration of the ikhnosrenew extension.
type Config struct {
	// Server is the control server. Only certificates with mode renew need it.
	Server configoptional.Optional[controlclient.Config] `mapstructure:"server"`
	// StartupTimeout is how long Start waits for missing certificates, for all
	// of them together. Without a missing one it does not wait.
	StartupTimeout time.Duration `mapstructure:"startup_timeout"`
	// StartAfter names extensions that start first, such as health_check.
	StartAfter []component.ID `mapstructure:"start_after"`
	// Certificates are the certificates to keep, by label.
	Certificates map[string]CertificateConfig `mapstructure:"certificates"`
}

// CertificateConfig is one certificate.
type CertificateConfig struct {
	// Directory holds tls.crt, tls.key and ca.crt.
	Directory string `mapstructure:"directory"`
	// Mode is renew (also when it is empty) or follow.
	Mode Mode `mapstructure:"mode"`
	// KubernetesSecret is a durable copy that the pods of a workload share.
	KubernetesSecret configoptional.Optional[SecretConfig] `mapstructure:"kubernetes_secret"`
	// Enrollment is how a first certificate is got.
	Enrollment configoptional.Optional[EnrollmentConfig] `mapstructure:"enrollment"`
}

// SecretConfig names a Secret, which must exist.
type SecretConfig struct {
	Namespace string `mapstructure:"namespace"`
	Name      string `mapstructure:"name"`
}

// EnrollmentConfig says where the enrolment token is.
type EnrollmentConfig struct {
	// TokenFile is read again at every try.
	TokenFile string `mapstructure:"token_file"`
}

func createDefaultConfig() component.Config {
	return &Config{
		Server:         configoptional.Default(controlclient.NewDefaultConfig()),
		StartupTimeout: defaultStartupTimeout,
	}
}

// labels are the labels of the certificates in a stable order.
func (c *Config) labels() []string { return slices.Sorted(maps.Keys(c.Certificates)) }

// Validate reports every fault of the configuration at once.
func (c *Config) Validate() error {
	var faults []error
	if c.StartupTimeout <= 0 {
		faults = append(faults, errStartup)
	}
	if len(c.Certificates) == 0 {
		faults = append(faults, errNoCertificates)
	}
	directories, secrets := map[string]bool{}, map[SecretConfig]bool{}
	for _, label := range c.labels() {
		cert := c.Certificates[label]
		fault := func(err error) { faults = append(faults, fmt.Errorf("certificates::%s: %w", label, err)) }
		if cert.follows() && cert.Enrollment.HasValue() {
			fault(errFollowEnrolls)
		}
		if !cert.follows() && !c.Server.HasValue() {
			fault(errServer)
		}
		if directory := filepath.Clean(cert.Directory); cert.Directory != "" && directories[directory] {
			fault(errDirectoryTwice)
		} else {
			directories[directory] = true
		}
		if secret := cert.KubernetesSecret.Get(); secret != nil && secrets[*secret] {
			fault(errSecretTwice)
		} else if secret != nil {
			secrets[*secret] = true
		}
	}
	return errors.Join(faults...)
}

// Validate reports the faults of one certificate.
func (c *CertificateConfig) Validate() error {
	var faults []error
	if c.Directory == "" {
		faults = append(faults, errDirectory)
	}
	if c.Mode != "" && c.Mode != Renew && c.Mode != Follow {
		faults = append(faults, fmt.Errorf("%w, not %q", errMode, string(c.Mode)))
	}
	return errors.Join(faults...)
}

// Validate reports the faults of a Secret's name.
func (c *SecretConfig) Validate() error {
	if c.Namespace == "" || c.Name == "" {
		return errSecretName
	}
	return nil
}

// Validate reports the faults of the enrolment.
func (c *EnrollmentConfig) Validate() error {
	if c.TokenFile == "" {
		return errTokenFile
	}
	return nil
}

func (c *CertificateConfig) follows() bool { return c.Mode == Follow }
