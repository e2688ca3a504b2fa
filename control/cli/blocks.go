// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
)

// stateDir is where a collector keeps its certificates and its queue: a folder for
// each, so that one machine may run several.
func stateDir(id string) string { return "/var/lib/continuum/" + id }

// secretsDir is for secrets that are needed once: /run is emptied when the machine
// starts.
func secretsDir(id string) string { return "/run/secrets/continuum/" + id }

// lastingDir is for secrets that a collector reads again and again.
func lastingDir(id string) string { return "/etc/continuum/" + id }

// block is one piece of what a person has to run or to paste: where it runs, what
// it does, and its text. Every block may be used twice.
type block struct {
	File  string // name under --out-dir
	Title string
	Text  string
}

// target is the control server as a command on another machine names it.
type target struct {
	server string
	pins   []string
}

// flags are the flags of enroll and renew that name the server.
func (t target) flags() []string {
	words := []string{"--server", t.server}
	for _, pin := range t.pins {
		words = append(words, "--ca-pin", pin)
	}
	return words
}

// variables are what the shipped configurations take from the environment.
func (t target) variables() []string {
	variables := []string{"CONTINUUM_SERVER=" + collectorText(t.server)}
	if len(t.pins) > 0 {
		variables = append(variables, "CONTINUUM_CA_PINS="+jsonText(t.pins))
	}
	return variables
}

// link is a sender's way to an operator.
type link struct {
	holderID   string // who dials
	operatorID string
	address    string // host:port
}

// dir is where a stock sender keeps its certificate for this operator.
func (l link) dir() string { return stateDir(l.holderID) + "/" + l.operatorID }

func stableName(operatorID string) string { return identity.StableName(operatorID) }

// operatorAddress is what senders dial: the recorded address or, until there is
// one, the name of the Service inside the operator's own cluster.
func operatorAddress(o *operators.Operator) string {
	if o.Address != "" {
		return o.Address
	}
	name := o.ID
	if !strings.HasSuffix(name, "-regional-operator") {
		name += "-regional-operator"
	}
	return name + ".continuum-system.svc:4317"
}

// stockSenderBlocks are for any collector that reads PEM files.
func stockSenderBlocks(t target, l link, token string) []block {
	enroll := append([]string{"ikhnos", "enroll"}, t.flags()...)
	enroll = append(enroll, "--dir", l.dir(), "--enrollment-token-file", "-", "--force")
	renew := append([]string{"ikhnos", "renew"}, t.flags()...)
	renew = append(renew, "--dir", l.dir(), "--watch")
	return []block{
		{"enroll.sh", "on the sender's machine, as the user of its collector, who will own the files: fetch the certificate", fromInput(shellWords(enroll...), token)},
		{"renew.sh", "on the sender's machine, as the same user, for as long as it sends: keep the certificate new", shellWords(renew...) + "\n"},
		{"exporter.yaml", "in the collector's configuration, with the exporter in its pipelines", exporterYAML(l)},
	}
}

// continuumSenderBlocks are for continuum-collector with the configuration of a
// cluster that it ships with: it enrols and renews by itself.
func continuumSenderBlocks(t target, l link, token string) []block {
	secrets := secretsDir(l.holderID)
	variables := append(t.variables(),
		"CONTINUUM_STATE="+stateDir(l.holderID), "CONTINUUM_SECRETS="+secrets,
		"CONTINUUM_DESTINATION="+collectorText(l.address),
		"CONTINUUM_DESTINATION_NAME="+stableName(l.operatorID))
	return []block{
		secretBlock("on the sender's machine: the one-use token", secrets, "export-token", token),
		{"run.sh", "on the sender's machine: run the collector", runCollector(variables, "cluster")},
	}
}

// operatorSecrets are what an operator's collector needs once. Empty ones are not
// needed.
type operatorSecrets struct {
	receiver, export, heartbeat string
}

// dir is the folder of all of them, one that lasts when one of them has to.
func (s operatorSecrets) dir(operatorID string) string {
	if s.heartbeat != "" {
		return lastingDir(operatorID)
	}
	return secretsDir(operatorID)
}

