// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"strings"

	"github.com/ikhnos/continuum/control/operators"
)

// Unit is a hardened systemd service.
type Unit struct {
	Description string
	// User runs it; empty is a user of its own that exists while it runs.
	User string
	// Groups besides the user's own.
	Groups []string
	// Credentials are files that systemd reads as root and shows to this service
	// alone, by name. One that is not there is blank.
	Credentials []Credential
	// State is the folder below /var/lib that it may write.
	State string
	// Environment are NAME=VALUE without blanks or quotes; % is systemd's.
	Environment []string
	// EnvironmentFile may be missing.
	EnvironmentFile string
	Start           []string
	// Reloads says that it reads its configuration again at SIGHUP.
	Reloads bool
}

// Credential is a file under a name.
type Credential struct{ Name, Path string }

// hardening is what no unit of ours needs. Files and devices of the machine can be
// read where the collector has to, and nothing but the state can be written.
const hardening = `NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RemoveIPC=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged
SystemCallErrorNumber=EPERM
UMask=0077
`

// String is the unit file.
func (u Unit) String() string {
	var b strings.Builder
	line := func(key, value string) { b.WriteString(key + "=" + value + "\n") }
	b.WriteString("[Unit]\n")
	line("Description", u.Description)
	b.WriteString("Wants=network-online.target\nAfter=network-online.target\n\n[Service]\nType=simple\n")
	if u.User == "" {
		line("DynamicUser", "yes")
	} else {
		line("User", u.User)
	}
	if len(u.Groups) > 0 {
		line("SupplementaryGroups", strings.Join(u.Groups, " "))
	}
	line("StateDirectory", u.State)
	line("StateDirectoryMode", "0700")
	for _, c := range u.Credentials {
		line("LoadCredential", c.Name+":"+c.Path)
		line("SetCredential", c.Name+`:\n`) // white space is no secret, and systemd takes no empty one
	}
	for _, variable := range u.Environment {
		line("Environment", variable)
	}
	if u.EnvironmentFile != "" {
		line("EnvironmentFile", "-"+u.EnvironmentFile)
	}
	words := make([]string, len(u.Start))
	for i, word := range u.Start {
		words[i] = unitWord(word)
	}
	line("ExecStart", strings.Join(words, " "))
	if u.Reloads {
		line("ExecReload", "/bin/kill -HUP $MAINPID")
	}
	b.WriteString("Restart=on-failure\nRestartSec=5\nTimeoutStopSec=60\nLimitNOFILE=65536\n")
	b.WriteString(hardening)
	b.WriteString("\n[Install]\nWantedBy=multi-user.target\n")
	return b.String()
}

const asRoot = ", as root"

// writeUnit writes, enables and starts a unit, or starts it again.
func writeUnit(where, title, name string, u Unit) Block {
	text := writeFile("/etc/systemd/system/"+name, "0644", u.String()) +
		"systemctl daemon-reload && systemctl enable " + ShellWord(name) + " && systemctl restart " + ShellWord(name) + "\n"
	return Block{where, title, name + ".sh", text}
}

// collectorService runs continuum-collector with a configuration and the secrets of
// one id. Secrets are shown to the service by systemd, so that their folder stays
// root's.
func collectorService(where, description, id string, groups []string, configuration string, secrets []named) []Block {
	dir := lastingDir(id)
	u := Unit{
		Description: description, Groups: groups, State: "continuum/" + id,
		Start: []string{"/usr/bin/continuum-collector", "--config", dir + ".yaml"}, Reloads: true,
	}
	for _, s := range secrets {
		u.Credentials = append(u.Credentials, Credential{s.file, dir + "/" + s.file})
	}
	write := "install -d -m 0755 /etc/continuum && " + writeFile(dir+".yaml", "0644", configuration)
	return append(secretFiles(where, dir, secrets),
		Block{where, "the configuration; nothing secret", "configuration.sh", write},
		writeUnit(where, "the service, from now on and at every start of the machine", "continuum-"+id+".service", u))
}

// inCredentials is where a service finds its secrets.
func inCredentials(id string) verbatim {
	return verbatim("${env:CREDENTIALS_DIRECTORY:-" + lastingDir(id) + "}")
}

func (o Operator) systemd() []Block {
	op := o.Operator
	word := "regional"
	if op.Role == operators.RoleCentral {
		word = "central"
	}
	return collectorService(onOperatorMachine+asRoot, "Continuum "+word+" operator "+op.ID, op.ID, nil,
		o.configuration(o.configValues(stateDir(op.ID), inCredentials(op.ID))), o.secrets())
}

// stockUser is the user of the collector that most people have from a package.
const stockUser = "otelcol-contrib"

func (s Sender) systemd() []Block {
	if s.Collector == Continuum {
		id := s.HolderID
		return collectorService("on the machine "+id+asRoot, "Continuum collector of "+id, id, []string{"adm"},
			fill("cluster", s.configValues(stateDir(id), inCredentials(id))), s.secrets())
	}
	where := "on the machine " + s.HolderID + asRoot
	own := "; " + stockUser + " stands for the user of its collector"
	var blocks []Block
	for _, token := range s.secrets() {
		enroll := append([]string{"runuser", "-u", stockUser, "--", "ikhnos", "enroll"}, s.Server.flags()...)
		enroll = append(enroll, "--dir", s.dir(), "--enrollment-token-file", "-", "--force")
		folder := ShellWords("install", "-d", "-o", stockUser, "-m", "0700", stateDir(s.HolderID), s.dir())
		blocks = append(blocks, Block{where, "fetch the certificate with " + token.shown(token.title) + own, "enroll.sh",
			hereDoc(folder+" && "+ShellWords(enroll...), token.Value, "")})
	}
	name := "ikhnos-renew-" + s.HolderID + "-" + s.Link.OperatorID + ".service"
	u := Unit{
		Description: "Certificate of " + s.HolderID + " for " + s.Link.OperatorID,
		User:        stockUser, State: "continuum/" + s.HolderID + "/" + s.Link.OperatorID,
		Start: append(append([]string{"/usr/bin/ikhnos", "renew"}, s.Server.flags()...), "--dir", s.dir(), "--watch"),
	}
	return append(blocks, writeUnit(where, "keep the certificate new"+own, name, u),
		s.exporterBlock(inConfiguration, "the exporter, to be named in its pipelines", s.dir()))
}
