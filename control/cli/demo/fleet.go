// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/process"
)

// Ids of the fleet. The forger is the cluster that claims to be the other one and
// is cut off in the end.
const (
	CentralID  = "op-central"
	RegionalID = "op-eu"
	ClusterID  = "c1"
	ForgerID   = "c2"
	OrgID      = "default"
)

// Config says where the fleet finds its programs and keeps its state.
type Config struct {
	Ikhnos       string // path of the control binary
	Collector    string // path of the collector binary
	Dir          string // folder for all state; it must exist
	PortBase     int    // first of the usual ports; a taken one is replaced
	LeafLifetime time.Duration
	Now          func() time.Time
	OnRecord     func(Record) // called for every record at the sink; may be nil
}

// Fleet is the running set of processes and the ways to look at it.
type Fleet struct {
	API  *apiclient.Client // administers organisation default
	Sink *Sink
	// SinkURL is the page that shows what the sink keeps.
	SinkURL string
	URL     string // of the control server, its web page included
	// MetricsAddress is where the control server shows its metrics, host:port.
	MetricsAddress string
	Pin            string // of the control server's CA
	// TokenFile holds the first admin token.
	TokenFile string

	cfg        Config
	ports      *ports
	server     *process.Process
	sinkPort   int
	sinkPage   *http.Server
	collectors map[string]*Collector
	order      []string // of the collectors' start
}

// Collector is one continuum-collector of the fleet. GRPCPort takes OTLP: with
// mTLS on an operator, in clear from applications on a cluster.
type Collector struct {
	*process.Process
	GRPCPort, HTTPPort, MetricsPort int
	// StateDir holds its certificates (receiver/, export/) and policy cache.
	StateDir string

	name       string
	env, args  []string
	healthPort int
}

// Start brings the fleet up: the server first, then the collectors from the
// centre outwards, each joined by a token of the real API. On an error everything
// that was started is stopped.
func Start(ctx context.Context, cfg Config) (_ *Fleet, err error) {
	f := &Fleet{cfg: cfg, ports: &ports{next: cfg.PortBase}, collectors: map[string]*Collector{}}
	defer func() {
		if err != nil {
			f.Stop()
		}
	}()
	if err := f.startSink(); err != nil {
		return nil, err
	}
	otlpPort := f.ports.take() // of the cluster that takes the server's own traces
	if err := f.startServer(ctx, otlpPort); err != nil {
		return nil, err
	}
	if err := f.provision(ctx); err != nil {
		return nil, err
	}
	for _, start := range []func(context.Context) error{
		f.startCentral,
		f.startRegional,
		func(ctx context.Context) error { return f.startCluster(ctx, ClusterID, otlpPort) },
		func(ctx context.Context) error { return f.startCluster(ctx, ForgerID, f.ports.take()) },
	} {
		if err := start(ctx); err != nil {
			return nil, err
		}
	}
	return f, f.ports.err
}

// startSink opens the sink and its page; both end with Stop.
func (f *Fleet) startSink() error {
	f.Sink = NewSink(f.cfg.Now, f.cfg.OnRecord)
	f.sinkPage = &http.Server{Handler: f.Sink.Page(), ReadHeaderTimeout: 10 * time.Second}
	otlp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("opening the sink: %w", err)
	}
	f.sinkPort = otlp.Addr().(*net.TCPAddr).Port
	go func() { _ = f.Sink.Serve(otlp) }() // ends with Stop
	page, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("opening the sink's page: %w", err)
	}
	f.SinkURL = "http://" + page.Addr().String()
	go func() { _ = f.sinkPage.Serve(page) }() // ends with Stop
	return nil
}

// Stop ends the processes in the direction of the data, so that none waits for a
// next hop that has gone: the server, whose traces go to a cluster, then the
// collectors from the edge inwards, and the sink last.
func (f *Fleet) Stop() {
	if f.server != nil {
		f.server.Stop()
	}
	for i := len(f.order) - 1; i >= 0; i-- {
		f.collectors[f.order[i]].Stop()
	}
	f.Sink.Stop()
	_ = f.sinkPage.Close()
}

// Collector returns a collector of the fleet by its operator or cluster id.
func (f *Fleet) Collector(id string) *Collector { return f.collectors[id] }

// Server returns the process of the control server.
func (f *Fleet) Server() *process.Process { return f.server }

// Failure returns the first process that has ended by itself, as an error.
func (f *Fleet) Failure() error {
	for _, p := range f.processes() {
		if err := p.Ended(); err != nil {
			return err
		}
	}
	return nil
}

func (f *Fleet) processes() []*process.Process {
	var all []*process.Process
	if f.server != nil {
		all = append(all, f.server)
	}
	for _, id := range f.order {
		all = append(all, f.collectors[id].Process)
	}
	return all
}

var pinPattern = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

