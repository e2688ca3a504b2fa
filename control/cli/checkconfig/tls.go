// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package checkconfig

import (
	"net"
	"net/netip"
	"net/url"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// tlsBlocks looks at everything that names a certificate file, wherever it stands.
func (c *checker) tlsBlocks() {
	for _, section := range []string{"extensions", "receivers", "exporters", "connectors", "processors"} {
		for _, component := range c.root.get(section).entries() {
			c.walk(component.key, component.value, strings.TrimSuffix(section, "s")+" "+component.key, map[*yaml.Node]bool{})
		}
	}
}

// walk visits every mapping below v once.
func (c *checker) walk(key string, v value, owner string, seen map[*yaml.Node]bool) {
	if v.Node == nil || seen[v.Node] {
		return
	}
	seen[v.Node] = true
	switch v.Kind {
	case yaml.MappingNode:
		if key != "proof" && key != "tls_config" { // these are read anew for every request
			c.tlsBlock(v, owner)
		}
		for _, e := range v.entries() {
			c.walk(e.key, e.value, owner, seen)
		}
	case yaml.SequenceNode:
		for _, item := range v.items() {
			c.walk(key, item, owner, seen)
		}
	}
}

func (c *checker) tlsBlock(v value, owner string) {
	if cert := v.get("cert_file"); cert.there() && v.get("reload_interval").zero() {
		c.add(cert.line, ruleReload, "%s reads its certificate once", owner)
	}
	if skip := v.get("insecure_skip_verify"); skip.is("true") {
		c.add(skip.line, ruleSkipVerify, "%s verifies nobody", owner)
	}
}

// toOperator reports whether an exporter's tls block reads a certificate directory
// of ours, so that the other side is an operator.
func toOperator(tls value) bool {
	cert, known := tls.get("cert_file").text()
	ca, _ := tls.get("ca_file").text()
	return known && path.Base(cert) == "tls.crt" && path.Base(ca) == "ca.crt" && path.Dir(cert) == path.Dir(ca)
}

// exporterTLS looks at how an exporter reaches the other side.
func (c *checker) exporterTLS(id string, exporter value) {
	tls := exporter.get("tls")
	endpoint := exporter.get("endpoint")
	address, known := endpoint.text()
	if insecure := tls.get("insecure"); insecure.is("true") {
		if cert := tls.get("cert_file"); cert.there() {
			c.add(insecure.line, ruleInsecureCert, "exporter %s has a certificate and does not use it", id)
		} else if known && !isNear(address) {
			c.add(insecure.line, ruleInsecure, "exporter %s sends in plain text to %s", id, address)
		}
	}
	for _, e := range exporter.entries() {
		text, known := e.value.text()
		if known && strings.HasSuffix(e.key, "endpoint") && strings.HasPrefix(text, "http://") && !isNear(text) {
			c.add(e.value.line, ruleInsecure, "exporter %s sends in plain text to %s", id, text)
		}
	}
	if toOperator(tls) && known && !tls.get("server_name_override").there() && !isStableName(address) {
		c.add(tls.line, ruleServerName, "exporter %s dials %s and verifies that name", id, address)
	}
}

// hostOf is the host of host:port or of a URL.
func hostOf(address string) string {
	if strings.Contains(address, "://") {
		if u, err := url.Parse(address); err == nil {
			return u.Hostname()
		}
	}
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// isNear reports whether an address is on this machine or in this cluster, where
// plain text is a choice.
func isNear(address string) bool {
	host := strings.ToLower(hostOf(address))
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.IsLoopback()
	}
	return !strings.Contains(host, ".") || strings.HasSuffix(host, ".svc") ||
		strings.HasSuffix(host, ".cluster.local") || strings.HasSuffix(host, ".localhost")
}

// isStableName reports whether an address has a name that stands on an operator's
// certificate.
func isStableName(address string) bool {
	host := strings.ToLower(hostOf(address))
	for _, suffix := range []string{".continuum-system", ".continuum-system.svc", ".continuum-system.svc.cluster.local"} {
		if strings.HasSuffix(host, suffix) {
			return true
		}
	}
	return strings.HasPrefix(host, "op-") && !strings.Contains(host, ".")
}
