// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ikhnos/continuum/control/install"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/version"
)

// InstallRequest asks for an operator's install commands. An empty format is shell,
// empty keys are enrolled.
type InstallRequest struct {
	Format install.Format      `json:"format,omitempty"`
	Keys   operators.KeySource `json:"keys,omitempty"`
}

// Install is how an operator is installed, block by block. Its secrets are shown
// once; those before them are dead. Warnings say what keeps a command from
// working elsewhere.
type Install struct {
	Format    install.Format  `json:"format"`
	ExpiresAt time.Time       `json:"expiresAt"` // of the enrolment tokens or, with keys, of the receiver's certificate
	Blocks    []install.Block `json:"blocks"`
	Warnings  []string        `json:"warnings,omitempty"`
}

func (i *Install) warn(format string, args ...any) {
	i.Warnings = append(i.Warnings, fmt.Sprintf(format, args...))
}

// install prints an operator's commands again with fresh secrets (IN-10 to IN-13).
func (s *Server) install(ctx context.Context, r *request, in InstallRequest) (*Install, error) {
	if err := in.check(r.actor.Role); err != nil {
		return nil, err
	}
	out := &Install{Format: in.Format}
	op, err := s.cfg.Operators.GetOperator(ctx, r.actor, r.id("id"))
	if err != nil {
		return nil, err
	}
	if err := s.cfg.Operators.RecordReissue(ctx, r.actor, op.ID, in.Keys); err != nil {
		return nil, err
	}
	facts := install.Operator{Operator: &op, Server: s.installServer(r.Request, out), Charts: install.Charts{Registry: s.cfg.ChartRegistry, Version: version.Version}}
	facts.Receiver, facts.ReceiverKeys, err = s.installCredential(ctx, r, in.Keys, op.ID, operators.TokenRequest{Role: controlapi.RoleReceiver})
	if err != nil {
		return nil, err
	}
	if out.ExpiresAt = facts.Receiver.EndsAt; facts.ReceiverKeys != nil {
		out.ExpiresAt = facts.ReceiverKeys.EndsAt
		out.warnOfKeys(op.ID, out.ExpiresAt)
	}
	if err := s.installExport(ctx, r, &facts, in.Keys, out); err != nil {
		return nil, err
	}
	if op.Heartbeat == operators.SwitchOn {
		minted, err := s.cfg.Operators.MintHeartbeat(ctx, r.actor, op.ID)
		if err != nil {
			return nil, err
		}
		facts.Heartbeat = install.Secret{Value: minted.Secret}
		if op.HeartbeatMinted {
			out.warn("The heartbeat secret that %s had is dead: its beats are refused until the new one is in its place.", op.ID)
		}
	}
	if err := s.installSources(ctx, r, &facts, in.Keys, out); err != nil {
		return nil, err
	}
	out.Blocks = facts.Blocks(out.Format)
	return out, nil
}

// installExport adds the way to the operator that this one sends to, if any, and
// the token or the keys for its certificate there.
func (s *Server) installExport(ctx context.Context, r *request, facts *install.Operator, from operators.KeySource, out *Install) error {
	d := facts.Operator.Destination
	if d == nil || d.Kind != operators.DestinationOperator {
		return nil
	}
	next, err := s.cfg.Operators.GetOperator(ctx, r.actor, d.OperatorID)
	if err != nil {
		return err
	}
	link, err := s.installLink(ctx, r, &next, facts.Operator.ID, out)
	if err != nil {
		return err
	}
	facts.Destination = &link
	facts.Export, facts.ExportKeys, err = s.installCredential(ctx, r, from, next.ID, asSender(facts.Operator.ID))
	return err
}

// installSources points the clusters that were named at the operator's creation at
// it (IN-2, IN-10). One that may not send now is left out, and said.
func (s *Server) installSources(ctx context.Context, r *request, facts *install.Operator, from operators.KeySource, out *Install) error {
	for _, id := range facts.Operator.SourceClusterIDs {
		source := install.Sender{Server: facts.Server, Charts: facts.Charts, HolderID: id, Collector: install.Continuum}
		var err error
		if source.Link, err = s.installLink(ctx, r, facts.Operator, id, out); err == nil {
			source.Token, source.Keys, err = s.installCredential(ctx, r, from, facts.Operator.ID, asSender(id))
		}
		var refusal *controlapi.Problem
		if errors.As(err, &refusal) && refusal.Status < http.StatusInternalServerError {
			out.warn("Cluster %s is left out: it may not send to %s now (%s).", id, facts.Operator.ID, refusal.Reason)
			continue
		}
		if err != nil {
			return err
		}
		facts.Sources = append(facts.Sources, source)
	}
	return nil
}

func asSender(holderID string) operators.TokenRequest {
	return operators.TokenRequest{Role: controlapi.RoleSender, Sender: holderID}
}

// installLink is a sender's way to an operator. It warns once of one without a
// recorded address (AD-19).
func (s *Server) installLink(ctx context.Context, r *request, to *operators.Operator, holderID string, out *Install) (install.Link, error) {
	sender, err := s.cfg.Operators.GetSender(ctx, r.actor, to.ID, holderID)
	if err != nil {
		return install.Link{}, err
	}
	link := install.To(to)
	if sender.Address != "" {
		link.Address = sender.Address
	} else if to.Address == "" {
		warning := fmt.Sprintf("No address of %s is recorded, so its Service is dialled, which resolves only inside its own cluster; "+
			"record one: ikhnos operator address %s HOST:PORT", to.ID, to.ID)
		if !slices.Contains(out.Warnings, warning) {
			out.Warnings = append(out.Warnings, warning)
		}
	}
	return link, nil
}

// installServer is the server as commands name it: its public address, else the
// host that the caller used, with a warning when it means nothing elsewhere
// (HB-25).
func (s *Server) installServer(r *http.Request, out *Install) install.Server {
	server := install.Server{URL: strings.TrimRight(s.cfg.PublicURL, "/")}
	if s.cfg.CAPin != "" {
		server.Pins = []string{s.cfg.CAPin}
	}
	if server.URL != "" {
		return server
	}
	server.URL = "https://" + r.Host
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if host == "localhost" || strings.HasSuffix(host, ".svc") || err == nil && (address.IsLoopback() || address.IsPrivate()) {
		out.warn("The server's address in these commands is not one that other clusters reach; start it with --public-url.")
	}
	return server
}