// startServer starts the control server, whose own requests are traced to the
// OTLP port of a cluster collector, and reads pin and admin token as its
// operator would.
func (f *Fleet) startServer(ctx context.Context, otlpPort int) error {
	data := filepath.Join(f.cfg.Dir, "server")
	f.TokenFile = filepath.Join(data, "admin.token")
	address := fmt.Sprintf("127.0.0.1:%d", f.ports.takeUsual(8443))
	f.URL = "https://" + address
	f.MetricsAddress = fmt.Sprintf("127.0.0.1:%d", f.ports.take())
	server, err := process.Start(f.cfg.Dir, "server", []string{
		fmt.Sprintf("OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:%d", otlpPort),
		"OTEL_SERVICE_NAME=ikhnos",
		"OTEL_BSP_SCHEDULE_DELAY=500",
	}, f.cfg.Ikhnos, "server",
		"--data-dir", data,
		"--listen", address,
		"--metrics-listen", f.MetricsAddress,
		"--public-url", f.URL,
		"--leaf-lifetime", f.cfg.LeafLifetime.String(),
	)
	if err != nil {
		return err
	}
	f.server = server
	return process.Poll(ctx, "the control server", f.processes(), func(ctx context.Context) error {
		log, err := server.Output()
		if err != nil {
			return err
		}
		f.Pin = pinPattern.FindString(log)
		token, err := os.ReadFile(f.TokenFile)
		if err != nil || f.Pin == "" {
			return errors.Join(err, errors.New("the server has not printed its pin yet"))
		}
		f.API, err = apiclient.New(apiclient.Config{
			Server: f.URL, Token: strings.TrimSpace(string(token)), CAPins: []string{f.Pin}, Org: OrgID, Timeout: 30 * time.Second,
		})
		if err != nil {
			return err
		}
		_, err = f.API.Orgs(ctx)
		return err
	})
}

// provision declares the fleet as a person would with the command line.
func (f *Fleet) provision(ctx context.Context) error {
	if _, err := f.API.PutOperator(ctx, CentralID, operators.OperatorRequest{
		Name: "Central", Role: operators.RoleCentral, Heartbeat: operators.SwitchOn,
	}); err != nil {
		return fmt.Errorf("creating %s: %w", CentralID, err)
	}
	if _, err := f.API.PutOperator(ctx, RegionalID, operators.OperatorRequest{
		Name: "EU West", Role: operators.RoleRegional, Heartbeat: operators.SwitchOn,
		Labels:      map[string]string{"region": "eu-west"},
		Destination: &operators.Destination{Kind: operators.DestinationOperator, OperatorID: CentralID},
	}); err != nil {
		return fmt.Errorf("creating %s: %w", RegionalID, err)
	}
	for _, id := range []string{ClusterID, ForgerID} {
		if _, err := f.API.PutCluster(ctx, id, operators.ClusterRequest{
			Kind: operators.ClusterHost, Labels: map[string]string{"env": "demo"},
		}); err != nil {
			return fmt.Errorf("registering %s: %w", id, err)
		}
		if _, err := f.API.ApproveCluster(ctx, id); err != nil {
			return fmt.Errorf("approving %s: %w", id, err)
		}
		if _, err := f.API.ConnectSender(ctx, RegionalID, id, ""); err != nil {
			return fmt.Errorf("connecting %s: %w", id, err)
		}
	}
	return nil
}

// secretDir makes the folder that a collector reads its secrets from.
func (f *Fleet) secretDir(name string) (string, error) {
	dir := filepath.Join(f.cfg.Dir, name, "secrets")
	return dir, os.MkdirAll(dir, 0o700)
}

// token mints an enrolment token into a file.
func (f *Fleet) token(ctx context.Context, path, operatorID string, role controlapi.Role, sender string) error {
	token, err := f.API.CreateToken(ctx, operatorID, role, sender, time.Hour)
	if err != nil {
		return fmt.Errorf("minting a token of %s: %w", operatorID, err)
	}
	return os.WriteFile(path, []byte(token.Token+"\n"), 0o600)
}

// heartbeat mints an operator's heartbeat secret into a file.
func (f *Fleet) heartbeat(ctx context.Context, path, operatorID string) error {
	secret, err := f.API.MintHeartbeat(ctx, operatorID)
	if err != nil {
		return fmt.Errorf("minting the heartbeat of %s: %w", operatorID, err)
	}
	return os.WriteFile(path, []byte(secret.Secret+"\n"), 0o600)
}

// ports hands out loopback ports, the usual ones while they are free.
type ports struct {
	next int
	err  error // the first failure; checked once at the end of the start
}

func (p *ports) take() int {
	p.next++
	return p.takeUsual(p.next)
}

func (p *ports) takeUsual(port int) int {
	got, err := process.FreePort(port)
	if err != nil && p.err == nil {
		p.err = err
	}
	return got
}
