// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certfile

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mountTable lists the mounts that this process sees, on Linux.
const mountTable = "/proc/self/mountinfo"

// Frozen lists the mounts by which a certificate directory, or a file in it,
// never shows a new certificate: single files that are mounted into it, and the
// directory when what is mounted is one generation of a Secret and not the
// Secret. Both is what `subPath` does. It is nil where there is no such table.
func Frozen(dir string) []string {
	table, err := os.ReadFile(mountTable)
	if err != nil {
		return nil
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil
	}
	return frozen(string(table), dir)
}

func frozen(table, dir string) []string {
	var points []string
	below, fixed := "", false // the innermost mount that dir is in
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		root, point := unescape(fields[3]), unescape(fields[4])
		switch {
		case within(point, dir) && point != dir:
			points = append(points, point)
		case within(dir, point) && len(point) >= len(below): // a later mount hides an earlier one
			below, fixed = point, ofGeneration(root)
		}
	}
	if fixed {
		points = append(points, below)
	}
	slices.Sort(points)
	return slices.Compact(points)
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// ofGeneration reports whether what is mounted lies in a folder that is exchanged
// as a whole, as the kubelet names them (and we): ..2026_11_30_10_00_00.1, ..data.
func ofGeneration(root string) bool {
	return slices.ContainsFunc(strings.Split(root, "/"), func(name string) bool {
		return len(name) > 2 && strings.HasPrefix(name, "..")
	})
}

// unescape replaces the octal escapes of the mount table.
func unescape(field string) string {
	var b strings.Builder
	for i := 0; i < len(field); i++ {
		if field[i] == '\\' && i+3 < len(field) {
			if code, err := strconv.ParseUint(field[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		b.WriteByte(field[i])
	}
	return b.String()
}
