// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package checkconfig

// rule is what every finding of one kind has in common. The id never changes.
type rule struct{ id, why, fix string }

var (
	ruleNotYAML = rule{"not-yaml",
		"no collector starts with it", "correct the line"}
	ruleNoPipelines = rule{"no-pipelines",
		"a collector without pipelines does nothing; a part of a configuration cannot be checked alone",
		"give the whole configuration in one file"}
	ruleGuard = rule{"identity-guard",
		"data could pass without a verified sender; the collector refuses to start with it", ""}
	ruleReload = rule{"tls-no-reload",
		"the certificate is read once: it is renewed every ten days, and when the first one ends nothing is accepted any more",
		"add reload_interval: 5m to this tls block"}
	ruleServerName = rule{"tls-server-name",
		"an operator's certificate holds its stable name and none of its addresses, so the handshake fails",
		"add server_name_override: OPERATOR-ID.continuum-system.svc to this tls block"}
	ruleInsecure = rule{"tls-insecure",
		"the data travels in plain text, and whoever answers at that address gets it",
		"remove insecure, and give ca_file with the CA of the other side"}
	ruleInsecureCert = rule{"tls-insecure-certificate",
		"with insecure the certificate is never shown, so the operator cannot know the sender",
		"remove insecure"}
	ruleSkipVerify = rule{"tls-skip-verify",
		"anybody on the way can pose as the other side and read everything",
		"remove insecure_skip_verify; with a dialled address, server_name_override gives the name to verify"}
	ruleBatch = rule{"batch-after-identity",
		"a batch processor mixes senders, forgets who they are, and answers them before anything is kept, so they cannot retry what fails later",
		"remove it, and batch in the exporters: sending_queue::batch"}
	ruleNoRetry = rule{"queue-without-retry",
		"a queue has said yes to the sender; without retries the first failure drops what it took",
		"set retry_on_failure::enabled: true with max_elapsed_time: 30m"}
	ruleRetryShort = rule{"retry-too-short",
		"while the next hop is down for longer than this, data is dropped",
		"set retry_on_failure::max_elapsed_time: 30m; 0s (for ever) with a queue in file_storage"}
	ruleRetryPersistent = rule{"persistent-queue-gives-up",
		"the queue survives a restart, and its data is dropped all the same when the time is over",
		"set retry_on_failure::max_elapsed_time: 0s toward an operator"}
	ruleQueueRequests = rule{"queue-sizer-requests",
		"a queue that counts requests is full after a second of small ones, whatever room there is",
		"set sending_queue::sizer: items with queue_size: 524288 and a batch block"}
	ruleQueueDrops = rule{"queue-drops",
		"when the next hop is slower than what comes in, records are lost although their senders could have kept them",
		"set sending_queue::block_on_overflow: true"}
	ruleQueueOff = rule{"queue-off",
		"every slow answer of the next hop is waited for in the receiver, and a restart of it is an error to all senders",
		"remove sending_queue::enabled: false"}
	ruleLimiter = rule{"limiter-not-first",
		"what stands before it has already taken memory when it says no",
		"move memory_limiter to the front of the processors"}
	ruleOrder = rule{"processor-order",
		"a processor that stands too late or too early sees, or overwrites, what another has written",
		"order them: memory_limiter, continuumidentity with sender, resourcedetection, redaction, those of one signal, your own, itemlimit, continuumidentity with operator"}
	ruleDetection = rule{"resourcedetection-override",
		"it writes this collector's own host over the attributes of every sender",
		"set override: false"}
	ruleSnappy = rule{"snappy-before-identity",
		"snappy bodies are expanded before the sender is known, so a stranger can make this collector unpack anything",
		`set compression_algorithms: ["", gzip, zstd] on this protocol`}
	ruleConnectionAge = rule{"no-max-connection-age",
		"a connection that never ends goes on under a certificate that has ended or was replaced",
		"set keepalive::server_parameters: {max_connection_age: 10m, max_connection_age_grace: 1m}"}
	ruleMessageSize = rule{"grpc-message-size",
		"the default is 4 MiB: larger batches of honest senders are refused for good and dropped by them",
		"set max_recv_msg_size_mib: 16"}
	ruleHeaderTimeout = rule{"no-read-header-timeout",
		"a stranger holds connections open for as long as it likes",
		"set read_header_timeout: 10s"}
	ruleFileLog = rule{"filelog-no-retry",
		"lines that are read while the queue is full are lost",
		"set retry_on_failure: {enabled: true, max_elapsed_time: 0s} on this receiver"}
)

// Rules are the ids of all rules.
func Rules() []string {
	all := []rule{
		ruleNotYAML, ruleNoPipelines, ruleGuard, ruleReload, ruleServerName, ruleInsecure, ruleInsecureCert, ruleSkipVerify,
		ruleBatch, ruleNoRetry, ruleRetryShort, ruleRetryPersistent, ruleQueueRequests, ruleQueueDrops, ruleQueueOff, ruleLimiter, ruleOrder,
		ruleDetection, ruleSnappy, ruleConnectionAge, ruleMessageSize, ruleHeaderTimeout, ruleFileLog,
	}
	ids := make([]string, len(all))
	for i, r := range all {
		ids[i] = r.id
	}
	return ids
}
