// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package checkconfig

import (
	"slices"
	"time"
)

// shortestRetry is what a next hop may be away, at least, without a loss (contract,
// section 10); defaultRetry is what a collector does by itself.
const (
	shortestRetry = 30 * time.Minute
	defaultRetry  = 5 * time.Minute
)

// verifies reports whether a protocol of a receiver decides who its senders are.
func verifies(protocol value) bool {
	if protocol.get("tls", "client_ca_file").there() {
		return true
	}
	for _, middleware := range protocol.get("middlewares").items() {
		if id, _ := middleware.get("id").text(); typeOf(id) == "certnameauth" {
			return true
		}
	}
	return false
}

func (c *checker) receivers() {
	for _, receiver := range c.root.get("receivers").entries() {
		switch typeOf(receiver.key) {
		case "otlp":
			c.grpc(receiver.key, receiver.value.get("protocols", "grpc"))
			c.http(receiver.key, receiver.value.get("protocols", "http"))
		case "filelog", "file_log":
			if !receiver.value.get("retry_on_failure", "enabled").is("true") {
				c.add(receiver.value.line, ruleFileLog, "receiver %s does not retry", receiver.key)
			}
		}
	}
}

func (c *checker) grpc(id string, grpc value) {
	if !verifies(grpc) {
		return
	}
	if grpc.get("keepalive", "server_parameters", "max_connection_age").zero() {
		c.add(grpc.line, ruleConnectionAge, "receiver %s keeps gRPC connections for ever", id)
	}
	if !grpc.get("max_recv_msg_size_mib").there() {
		c.add(grpc.line, ruleMessageSize, "receiver %s refuses gRPC messages over 4 MiB", id)
	}
}

func (c *checker) http(id string, http value) {
	if !verifies(http) {
		return
	}
	algorithms := http.get("compression_algorithms")
	if words := algorithms.words(); !algorithms.there() || slices.Contains(words, "snappy") || slices.Contains(words, "x-snappy-framed") {
		line := http.line
		if algorithms.there() {
			line = algorithms.line
		}
		c.add(line, ruleSnappy, "receiver %s takes snappy over HTTP", id)
	}
	if http.get("read_header_timeout").zero() {
		c.add(http.line, ruleHeaderTimeout, "receiver %s waits for HTTP headers for ever", id)
	}
}

func (c *checker) exporters() {
	for _, exporter := range c.root.get("exporters").entries() {
		c.exporterTLS(exporter.key, exporter.value)
		c.queue(exporter.key, exporter.value)
	}
}

// queue looks at what becomes of data while the next hop is away.
func (c *checker) queue(id string, exporter value) {
	queue, retry := exporter.get("sending_queue"), exporter.get("retry_on_failure")
	operator := toOperator(exporter.get("tls"))
	if !queue.there() && !operator && !retry.get("enabled").is("false") {
		return // it leaves everything as it is, toward somebody whom we do not know
	}
	if off := queue.get("enabled"); off.is("false") {
		c.add(off.line, ruleQueueOff, "exporter %s has no queue", id)
		return
	}
	line := exporter.line
	if queue.there() {
		line = queue.line
	}
	if sizer := queue.get("sizer"); sizer.is("requests") || !sizer.there() {
		if sizer.there() {
			line = sizer.line
		}
		c.add(line, ruleQueueRequests, "the queue of exporter %s counts requests", id)
	}
	if block := queue.get("block_on_overflow"); queue.there() && !block.is("true") {
		at := queue.line
		if block.there() {
			at = block.line
		}
		c.add(at, ruleQueueDrops, "the queue of exporter %s drops what does not fit", id)
	}
	if off := retry.get("enabled"); off.is("false") {
		c.add(off.line, ruleNoRetry, "exporter %s has a queue and does not retry", id)
		return
	}
	c.retries(id, exporter, operator)
}

func (c *checker) retries(id string, exporter value, operator bool) {
	elapsed := exporter.get("retry_on_failure", "max_elapsed_time")
	limit, known := elapsed.duration(defaultRetry)
	if !known || limit == 0 {
		return
	}
	line := exporter.line
	if elapsed.there() {
		line = elapsed.line
	} else if retry := exporter.get("retry_on_failure"); retry.there() {
		line = retry.line
	}
	storage, knownStorage := exporter.get("sending_queue", "storage").text()
	switch {
	case operator && knownStorage && storage != "" && storage != "null":
		c.add(line, ruleRetryPersistent, "exporter %s gives up after %s although its queue is on disk", id, limit)
	case limit < shortestRetry:
		c.add(line, ruleRetryShort, "exporter %s gives up after %s", id, limit)
	}
}
