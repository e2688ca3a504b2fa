// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"errors"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// defaultPort is OTLP/gRPC, for an address that leaves its port out (AD-17).
const defaultPort = "4317"

var (
	hostName = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?$`)
	// numericHost ends in a label that some resolvers read as a number, so it may
	// be a loopback address in disguise (127.1, 0x7f000001).
	numericHost = regexp.MustCompile(`(^|\.)([0-9]+|0x[0-9a-f]*)$`)

	// localName are the names that hosts files give to loopback.
	localName = regexp.MustCompile(`^((.+\.)?localhost|localhost[46]?(\.localdomain[46]?)?|ip6-(localhost|loopback))$`)
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

	errAddressForm  = errors.New("must be host or host:port, without a scheme or path")
	errAddressPort  = errors.New("the port must be 1 to 65535")
	errAddressLocal = errors.New("must be reachable from another cluster: no localhost, loopback, link-local, multicast or unspecified address")
)

// dialAddress checks host[:port] as another cluster would dial it and returns it
// as host:port (AD-13, AD-15, AD-17). Nothing is resolved or dialled (AD-30).
func dialAddress(text string) (string, error) {
	host, port, err := splitAddress(text, defaultPort)
	if err != nil {
		return "", err
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if isLocal(ip) {
			return "", errAddressLocal
		}
	} else if localName.MatchString(host) {
		return "", errAddressLocal
	}
	return net.JoinHostPort(host, port), nil
}

// isLocal reports whether an address means something else on every machine, or
// nothing. An IPv6 address that holds an IPv4 one means that one.
func isLocal(ip netip.Addr) bool {
	ip = ip.Unmap()
	if b := ip.As16(); ip.Is6() && [12]byte(b[:12]) == [12]byte{} || nat64.Contains(ip) {
		if inner := netip.AddrFrom4([4]byte(b[12:])); inner.IsLoopback() || inner.IsUnspecified() {
			return true
		}
	}
	return ip.IsLoopback() || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || ip == broadcast
}

// endpointAddress checks the host:port of an OTLP destination, which may well be
// local, and returns it in its one form.
func endpointAddress(text string) (string, error) {
	host, port, err := splitAddress(text, "")
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(host, port), nil
}

// splitAddress takes host[:port] apart, host in lower case without a trailing
// dot. An empty fallback demands a port.
func splitAddress(text, fallback string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(text)
	if err != nil {
		host, port = text, fallback
		if len(text) > 2 && text[0] == '[' && text[len(text)-1] == ']' {
			host = text[1 : len(text)-1]
		}
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return "", "", errAddressPort
	}
	port = strconv.FormatUint(number, 10)
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" {
			return "", "", errAddressForm
		}
		return ip.String(), port, nil
	}
	if len(host) > 253 || !hostName.MatchString(host) || numericHost.MatchString(host) {
		return "", "", errAddressForm
	}
	return host, port, nil
}
