// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"
	"net/netip"
	"strings"
)

// clientAddress is who called: the peer of the connection, or, as far as the
// connection comes from a trusted proxy, what X-Forwarded-For says from its
// right end on.
func (s *Server) clientAddress(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	address := peer.Addr().Unmap()
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && s.trusts(address); i-- {
		next, ok := parseHop(hops[i])
		if !ok {
			break
		}
		address = next
	}
	return address
}

// parseHop reads one element of X-Forwarded-For, with or without a port.
func parseHop(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if hop, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return hop.Unmap(), true
	}
	hop, err := netip.ParseAddrPort(text)
	return hop.Addr().Unmap(), err == nil
}

func (s *Server) trusts(address netip.Addr) bool {
	for _, prefix := range s.cfg.TrustedProxies {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}
