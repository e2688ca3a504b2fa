// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ikhnosrenew

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.uber.org/zap"
)

var _ extensioncapabilities.ConfigSnapshotWatcher = (*renewer)(nil)

// NotifyConfigSnapshot warns of every TLS block that reads one of our directories
// once and then never again: what is renewed there would not be used.
func (r *renewer) NotifyConfigSnapshot(_ context.Context, snapshot extensioncapabilities.ConfigSnapshot) error {
	conf := snapshot.Effective()
	if conf == nil {
		return nil
	}
	for _, block := range r.readOnce(conf.ToStringMap()) {
		r.set.Logger.Warn("TLS block never loads a renewed certificate", zap.String("block", block.path),
			zap.String("certificate", block.certificate), zap.String("remedy", block.remedy))
	}
	return nil
}

// Remedies of a block that reads its files once.
const (
	remedyReload    = "set reload_interval in it, for example 5m"
	remedyClientCA  = "set client_ca_file_reload: true in it"
	remedyTelemetry = "the collector's own telemetry cannot reload certificates: send it through a pipeline of this collector"
)

// readOnce is one block that reads a file of a certificate once.
type readOnce struct {
	path        string // in the configuration
	certificate string // its label
	remedy      string
}

// readOnce finds such blocks anywhere in a configuration, in the order of their
// paths.
func (r *renewer) readOnce(conf map[string]any) []readOnce {
	var found []readOnce
	var walk func(path []string, value any)
	walk = func(path []string, value any) {
		switch value := value.(type) {
		case map[string]any:
			if block, ok := r.judge(path, value); ok {
				found = append(found, block)
			}
			for _, key := range slices.Sorted(maps.Keys(value)) {
				walk(append(slices.Clip(path), key), value[key])
			}
		case []any:
			for i, item := range value {
				walk(append(slices.Clip(path), strconv.Itoa(i)), item)
			}
		}
	}
	walk(nil, conf)
	return found
}

// judge looks at one map of the configuration. A block with nothing of ours but
// ca_file passes: no setting makes a collector read that again, which is what
// restart_required is for.
func (r *renewer) judge(path []string, block map[string]any) (readOnce, bool) {
	if len(path) > 0 && readsAtEveryUse(path[len(path)-1]) {
		return readOnce{}, false
	}
	found := readOnce{path: strings.Join(path, "::"), certificate: r.owner(block["cert_file"])}
	if found.certificate == "" {
		found.certificate = r.owner(block["key_file"])
	}
	switch {
	case found.certificate != "" && len(path) > 1 && path[0] == "service" && path[1] == "telemetry":
		found.remedy = remedyTelemetry
		return found, true
	case found.certificate != "" && !positive(block["reload_interval"]):
		found.remedy = remedyReload
		return found, true
	}
	found.certificate, found.remedy = r.owner(block["client_ca_file"]), remedyClientCA
	return found, found.certificate != "" && block["client_ca_file_reload"] != true
}

// readsAtEveryUse names the blocks that have no reload_interval because they need
// none: that of certnameauth, and those of Prometheus' own clients.
func readsAtEveryUse(name string) bool { return name == "proof" || name == "tls_config" }

// owner is the label of the certificate in whose directory a file lies, if any.
func (r *renewer) owner(file any) string {
	path, ok := file.(string)
	if !ok || path == "" {
		return ""
	}
	for _, label := range r.cfg.labels() {
		if inDirectory(path, r.cfg.Certificates[label].Directory) {
			return label
		}
	}
	return ""
}

// inDirectory reports whether a file lies in a directory or below it, by its name
// or through links.
func inDirectory(file, dir string) bool {
	relative, err := filepath.Rel(dir, file)
	if err == nil && filepath.IsLocal(relative) {
		return true
	}
	ours, err := os.Stat(dir)
	if err != nil {
		return false
	}
	theirs, err := os.Stat(filepath.Dir(file))
	return err == nil && os.SameFile(ours, theirs)
}

// positive reports whether a duration is set, as a collector shows it or as a
// person writes it.
func positive(value any) bool {
	if d, err := time.ParseDuration(fmt.Sprint(value)); err == nil {
		return d > 0
	}
	n, err := strconv.ParseInt(fmt.Sprint(value), 10, 64)
	return err == nil && n > 0
}
