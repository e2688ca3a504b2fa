// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package identityguard

import (
	"fmt"
	"slices"
)

// checkReceivers: every receiver is otlp with exactly one certnameauth and a
// client CA on each of its protocols, unless it is exempt or a connector.
func (c *checker) checkReceivers() {
	for _, id := range c.verified() {
		value, defined := c.receivers[id]
		if !defined {
			continue // the collector itself refuses it
		}
		if typeOf(id) != typeOTLP {
			c.add([]string{id}, c.feeds(id), "its senders cannot be verified",
				"use otlp with certnameauth, or list it under guard::exempt_receivers of certnameauth")
			continue
		}
		protocols := section(asMap(value), "protocols")
		for _, name := range []string{"grpc", "http"} {
			if protocol, on := c.optional(protocols, name); on {
				c.checkProtocol(id, name, protocol)
			}
		}
	}
}

func (c *checker) checkProtocol(receiver, name string, protocol map[string]any) {
	path := fmt.Sprintf("receivers::%s::protocols::%s", receiver, name)
	add := func(text, remedy string) {
		c.add([]string{receiver}, c.feeds(receiver), "protocol "+name+" "+text, remedy)
	}
	var middlewares []string
	list, _ := protocol["middlewares"].([]any)
	for _, item := range list {
		if id := canonical(word(asMap(item)["id"], "")); typeOf(id) == typeAuth {
			middlewares = append(middlewares, id)
		}
	}
	auth := canonical(word(section(protocol, "auth")["authenticator"], ""))
	underAuth := typeOf(auth) == typeAuth
	switch {
	case underAuth && name == "http":
		add("has certnameauth under auth, where it cannot see certificates", "list it under "+path+"::middlewares and remove auth")
	case len(middlewares) == 0 && underAuth:
		add("has certnameauth under auth alone, which reads the body first", "list it under "+path+"::middlewares, too")
	case len(middlewares) == 0:
		add("has no certnameauth", "list it under "+path+"::middlewares, or the receiver under guard::exempt_receivers of certnameauth")
	case len(middlewares) > 1:
		add("has more than one certnameauth", "list exactly one under "+path+"::middlewares")
	case underAuth && auth != middlewares[0]:
		add("has one certnameauth under middlewares and another under auth", "name the same one in both, or remove auth")
	}
	if word(section(protocol, "tls")["client_ca_file"], "") == "" {
		add("does not ask for client certificates", "set "+path+"::tls::client_ca_file to the operator's ca.crt")
	}
}

// checkPipeline: where verified receivers feed a pipeline, identity is written
// before anything that could buffer, and nothing unverified is mixed in.
func (c *checker) checkPipeline(name string, p pipeline) {
	add := func(text, remedy string) { c.add(p.receivers, []string{name}, text, remedy) }
	verified := slices.ContainsFunc(p.receivers, c.verifies)
	exempt := slices.ContainsFunc(p.receivers, func(id string) bool { return c.exempt[id] })
	if verified && exempt {
		add("exempt and verified receivers are mixed", "give the exempt ones a pipeline of their own")
	}
	c.checkModes(name, p)
	if !verified {
		return
	}
	first := p.processors
	if i := slices.IndexFunc(first, func(id string) bool { return typeOf(id) == typeLimiter }); i > 0 {
		add("memory_limiter is not the first processor", "move it to the front")
		return
	} else if i == 0 {
		first = first[1:]
	}
	if len(first) == 0 || c.identities[first[0]].senderMode == "" {
		add("no continuumidentity with sender comes first after memory_limiter", "put one there, before anything that buffers or reads identity")
	}
}

// checkModes: sender mode off verifies nothing, so it stands behind exempt
// receivers alone.
func (c *checker) checkModes(name string, p pipeline) {
	allExempt := !slices.ContainsFunc(p.receivers, func(id string) bool { return !c.exempt[id] })
	for _, id := range p.processors {
		if c.identities[id].senderMode == ModeOff && !allExempt {
			c.add(p.receivers, []string{name}, fmt.Sprintf("processor %s has sender mode off", id),
				"use stamp or enforce; off is for pipelines that exempt receivers alone feed")
		}
	}
}

// operatorUsed says that some pipeline stamps the operator.
func (c *checker) operatorUsed() bool {
	for _, p := range c.pipelines {
		if slices.ContainsFunc(p.processors, func(id string) bool { return c.identities[id].operator }) {
			return true
		}
	}
	return false
}

// checkOperator: the operator is stamped last, after every processor that could
// change it, wherever data leaves the collector.
func (c *checker) checkOperator(name string, p pipeline) {
	if !slices.ContainsFunc(p.exporters, func(id string) bool { return !c.isConnector(id) }) {
		return
	}
	if len(p.processors) == 0 || !c.identities[p.processors[len(p.processors)-1]].operator {
		c.add(p.receivers, []string{name}, "no continuumidentity with operator comes last before the exporters",
			"put it at the end of the processors, here as in every pipeline that exports")
	}
}
