// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package load

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ikhnos/continuum/internal/process"
)

// stepCA is one step-ca with bbolt and a PKI of its own.
type stepCA struct {
	*process.Process
	dir     string
	address string
	roots   *x509.CertPool
	clients []tls.Certificate // one for each worker
}

// startStepCA starts it without a request log, which ours has not either, and
// has it issue a client certificate for each worker.
func startStepCA(ctx context.Context, o Options, on disk) (*stepCA, error) {
	dir, err := os.MkdirTemp(o.Dir, "step-ca")
	if err != nil {
		return nil, err
	}
	port, err := process.FreePort(0)
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	authority, err := newStepAuthority(dir, address)
	if err != nil {
		return nil, err
	}
	c := &stepCA{dir: dir, address: address, roots: authority.roots}
	if c.Process, err = on.start(dir, "step-ca", o.StepCA, authority.config); err != nil {
		return nil, err
	}
	err = await(ctx, c.Process, func(ctx context.Context) error {
		probe := c.conn(nil, true)
		defer probe.close()
		return probe.dial(ctx)
	})
	for i := 0; i < o.Workers && err == nil; i++ {
		var leaf tls.Certificate
		leaf, err = c.sign(ctx, authority, fmt.Sprintf("worker-%d", i))
		c.clients = append(c.clients, leaf)
	}
	if err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// conn returns a connection that shows leaf, unless that is nil.
func (c *stepCA) conn(leaf *tls.Certificate, fresh bool) *conn {
	return &conn{address: c.address, config: connTLS(c.roots, leaf), fresh: fresh}
}

// signed is the part of step-ca's answer that is used.
type signed struct {
	Chain []string `json:"certChain"`
}

// sign gets a first certificate by a one-time token.
func (c *stepCA) sign(ctx context.Context, authority *stepAuthority, name string) (tls.Certificate, error) {
	r, err := newKeyRequest(name)
	if err != nil {
		return tls.Certificate{}, err
	}
	token, err := authority.token("https://"+c.address+"/1.0/sign", name)
	if err != nil {
		return tls.Certificate{}, err
	}
	body, err := json.Marshal(map[string]string{"csr": string(r.csr), "ott": token})
	if err != nil {
		return tls.Certificate{}, err
	}
	conn := c.conn(nil, true)
	defer conn.close()
	var got signed
	if err := conn.post(ctx, "/1.0/sign", "", body, &got); err != nil {
		return tls.Certificate{}, err
	}
	leaf := tls.Certificate{PrivateKey: r.key}
	for _, text := range got.Chain {
		block, _ := pem.Decode([]byte(text))
		if block == nil {
			return leaf, errors.New("the answer holds no certificate")
		}
		leaf.Certificate = append(leaf.Certificate, block.Bytes)
	}
	return leaf, nil
}

// rekeyTurn renews the workers' certificates n times, each for a new key. Requests
// are made before anything is timed, and answers are read after.
func (c *stepCA) rekeyTurn(ctx context.Context, o Options, n int, fresh bool) (result, error) {
	requests, err := newKeyRequests(ctx, n)
	if err != nil {
		return result{}, err
	}
	bodies, answers := make([][]byte, n), make([][]byte, n)
	for i := range bodies {
		if bodies[i], err = json.Marshal(map[string]string{"csr": string(requests[i].csr)}); err != nil {
			return result{}, err
		}
	}
	conns := make([]*conn, o.Workers)
	for i := range conns {
		conns[i] = c.conn(&c.clients[i], fresh)
	}
	defer closeConns(conns)
	turn, err := measure(ctx, c.Process, o.Workers, n, func(ctx context.Context, worker, i int, done func(time.Time)) (err error) {
		began := time.Now()
		if answers[i], err = conns[worker].call(ctx, "/1.0/rekey", "", bodies[i]); err == nil {
			done(began)
		}
		return err
	})
	if err != nil {
		return turn, err
	}
	for _, answer := range answers {
		var got signed
		if err := json.Unmarshal(answer, &got); err != nil {
			return turn, err
		}
		if len(got.Chain) == 0 {
			return turn, errors.New("the answer holds no certificate")
		}
	}
	return turn, nil
}
