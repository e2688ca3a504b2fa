// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"maps"
	"slices"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

const (
	inOperatorCluster = "in the operator's cluster"
	agent             = "continuum-agent"
)

// chart is the name of the chart that an operator is installed with.
func (o Operator) chart() string {
	if o.Operator.Role == operators.RoleCentral {
		return "continuum-fusion"
	}
	return "continuum-regional-operator"
}

// serviceTypes are the chart's words for how far an operator reaches (IN-6).
var serviceTypes = map[operators.Exposure]string{
	operators.ExposureCluster:      "ClusterIP",
	operators.ExposureNodePort:     "NodePort",
	operators.ExposureLoadBalancer: "LoadBalancer",
}

// values are the chart values of an operator (requirements, index 3).
func (o Operator) values() map[string]any {
	op := o.Operator
	values := map[string]any{
		"operator": map[string]any{"id": op.ID, "name": op.Name, "labels": op.Labels},
		"receiver": map[string]any{"requireAuth": true, "auth": map[string]any{"enabled": false}, "tls": map[string]any{"enabled": true, "mtls": true}},
	}
	service := map[string]any{"service": map[string]any{"type": serviceTypes[op.Exposure]}}
	if op.Role == operators.RoleCentral {
		service = map[string]any{"central": service}
	}
	maps.Copy(values, service)
	renew, heartbeat := o.Server.renewal(), map[string]any{"enabled": false}
	for _, secret := range o.secrets() {
		switch secret.file {
		case "receiver-token":
			renew["receiverTokenSecretName"] = secret.object
		case "export-token":
			renew["exportTokenSecretName"] = secret.object
		case "heartbeat":
			heartbeat = map[string]any{"enabled": true, "url": o.Server.URL + controlapi.RouteHeartbeat, "auth": map[string]any{"secretName": secret.object}}
		}
	}
	values["renew"], values["heartbeat"] = renew, heartbeat
	switch {
	case o.Destination != nil:
		values["export"] = map[string]any{"otlp": o.Destination.export()}
	case o.toEndpoint():
		values["export"] = map[string]any{"otlp": map[string]any{"endpoint": op.Destination.Endpoint}}
	}
	return values
}

// export are the chart values of who dials an operator: its address, verified by
// its stable name (IN-9, IN-16, AD-21).
func (l Link) export() map[string]any {
	return map[string]any{"endpoint": l.Address, "tls": map[string]any{"mtls": true, "serverName": l.StableName()}}
}

// renewal are the chart values that let a collector enrol and renew (IN-8).
func (s Server) renewal() map[string]any {
	values := map[string]any{"enabled": true, "server": s.URL}
	if len(s.Pins) > 0 {
		values["caPin"] = s.Pins[0]
	}
	return values
}

// values are the chart values that point a cluster's own collectors at an operator
// (IN-2).
func (s Sender) values() map[string]any {
	renew := s.Server.renewal()
	for _, token := range s.secrets() {
		renew["exportTokenSecretName"] = token.object
	}
	return map[string]any{"renew": renew, "telemetry": map[string]any{"export": map[string]any{"otlp": s.Link.export()}}}
}

// namespaceBlock makes the namespace, because the secrets come before the chart.
func namespaceBlock(where string) Block {
	return Block{where, "the namespace", "namespace.sh",
		"kubectl create namespace " + namespace + " --dry-run=client --output=yaml | kubectl apply --filename=-\n"}
}

// secretObjects put secrets into the cluster through standard input.
func secretObjects(where string, secrets []named) []Block {
	blocks := []Block{namespaceBlock(where)}
	for _, s := range secrets {
		create := ShellWords("kubectl", "create", "secret", "generic", s.object, "--namespace="+namespace,
			"--from-file="+s.key+"=/dev/stdin", "--dry-run=client", "--output=yaml")
		blocks = append(blocks, Block{where, s.shown(s.title), s.file + ".sh", hereDoc(create, s.Value, " | kubectl apply --filename=-")})
	}
	return blocks
}

// helm installs a chart, or upgrades what is installed of it.
func (c Charts) helm(where, title, release, chart string, values map[string]any) Block {
	return c.upgrade(where, title, release, chart, values, "--install", "--create-namespace")
}

// upgrade changes an installed release, every value as JSON. Values that it has
// besides are kept.
func (c Charts) upgrade(where, title, release, chart string, values map[string]any, flags ...string) Block {
	words := append(append([]string{"helm", "upgrade"}, flags...), release)
	if c.Registry == "" {
		where += ", from the top of Continuum's repository"
		words = append(words, "./charts/"+chart)
	} else {
		words = append(words, c.Registry+"/"+chart, "--version="+c.Version)
	}
	text := ShellWords(append(words, "--namespace="+namespace, "--reuse-values")...)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		text += " \\\n  " + ShellWords("--set-json", name+"="+jsonText(values[name]))
	}
	return Block{where, title, "install.sh", text + "\n"}
}

// shell installs with kubectl and helm.
func (o Operator) shell() []Block {
	blocks := append(o.secretBlocks(),
		o.Charts.helm(inOperatorCluster, "the operator itself", o.Operator.ID, o.chart(), o.values()),
		Block{inOperatorCluster, "when it ran before, start it again with the new secrets", "restart.sh",
			ShellWords("kubectl", "rollout", "restart", "deployment/"+Release(o.Operator), "--namespace="+namespace) + "\n"})
	if o.Operator.Exposure != operators.ExposureCluster {
		blocks = append(blocks, Block{inOperatorCluster, "show the address to record: ikhnos operator address " + o.Operator.ID + " HOST:PORT", "address.sh",
			ShellWords("kubectl", "get", "service", Release(o.Operator), "--namespace="+namespace, "--output=wide") + "\n"})
	}
	return blocks
}

func (s Sender) inCluster() string { return "in the cluster " + s.HolderID }

func (s Sender) shell() []Block {
	return append(s.secretBlocks(),
		s.Charts.helm(s.inCluster(), "point its own collectors at "+s.Link.OperatorID, agent, agent, s.values()))
}
