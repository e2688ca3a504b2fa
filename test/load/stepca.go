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
)

// stepCA is one step-ca with bbolt and a PKI of its own.
type stepCA struct {
	*process
	dir     string
	address string
	roots   *x509.CertPool
	clients []tls.Certificate // one for each worker
}

// startStepCA starts it without a request log, which ours has not either, and
// has it issue a client certificate for each worker.
func startStepCA(ctx context.Context, o Options) (*stepCA, error) {
	dir, err := os.MkdirTemp(o.Dir, "step-ca")
	if err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	authority, err := newStepAuthority(dir, address)
	if err != nil {
		return nil, err
	}
	c := &stepCA{dir: dir, address: address, roots: authority.roots}
	if c.process, err = startProcess(dir, "step-ca", o.StepCA, authority.config); err != nil {
		return nil, err
	}
	err = c.await(ctx, func() error {
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
		c.stop()
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

// rekeyTurn renews the workers' certificates n times, each for a new key.
func (c *stepCA) rekeyTurn(ctx context.Context, o Options, n int, fresh bool) (result, error) {
	requests, err := newKeyRequests(ctx, n)
	if err != nil {
		return result{}, err
	}
	conns := make([]*conn, o.Workers)
	for i := range conns {
		conns[i] = c.conn(&c.clients[i], fresh)
	}
	defer closeConns(conns)
	return measure(ctx, c.process, o.Workers, n, func(ctx context.Context, worker, i int, done func(time.Time)) error {
		began := time.Now()
		body, err := json.Marshal(map[string]string{"csr": string(requests[i].csr)})
		if err != nil {
			return err
		}
		var got signed
		if err := conns[worker].post(ctx, "/1.0/rekey", "", body, &got); err != nil {
			return err
		}
		done(began)
		return nil
	})
}
