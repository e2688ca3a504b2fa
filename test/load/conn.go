// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package load

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/ikhnos/continuum/internal/controlclient"
	"github.com/ikhnos/continuum/internal/holderproof"
)

// conn is one worker's connection: HTTP/1.1 over TLS, written by hand, because
// net/http's client would take a good part of the cores that generator and server
// share. Both servers are called through it.
type conn struct {
	address string
	config  *tls.Config
	fresh   bool // a new connection for each request

	tls    *tls.Conn // nil when there is none
	reader *bufio.Reader
	buffer []byte
}

// post sends body and reads a good answer into out.
func (c *conn) post(ctx context.Context, path, header string, body []byte, out any) error {
	text, err := c.call(ctx, path, header, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, out)
}

// call sends body as JSON with one more header line, which may be empty, and
// returns the body of a good answer.
func (c *conn) call(ctx context.Context, path, header string, body []byte) ([]byte, error) {
	if c.tls == nil {
		if err := c.dial(ctx); err != nil {
			return nil, err
		}
	}
	c.buffer = append(c.buffer[:0], "POST "+path+" HTTP/1.1\r\nHost: "+c.address+"\r\nContent-Type: application/json\r\n"+header+"Content-Length: "...)
	c.buffer = strconv.AppendInt(c.buffer, int64(len(body)), 10)
	c.buffer = append(append(c.buffer, "\r\n\r\n"...), body...)
	if _, err := c.tls.Write(c.buffer); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return nil, err
	}
	if c.fresh {
		c.close()
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return nil, fmt.Errorf("the server answered %s: %s", response.Status, text)
	}
	return text, nil
}

func (c *conn) dial(ctx context.Context) error {
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.address)
	if err != nil {
		return err
	}
	c.tls = tls.Client(raw, c.config)
	if err := c.tls.HandshakeContext(ctx); err != nil {
		return errors.Join(err, raw.Close())
	}
	c.reader = bufio.NewReader(c.tls)
	return nil
}

func (c *conn) close() {
	if c.tls != nil {
		_ = c.tls.Close()
		c.tls = nil
	}
}

// connTLS is the configuration of a connection that trusts roots and shows leaf,
// unless that is nil. Sessions are not resumed: a new connection is a whole
// handshake.
func connTLS(roots *x509.CertPool, leaf *tls.Certificate) *tls.Config {
	config := &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}}
	if leaf != nil {
		config.Certificates = []tls.Certificate{*leaf}
	}
	return config
}

// proofHeader is the header line by which a holder proves itself for one request.
func proofHeader(h controlclient.Holder, r holderproof.Request, now time.Time) (string, error) {
	proof, err := holderproof.Sign(h.Key, h.Leaf, r, now)
	return "Authorization: " + holderproof.Scheme + " " + proof + "\r\n", err
}
