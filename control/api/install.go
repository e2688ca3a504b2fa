// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
)

// InstallRequest asks for an operator's install commands. An empty format is
// shell.
type InstallRequest struct {
	Format string `json:"format,omitempty"`
}

// Install is how an operator is installed, block by block. Its secrets are shown
// once; those before them are dead. Warnings say what keeps a command from
// working elsewhere.
type Install struct {
	Format    string         `json:"format"`
	ExpiresAt time.Time      `json:"expiresAt"` // of the enrolment tokens
	Blocks    []InstallBlock `json:"blocks"`
	Warnings  []string       `json:"warnings,omitempty"`
}

// InstallBlock is one command: where it runs, what it does, its text. It may be
// run twice.
type InstallBlock struct {
	Where string `json:"where"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

const (
	formatShell      = "shell"
	installNamespace = "continuum-system"
	inItsCluster     = "in the operator's cluster"
	defaultPort      = "4317"
)

// install prints an operator's commands again with fresh secrets (IN-10 to IN-13).
func (s *Server) install(ctx context.Context, r *request, in InstallRequest) (*Install, error) {
	if in.Format != "" && in.Format != formatShell {
		p := controlapi.NewProblem(controlapi.ReasonValidationFailed, "")
		p.Errors = []controlapi.FieldError{{Field: "format", Detail: "must be one of: " + formatShell}}
		return nil, p
	}
	op, err := s.cfg.Operators.GetOperator(ctx, r.actor, r.id("id"))
	if err != nil {
		return nil, err
	}
	if err := s.cfg.Operators.RecordReissue(ctx, r.actor, op.ID); err != nil {
		return nil, err
	}
	out := &Install{Format: formatShell}
	values := map[string]any{
		"operator": map[string]any{"id": op.ID, "name": op.Name, "labels": op.Labels},
		"receiver": map[string]any{"requireAuth": true, "auth": map[string]any{"enabled": false}, "tls": map[string]any{"enabled": true, "mtls": true}},
		"service":  map[string]any{"type": serviceTypes[op.Exposure]},
	}
	server := s.publicURL(r.Request, out)
	if err := s.installCertificates(ctx, r, &op, server, out, values); err != nil {
		return nil, err
	}
	if op.Heartbeat == operators.SwitchOn {
		secret, err := s.cfg.Operators.MintHeartbeat(ctx, r.actor, op.ID)
		if err != nil {
			return nil, err
		}
		name := op.ID + "-heartbeat"
		out.secret("the heartbeat secret", name, "secret", secret.Secret)
		values["heartbeat"] = map[string]any{"enabled": true, "url": server + controlapi.RouteHeartbeat, "auth": map[string]any{"secretName": name}}
	}
	return out, out.helm(op.ID, values)
}

// serviceTypes are the chart's words for how far an operator reaches (IN-6).
var serviceTypes = map[operators.Exposure]string{
	operators.ExposureCluster:      "ClusterIP",
	operators.ExposureNodePort:     "NodePort",
	operators.ExposureLoadBalancer: "LoadBalancer",
}

// installCertificates mints the tokens by which the receiver and, towards another
// operator, the exporter enrol.
func (s *Server) installCertificates(ctx context.Context, r *request, op *operators.Operator, server string, out *Install, values map[string]any) error {
	token, err := s.cfg.Operators.MintToken(ctx, r.actor, op.ID, operators.TokenRequest{Role: controlapi.RoleReceiver})
	if err != nil {
		return err
	}
	out.ExpiresAt = token.ExpiresAt
	renew := map[string]any{"enabled": true, "server": server, "caPin": s.cfg.CAPin, "receiverTokenSecretName": op.ID + "-receiver-token"}
	values["renew"] = renew
	out.secret("the one-use token of its receiver", op.ID+"-receiver-token", "token", token.Token)
	switch d := op.Destination; {
	case d == nil:
	case d.Kind == operators.DestinationOTLP:
		values["export"] = map[string]any{"otlp": map[string]any{"endpoint": d.Endpoint}}
	default:
		next, err := s.cfg.Operators.GetOperator(ctx, r.actor, d.OperatorID)
		if err != nil {
			return err
		}
		token, err := s.cfg.Operators.MintToken(ctx, r.actor, next.ID, operators.TokenRequest{Role: controlapi.RoleSender, Sender: op.ID})
		if err != nil {
			return err
		}
		renew["exportTokenSecretName"] = op.ID + "-export-token"
		out.secret("the one-use token towards its destination", op.ID+"-export-token", "token", token.Token)
		values["export"] = map[string]any{"otlp": map[string]any{
			"endpoint": dialled(&next), "tls": map[string]any{"mtls": true, "serverName": identity.StableName(next.ID)},
		}}
	}
	return nil
}

// dialled is the recorded address of an operator or, until there is one, the name
// of its Service (AD-19, AD-20).
func dialled(op *operators.Operator) string {
	if op.Address != "" {
		return op.Address
	}
	return net.JoinHostPort(op.ID+"-regional-operator."+installNamespace+".svc", defaultPort)
}

// publicURL is the address that commands name: the configured one, else the host
// that the caller used, with a warning when it means nothing elsewhere (HB-25).
func (s *Server) publicURL(r *http.Request, out *Install) string {
	if s.cfg.PublicURL != "" {
		return strings.TrimRight(s.cfg.PublicURL, "/")
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if host == "localhost" || strings.HasSuffix(host, ".svc") || err == nil && (address.IsLoopback() || address.IsPrivate()) {
		out.Warnings = append(out.Warnings, "The server's address in these commands is not one that other clusters reach; start it with --public-url.")
	}
	return "https://" + r.Host
}

// secret adds a block that puts a secret into the cluster through standard input.
func (i *Install) secret(title, name, key, value string) {
	i.Blocks = append(i.Blocks, InstallBlock{Where: inItsCluster, Title: title, Text: fmt.Sprintf(
		"kubectl create secret generic %s --namespace %s --from-file=%s=/dev/stdin --dry-run=client -o yaml <<'END' | kubectl apply -f -\n%s\nEND\n",
		quoted(name), installNamespace, key, value)})
}

// helm adds the block that installs the chart, every value as JSON.
func (i *Install) helm(id string, values map[string]any) error {
	text := "helm upgrade --install " + quoted(id) + " continuum-regional-operator --namespace " + installNamespace + " --create-namespace"
	for _, name := range []string{"operator", "receiver", "service", "renew", "export", "heartbeat"} {
		value, ok := values[name]
		if !ok {
			continue
		}
		encoded, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("encoding a chart value: %w", err)
		}
		text += " \\\n  --set-json " + quoted(name+"="+string(encoded))
	}
	i.Blocks = append(i.Blocks, InstallBlock{Where: inItsCluster, Title: "the operator itself", Text: text + "\n"})
	return nil
}

// quoted is a word for sh that nothing can break out of.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
