// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"time"

	"github.com/ikhnos/continuum/control/operators"
)

// Format is a form of what is printed.
type Format string

// Formats. Process is a collector as a plain process with the shipped
// configuration; the API does not print it.
const (
	Shell      Format = "shell"
	HelmValues Format = "helm-values"
	Manifests  Format = "manifests"
	ArgoCD     Format = "argocd"
	Flux       Format = "flux"
	Systemd    Format = "systemd"
	Config     Format = "config"
	Process    Format = "process"
)

// Formats are those that the API prints, the default first.
func Formats() []Format {
	return []Format{Shell, HelmValues, Manifests, ArgoCD, Flux, Systemd, Config}
}

// Collector is what a sender runs.
type Collector string

// Collectors. A stock one reads PEM files that ikhnos enrols and renews.
const (
	Stock     Collector = "stock"
	Continuum Collector = "continuum"
)

// Block is one piece of what a person has to run or to paste: where, what it does,
// its text. It may be used twice.
type Block struct {
	Where string `json:"where"`
	Title string `json:"title"`
	File  string `json:"file"` // a name for it as a file
	Text  string `json:"text"`
}

// Server is the control server as machines elsewhere name it. Pins are sha256:HEX
// and empty for a server with a public certificate.
type Server struct {
	URL  string
	Pins []string
}

// Charts say where our charts come from: an OCI registry (oci://HOST/PATH) or,
// without one, this project's repository. Version is that of the server.
type Charts struct {
	Registry string
	Version  string
}

// Secret is a secret that is shown once. The zero EndsAt is for one without an end,
// or with one that the caller does not know.
type Secret struct {
	Value  string
	EndsAt time.Time
}

// Link is a sender's way to an operator. Address is host:port.
type Link struct {
	OperatorID string
	Address    string
}

// To is the way to an operator at its own address.
func To(o *operators.Operator) Link { return Link{o.ID, Address(o)} }

// Operator holds the facts of an operator's installation. Destination is nil when
// it sends to no other operator; secrets without a value are not needed. Keys, in
// the formats of KeyFormats, stand in the place of a token.
type Operator struct {
	Server       Server
	Charts       Charts
	Operator     *operators.Operator
	Destination  *Link
	Receiver     Secret
	Export       Secret
	Heartbeat    Secret
	ReceiverKeys *Keys
	ExportKeys   *Keys
	Sources      []Sender // clusters named at its creation, to be pointed at it
}

// Blocks renders the installation in a format.
func (o Operator) Blocks(f Format) []Block {
	blocks := map[Format]func(Operator) []Block{
		Shell: Operator.shell, HelmValues: Operator.helmValues, Manifests: Operator.manifests, ArgoCD: Operator.argoCD,
		Flux: Operator.flux, Systemd: Operator.systemd, Config: Operator.config, Process: Operator.process,
	}[f](o)
	for _, source := range o.Sources {
		blocks = append(blocks, source.Blocks(f)...)
	}
	return blocks
}

// Sender holds the facts of a sender's connection. A token without a value is not
// needed; Keys, in the formats of KeyFormats, stand in its place.
type Sender struct {
	Server    Server
	Charts    Charts
	HolderID  string
	Link      Link
	Token     Secret
	Keys      *Keys
	Collector Collector // with Process, Systemd and Config
}

// Blocks renders the connection in a format. With Shell, HelmValues, ArgoCD and
// Flux the sender is a cluster with our chart, with Manifests one with any
// collector that mounts a Secret.
func (s Sender) Blocks(f Format) []Block {
	return map[Format]func(Sender) []Block{
		Shell: Sender.shell, HelmValues: Sender.helmValues, Manifests: Sender.manifests, ArgoCD: Sender.argoCD,
		Flux: Sender.flux, Systemd: Sender.systemd, Config: Sender.config, Process: Sender.process,
	}[f](s)
}

// shown is the title of a secret: that it is shown once, and its end.
func (s Secret) shown(what string) string {
	if s.EndsAt.IsZero() {
		return what + " (shown once)"
	}
	return what + " (shown once, works once until " + s.EndsAt.UTC().Format(time.RFC3339) + ")"
}
