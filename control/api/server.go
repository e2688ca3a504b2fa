// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/control/pki"
	"github.com/ikhnos/continuum/control/policy"
)

// Config is what a Server works with. All fields but those marked are needed.
type Config struct {
	Store     *ledger.Store
	Operators *operators.Service
	Issuer    *pki.Issuer
	Policy    *policy.Hub
	Liveness  *liveness.Tracker
	Registry  prometheus.Registerer
	Log       *slog.Logger
	Now       func() time.Time
	// TrustedProxies are those whose X-Forwarded-For counts; may be empty.
	TrustedProxies []netip.Prefix
	// Split serves machine paths and administration by two handlers.
	Split bool
	// Session returns who is signed in by a request of the web page, or
	// admin_unauthenticated or cross_site_refused; nil without a web page.
	Session func(*http.Request) (operators.Actor, error)
	// Web serves what no route of the API does; nil without a web page.
	Web http.Handler
	// PublicURL and CAPin are what printed commands name; PublicURL may be empty.
	PublicURL, CAPin string
	// ChartRegistry is the OCI registry of our charts in printed commands, such as
	// oci://registry.example.com/charts; empty for this project's repository.
	ChartRegistry string
	// KeysSealed says whether CA keys are sealed by a passphrase.
	KeysSealed bool
}

// Server is the HTTP API. It starts nothing; its handlers are safe for
// concurrent use.
type Server struct {
	cfg         Config
	log         *slog.Logger
	now         func() time.Time
	throttle    *throttle
	authorities *authorities
	genuine     genuine
	metrics     *metrics
	document    *huma.OpenAPI
	machineAPI  huma.Adapter
	adminAPI    huma.Adapter
	ready       readiness

	// Machine serves machine paths, revocation lists and probes; without Split
	// the administration too.
	Machine http.Handler
	// Admin serves the administration; without Split it is Machine.
	Admin http.Handler
}

// New assembles the API on its parts.
func New(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg, log: cfg.Log, now: cfg.Now, throttle: newThrottle(cfg.Now), document: newDocument(cfg.Session != nil)}
	s.authorities = &authorities{read: s.readAuthority}
	var err error
	if s.metrics, err = newMetrics(cfg.Registry, s); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	machineMux := http.NewServeMux()
	adminMux := machineMux
	if cfg.Split {
		adminMux = http.NewServeMux()
	}
	s.machineAPI, s.adminAPI = humago.NewAdapter(machineMux, ""), humago.NewAdapter(adminMux, "")
	s.machinePaths()
	s.registryPaths()
	s.operatorPaths()
	s.senderPaths()
	s.ledgerPaths()
	s.readingPaths()
	s.statePaths()
	s.ownPaths()
	finishDocument(s.document)
	adminMux.HandleFunc("GET /api/openapi.json", s.openAPI)
	adminMux.HandleFunc("GET "+helpPath+"{reason}", s.help)
	s.Admin = s.wrap(adminMux, cfg.Web)
	s.Machine = s.Admin
	if cfg.Split {
		machineMux.HandleFunc("GET "+helpPath+"{reason}", s.help)
		s.Machine = s.wrap(machineMux, nil)
	}
	return s, nil
}

func (s *Server) openAPI(w http.ResponseWriter, r *http.Request) {
	s.reply(w, r, http.StatusOK, s.document)
}

// authorize returns who asks, in the organisation of the path: first who it is,
// then the organisation, then the role.
func (s *Server) authorize(r *http.Request, role operators.AdminRole) (operators.Actor, error) {
	c := callOf(r.Context())
	actor, err := s.authenticate(r)
	if err != nil {
		return actor, err
	}
	c.actor = actor.Name
	actor.RequestID, actor.Address = c.requestID, c.address.String()
	if org := r.PathValue("org"); org != "" {
		if actor, err = s.cfg.Operators.Enter(r.Context(), actor, org); err != nil {
			return actor, err
		}
	}
	return actor, actor.Require(role)
}

func (s *Server) authenticate(r *http.Request) (operators.Actor, error) {
	if s.cfg.Session != nil && len(r.Header.Values("Authorization")) == 0 {
		return s.cfg.Session(r)
	}
	return s.cfg.Operators.Authenticate(r.Context(), bearer(r))
}

// bearer returns the secret of an Authorization header, "" without exactly one.
func bearer(r *http.Request) string {
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return ""
	}
	scheme, secret, _ := strings.Cut(headers[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.Trim(secret, " ")
}

func joined(headers []string) string { return strings.Join(headers, ",") }

// readAuthority reads the CA certificate of an operator, nil when there is none.
// The id is what a certificate calls its issuer, so it may be anything.
func (s *Server) readAuthority(ctx context.Context, operatorID string) (der []byte, err error) {
	if !storable(operatorID) {
		return nil, nil
	}
	err = s.cfg.Store.View(ctx, func(tx *ledger.Tx) error {
		return tx.QueryRow(`SELECT client_ca_cert FROM operators WHERE id = $1`, operatorID).Scan(&der)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the CA certificate of an operator: %w", err)
	}
	return der, nil
}
