// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// Poll asks for a policy that is not the one the caller has.
type Poll struct {
	OperatorID  string
	Serial      string // of the receiver leaf that proved itself
	IfNoneMatch string // as sent; "" when absent
	Wait        time.Duration
}

// Wait returns the operator's policy as soon as it differs from the caller's;
// changed is false when it still does not after p.Wait or when the server stops.
// A leaf that is revoked meanwhile is leaf_revoked at once; a caller that knows a
// later version than the server is ledger_rollback.
func (h *Hub) Wait(ctx context.Context, p Poll) (signed *Signed, changed bool, err error) {
	timeout := time.NewTimer(p.Wait)
	defer timeout.Stop()
	for {
		woken := h.waiters.wait(p.OperatorID)
		h.polls.note(p.OperatorID, p.Serial, h.store.Now())
		if signed, err = h.look(ctx, p); err != nil {
			return nil, false, err
		}
		if !Matches(p.IfNoneMatch, signed.ETag) {
			return signed, true, nil
		}
		if p.Wait <= 0 {
			return signed, false, nil
		}
		select {
		case <-woken:
		case <-timeout.C:
			return signed, false, nil
		case <-h.stop:
			return signed, false, nil
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

// look reads in one go what a poll depends on: how far the server is, how the
// operator stands and whether the leaf is still good. A revoked operator's leaves
// are all revoked and still get its last policy.
func (h *Hub) look(ctx context.Context, p Poll) (*Signed, error) {
	var r row
	err := h.store.View(ctx, func(tx *ledger.Tx) (err error) {
		if err := checkAhead(tx, p.IfNoneMatch); err != nil {
			return err
		}
		if r, err = readRow(tx, p.OperatorID); err != nil || r.state != operators.OperatorActive {
			return err
		}
		entry, err := tx.Entry(p.OperatorID, p.Serial)
		if err != nil {
			return fmt.Errorf("reading the entry of a poll: %w", err)
		}
		if entry.RevokedAt != nil {
			return controlapi.NewProblem(controlapi.ReasonLeafRevoked, "")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return h.current(ctx, p.OperatorID, r)
}

// checkAhead refuses a caller that has seen a later version than there is here:
// a restored server has to start a new epoch first.
func checkAhead(tx *ledger.Tx, ifNoneMatch string) error {
	version, err := tx.Version()
	if err != nil {
		return err
	}
	for _, tag := range strings.Split(ifNoneMatch, ",") {
		if known, ok := parseETag(tag); ok && controlapi.Version(version).Less(known) {
			return controlapi.NewProblem(controlapi.ReasonLedgerRollback, "")
		}
	}
	return nil
}

// etagOf is the strong validator of a policy. Replicas agree on it.
func etagOf(v controlapi.Version) string {
	return `"` + strconv.FormatInt(v.Epoch, 10) + "." + strconv.FormatInt(v.Number, 10) + `"`
}

// parseETag reads a tag that etagOf made.
func parseETag(tag string) (controlapi.Version, bool) {
	tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
	epoch, number, ok := strings.Cut(strings.Trim(tag, `"`), ".")
	if !ok {
		return controlapi.Version{}, false
	}
	e, err1 := strconv.ParseInt(epoch, 10, 64)
	n, err2 := strconv.ParseInt(number, 10, 64)
	return controlapi.Version{Epoch: e, Number: n}, errors.Join(err1, err2) == nil
}

// Matches compares as If-None-Match does (RFC 9110, section 13.1.2).
func Matches(ifNoneMatch, etag string) bool {
	for _, tag := range strings.Split(ifNoneMatch, ",") {
		tag = strings.TrimSpace(tag)
		if tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
			return true
		}
	}
	return false
}
