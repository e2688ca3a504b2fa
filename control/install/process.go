// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package install

import "github.com/ikhnos/continuum/control/operators"

const (
	onOperatorMachine = "on the operator's machine"
	onSenderMachine   = "on the sender's machine"
	inConfiguration   = "in the collector's configuration"
)

// flags are the flags of enroll and renew that name the server.
func (s Server) flags() []string {
	words := []string{"--server", s.URL}
	for _, pin := range s.Pins {
		words = append(words, "--ca-pin", pin)
	}
	return words
}

// variables are what the shipped configurations take from the environment.
func (s Server) variables() []string {
	variables := []string{"CONTINUUM_SERVER=" + collectorText(s.URL)}
	if len(s.Pins) > 0 {
		variables = append(variables, "CONTINUUM_CA_PINS="+jsonText(s.Pins))
	}
	return variables
}

// secretFile puts a secret into a file that only its owner can read.
func secretFile(where, dir string, s named) Block {
	text := "install -d -m 0700 " + ShellWord(dir) + " && " + writeFile(dir+"/"+s.file, "0600", s.Value)
	return Block{where, s.shown(s.title), s.file + ".sh", text}
}

func secretFiles(where, dir string, secrets []named) (blocks []Block) {
	for _, secret := range secrets {
		blocks = append(blocks, secretFile(where, dir, secret))
	}
	return blocks
}

// runCollector runs the shipped configuration of that name, from the root of the
// distribution.
func runCollector(variables []string, configuration string, more ...string) string {
	words := append([]string{"env"}, variables...)
	words = append(words, "continuum-collector", "--config", "distributions/"+configuration+"/config.yaml")
	return ShellWords(append(words, more...)...) + "\n"
}

// process runs a collector with the shipped configuration of the operator's role.
// Towards an OTLP endpoint, where no certificate of ours is asked for, there is no
// shipped one.
func (o Operator) process() []Block {
	if o.toEndpoint() {
		return o.config()
	}
	id, dir := o.Operator.ID, o.secretsDir()
	variables := append(o.Server.variables(), "CONTINUUM_STATE="+stateDir(id), "CONTINUUM_SECRETS="+dir, "CONTINUUM_OPERATOR_ID="+id)
	if o.Operator.Role != operators.RoleCentral { // which writes nothing of its own
		variables = append(variables, "CONTINUUM_OPERATOR_NAME="+collectorText(o.Operator.Name))
		if len(o.Operator.Labels) > 0 {
			variables = append(variables, "CONTINUUM_OPERATOR_LABELS="+collectorText(jsonText(o.Operator.Labels)))
		}
	}
	if d := o.Destination; d != nil {
		variables = append(variables, "CONTINUUM_DESTINATION="+collectorText(d.Address), "CONTINUUM_DESTINATION_NAME="+d.StableName())
	}
	var more []string
	if o.Heartbeat.Value != "" {
		more = []string{"--set", "service.extensions=[health_check, file_storage, ikhnosrenew, certnameauth, heartbeat]"}
	}
	return append(secretFiles(onOperatorMachine, dir, o.secrets()),
		Block{onOperatorMachine, "run the collector", "run.sh", runCollector(variables, string(o.Operator.Role), more...)})
}

// toEndpoint reports whether it sends to an OTLP endpoint that is no operator.
func (o Operator) toEndpoint() bool {
	return o.Operator.Role != operators.RoleCentral && o.Operator.Destination != nil && o.Operator.Destination.Kind == operators.DestinationOTLP
}

func (s Sender) process() []Block {
	if s.Collector == Continuum {
		secrets := secretsDir(s.HolderID)
		variables := append(s.Server.variables(), "CONTINUUM_STATE="+stateDir(s.HolderID), "CONTINUUM_SECRETS="+secrets,
			"CONTINUUM_DESTINATION="+collectorText(s.Link.Address), "CONTINUUM_DESTINATION_NAME="+s.Link.StableName())
		return append(secretFiles(onSenderMachine, secrets, s.secrets()),
			Block{onSenderMachine, "run the collector", "run.sh", runCollector(variables, "cluster")})
	}
	return append(s.heldByFiles(), s.exporterBlock(inConfiguration, "the exporter, to be named in its pipelines", s.dir()))
}

// heldByFiles are the two commands by which any collector that reads PEM files has a
// certificate and keeps it new.
func (s Sender) heldByFiles() (blocks []Block) {
	where := onSenderMachine + ", as the user of its collector, who will own the files"
	for _, token := range s.secrets() {
		enroll := append([]string{"ikhnos", "enroll"}, s.Server.flags()...)
		enroll = append(enroll, "--dir", s.dir(), "--enrollment-token-file", "-", "--force")
		blocks = append(blocks, Block{where, "fetch the certificate with " + token.shown(token.title), "enroll.sh",
			hereDoc(ShellWords(enroll...), token.Value, "")})
	}
	renew := append([]string{"ikhnos", "renew"}, s.Server.flags()...)
	renew = append(renew, "--dir", s.dir(), "--watch")
	return append(blocks, Block{onSenderMachine + ", as the same user, for as long as it sends", "keep the certificate new",
		"renew.sh", ShellWords(renew...) + "\n"})
}
