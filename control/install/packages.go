// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package install

// CollectorUnit is the service that the package of continuum-collector brings. Its
// secrets may be missing: which of them are read is the configuration's choice.
func CollectorUnit() Unit {
	u := Unit{
		Description: "Continuum collector", Groups: []string{"adm"}, State: "continuum/collector",
		Environment: []string{"CONTINUUM_STATE=%S/continuum/collector", "CONTINUUM_SECRETS=%d"}, EnvironmentFile: "/etc/continuum/collector.env",
		Start: []string{"/usr/bin/continuum-collector", "--config", "/etc/continuum/config.yaml"}, Reloads: true,
	}
	for _, name := range []string{"receiver-token", "export-token", "heartbeat"} {
		u.Credentials = append(u.Credentials, Credential{name, "/etc/continuum/secrets/" + name})
	}
	return u
}

// ServerUnit is the service that the package of ikhnos brings. It has a lasting
// user, so that offline commands can be run as its owner.
func ServerUnit() Unit {
	return Unit{
		Description: "Ikhnos control server", User: "ikhnos", State: "ikhnos",
		EnvironmentFile: "/etc/ikhnos/server.env",
		Start:           []string{"/usr/bin/ikhnos", "server", "--config", "/etc/ikhnos/server.yaml"},
	}
}
