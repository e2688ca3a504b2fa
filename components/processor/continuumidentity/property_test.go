// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pipeline"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/ikhnos/continuum/components/processor/continuumidentity/internal/metadata"
	"github.com/ikhnos/continuum/internal/identity"
)

// reservedByTheRule is the rule as it is written, without any short cut.
func reservedByTheRule(key string) bool {
	form := identity.NormalForm(key)
	return form == "continuum" || strings.HasPrefix(form, "continuum_") || form == "vm_account_id" || form == "vm_project_id"
}

// checker runs generated requests through an instance and says what is wrong with
// what comes out.
type checker struct {
	*generator
	t      testing.TB
	p      *identityProcessor
	sender *identity.Sender
	ctx    context.Context // of this sender
	before []string        // unreserved keys of each map, in order
	after  []string
	fault  string
}

func newChecker(t testing.TB, seed uint64, sender *identity.Sender, mode Mode) *checker {
	p, err := newProcessor(processortest.NewNopSettings(metadata.Type), senderConfig(mode), pipeline.SignalTraces)
	require.NoError(t, err)
	return &checker{generator: &generator{Rand: rand.New(rand.NewPCG(seed, 0))}, t: t, p: p, sender: sender, ctx: as(sender)}
}

// one runs one generated request of one signal and returns a fault, empty when
// there is none.
func (c *checker) one() string {
	c.before, c.after, c.fault = c.before[:0], c.after[:0], ""
	var err error
	switch c.IntN(4) {
	case 0:
		td := c.traces()
		visitTraces(td, c.remember)
		if td, err = c.p.traces(c.ctx, td); err == nil {
			visitTraces(td, c.check)
		}
	case 1:
		ld := c.logs()
		visitLogs(ld, c.remember)
		if ld, err = c.p.logs(c.ctx, ld); err == nil {
			visitLogs(ld, c.check)
		}
	case 2:
		md := c.metrics()
		visitMetrics(md, c.remember)
		if md, err = c.p.metrics(c.ctx, md); err == nil {
			visitMetrics(md, c.check)
		}
	default:
		pd := c.profiles(c.t)
		c.rememberProfiles(pd)
		if pd, err = c.p.profiles(c.ctx, pd); err == nil {
			c.checkProfiles(pd)
		}
	}
	if err == nil && c.fault == "" && !slices.Equal(c.before, c.after) {
		c.fault = fmt.Sprintf("other keys: %q became %q", c.before, c.after)
	}
	return c.fault
}

// others appends the keys of a map that nobody may touch. Labels on the resource
// are ours.
func (c *checker) others(to []string, at level, m pcommon.Map) []string {
	for key := range m.All() {
		form := identity.NormalForm(key)
		if reservedByTheRule(key) || at == levelResource && (form == "region" || form == "env" || form == "project") {
			continue
		}
		to = append(to, key)
	}
	return append(to, "|")
}

func (c *checker) remember(at level, m pcommon.Map) { c.before = c.others(c.before, at, m) }

func (c *checker) check(at level, m pcommon.Map) {
	c.after = c.others(c.after, at, m)
	if at == levelResource {
		c.checkResource(m)
		return
	}
	for key := range m.All() {
		if reservedByTheRule(key) {
			c.fault = fmt.Sprintf("%q at level %s", key, levelNames[at])
		}
	}
}

// checkResource allows the five keys alone, once each, as strings, with values
// that the sender may have.
func (c *checker) checkResource(m pcommon.Map) {
	said := map[string]string{}
	for key, value := range m.All() {
		form := identity.NormalForm(key)
		if !reservedByTheRule(key) && form != "region" {
			continue
		}
		if _, twice := said[key]; twice || value.Type() != pcommon.ValueTypeStr || !isIdentityKey(key) && key != "region" {
			c.fault = fmt.Sprintf("%q on the resource: %v", key, list(m))
			return
		}
		said[key] = value.Str()
	}
	from := origin{said[identity.KeyOrgID], said[identity.KeyClusterID]}
	ok := said["region"] == "eu-west" && said[identity.KeyOperatorID] == c.sender.OperatorID && said[identity.KeyOperatorName] == c.sender.OperatorName
	if c.sender.OperatorID == "" {
		ok = ok && from == origin{c.sender.OrgID, c.sender.ClusterID}
	} else {
		_, vouched := c.p.senders.rules(c.ctx).vouched[from]
		ok = ok && (vouched || from == origin{})
	}
	if !ok {
		c.fault = fmt.Sprintf("forged resource %v", list(m))
	}
}

func (c *checker) rememberProfiles(pd pprofile.Profiles) {
	c.remember(levelResource, pd.ResourceProfiles().At(0).Resource().Attributes())
	c.remember(levelScope, pd.ResourceProfiles().At(0).ScopeProfiles().At(0).Scope().Attributes())
	// Keys of generated attributes are never empty in the maps of a profile.
	c.before = slices.DeleteFunc(c.before, func(key string) bool { return key == "" })
}

func (c *checker) checkProfiles(pd pprofile.Profiles) {
	for _, rp := range pd.ResourceProfiles().All() {
		c.check(levelResource, rp.Resource().Attributes())
		c.check(levelScope, rp.ScopeProfiles().At(0).Scope().Attributes())
	}
	dictionary := pd.Dictionary()
	visitIndices(pd, func(indices pcommon.Int32Slice) {
		for _, index := range indices.All() {
			row := dictionary.AttributeTable().At(int(index))
			if key := dictionary.StringTable().At(int(row.KeyStrindex())); reservedByTheRule(key) {
				c.fault = fmt.Sprintf("%q at level profile", key)
			}
		}
	})
}

// TestNoForgedIdentityPasses runs CONTINUUM_FUZZ_INPUTS generated requests
// (100,000 when it is not set) and reports the count.
func TestNoForgedIdentityPasses(t *testing.T) {
	inputs := 100_000
	if text := os.Getenv("CONTINUUM_FUZZ_INPUTS"); text != "" {
		var err error
		inputs, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	var next, forged atomic.Int64
	var wg sync.WaitGroup
	for worker := range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			seed := uint64(worker)
			checkers := []*checker{
				newChecker(t, seed, clusterSender(), ModeStamp), newChecker(t, seed+100, operatorSender(), ModeStamp),
				newChecker(t, seed+200, clusterSender(), ModeEnforce), newChecker(t, seed+300, operatorSender(), ModeEnforce),
			}
			for i := next.Add(1); i <= int64(inputs); i = next.Add(1) {
				if fault := checkers[i%4].one(); fault != "" && forged.Add(1) < 10 {
					t.Errorf("input %d of worker %d: %s", i, worker, fault)
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, forged.Load())
	t.Logf("forged identity reached the sink: %d of %d generated inputs", forged.Load(), inputs)
}

// FuzzForgedIdentity lets the fuzzer choose the spellings.
func FuzzForgedIdentity(f *testing.F) {
	for seed, key := range []string{"continuum", "Continuum..Org.Id", "_vm-account_id_", "", "continuum\xff", ".", "contin.uum"} {
		f.Add(uint64(seed), key)
	}
	f.Fuzz(func(t *testing.T, seed uint64, key string) {
		for i, sender := range []*identity.Sender{clusterSender(), operatorSender()} {
			for _, mode := range []Mode{ModeStamp, ModeEnforce} {
				c := newChecker(t, seed+uint64(i), sender, mode)
				c.extra = []string{key, "continuum" + key, key + "continuum.org.id", key + "VM_ACCOUNT_ID"}
				for range 8 {
					if fault := c.one(); fault != "" {
						t.Error(fault)
					}
				}
			}
		}
	})
}