// operatorBlocks are for continuum-collector with the configuration of the
// operator's role.
func operatorBlocks(t target, o *operators.Operator, destination *link, secrets operatorSecrets) []block {
	var blocks []block
	dir := secrets.dir(o.ID)
	for _, secret := range []struct{ title, name, value string }{
		{"on the operator's machine: the one-use token of its receiver", "receiver-token", secrets.receiver},
		{"on the operator's machine: the one-use token towards its destination", "export-token", secrets.export},
		{"on the operator's machine: the heartbeat secret, read at every beat; not in /run, which is emptied at a reboot", "heartbeat", secrets.heartbeat},
	} {
		if secret.value != "" {
			blocks = append(blocks, secretBlock(secret.title, dir, secret.name, secret.value))
		}
	}
	variables := append(t.variables(), "CONTINUUM_STATE="+stateDir(o.ID), "CONTINUUM_SECRETS="+dir, "CONTINUUM_OPERATOR_ID="+o.ID)
	variables = append(variables, stamped(o)...)
	switch {
	case destination != nil:
		variables = append(variables, "CONTINUUM_DESTINATION="+collectorText(destination.address),
			"CONTINUUM_DESTINATION_NAME="+stableName(destination.operatorID))
	case o.Destination != nil && o.Destination.Endpoint != "":
		variables = append(variables, "CONTINUUM_DESTINATION="+collectorText(o.Destination.Endpoint))
	}
	var more []string
	if secrets.heartbeat != "" {
		more = []string{"--set", "service.extensions=[health_check, file_storage, ikhnosrenew, certnameauth, heartbeat]"}
	}
	return append(blocks, block{"run.sh", "on the operator's machine: run the collector", runCollector(variables, string(o.Role), more...)})
}

// stamped are the variables of what a regional operator writes onto the data; a
// central one writes nothing of its own.
func stamped(o *operators.Operator) []string {
	if o.Role == operators.RoleCentral {
		return nil
	}
	variables := []string{"CONTINUUM_OPERATOR_NAME=" + collectorText(o.Name)}
	if len(o.Labels) > 0 {
		variables = append(variables, "CONTINUUM_OPERATOR_LABELS="+collectorText(jsonText(o.Labels)))
	}
	return variables
}

// secretBlock puts a secret into a file that only its owner can read.
func secretBlock(title, dir, name, secret string) block {
	path := dir + "/" + name
	command := "install -d -m 0700 " + shellWord(dir) + " && (umask 077 && cat > " + shellWord(path) + ")"
	return block{File: name + ".sh", Title: title, Text: fromInput(command, secret)}
}

// fromInput feeds a secret to a command on its standard input, where neither the
// process list nor the shell's history of one command shows it.
func fromInput(command, secret string) string {
	return fmt.Sprintf("%s <<'END'\n%s\nEND\n", command, secret)
}

// runCollector runs the shipped configuration of that name, from the root of the
// distribution.
func runCollector(variables []string, configuration string, more ...string) string {
	words := append([]string{"env"}, variables...)
	words = append(words, "continuum-collector", "--config", "distributions/"+configuration+"/config.yaml")
	words = append(words, more...)
	return shellWords(words...) + "\n"
}

func jsonText(value any) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // strings, and lists and maps of them, always encode
	return strings.TrimSuffix(b.String(), "\n")
}

// exporterYAML is the exporter of a sender, with the queue and the retries that
// keep its data through renewals and outages (contract, section 10).
func exporterYAML(l link) string {
	return fmt.Sprintf(`exporters:
  otlp_grpc/%[1]s: # "otlp/%[1]s" in older collectors
    endpoint: %[2]s
    compression: zstd
    timeout: 30s
    tls:
      cert_file: %[3]s/tls.crt
      key_file: %[3]s/tls.key
      ca_file: %[3]s/ca.crt
      server_name_override: %[4]s
      reload_interval: 5m
      min_version: "1.3"
    retry_on_failure:
      max_elapsed_time: 30m
    sending_queue:
      sizer: items
      queue_size: 524288
      num_consumers: 10
      block_on_overflow: true
      batch:
        sizer: items
        min_size: 2048
        max_size: 4096
        flush_timeout: 5s
`, l.operatorID, yamlText(l.address), l.dir(), yamlText(stableName(l.operatorID)))
}

// enrollmentRole says whose certificate a token is for.
func enrollmentRole(sender string) controlapi.Role {
	if sender == "" {
		return controlapi.RoleReceiver
	}
	return controlapi.RoleSender
}
