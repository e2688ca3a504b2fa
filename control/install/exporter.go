// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"

	"go.yaml.in/yaml/v3"
)

// stockConfig is a configuration for any collector, in the order in which people
// read one.
type stockConfig struct {
	Receivers  map[string]any      `yaml:"receivers,omitempty"`
	Processors map[string]any      `yaml:"processors,omitempty"`
	Exporters  map[string]exporter `yaml:"exporters"`
	Service    map[string]any      `yaml:"service,omitempty"`
}

type exporter struct {
	Endpoint    *yaml.Node `yaml:"endpoint"`
	Compression string     `yaml:"compression"`
	Timeout     string     `yaml:"timeout"`
	TLS         struct {
		Cert       string     `yaml:"cert_file"`
		Key        string     `yaml:"key_file"`
		CA         string     `yaml:"ca_file"`
		ServerName *yaml.Node `yaml:"server_name_override"`
		Reload     string     `yaml:"reload_interval"`
		MinVersion string     `yaml:"min_version"`
	} `yaml:"tls"`
	Retry struct {
		MaxElapsed string `yaml:"max_elapsed_time"`
	} `yaml:"retry_on_failure"`
	Queue struct {
		Sizer     string `yaml:"sizer"`
		Size      int    `yaml:"queue_size"`
		Consumers int    `yaml:"num_consumers"`
		Block     bool   `yaml:"block_on_overflow"`
		Batch     struct {
			Sizer string `yaml:"sizer"`
			Min   int    `yaml:"min_size"`
			Max   int    `yaml:"max_size"`
			Flush string `yaml:"flush_timeout"`
		} `yaml:"batch"`
	} `yaml:"sending_queue"`
}

// exporterName is what pipelines call it. Older collectors call the type otlp.
func (s Sender) exporterName() string { return "otlp_grpc/" + s.Link.OperatorID }

// exporter is the exporter of a sender whose certificate is in dir, with the queue
// and the retries that keep its data through renewals and outages (contract,
// section 10).
func (s Sender) exporter(dir string) stockConfig {
	e := exporter{Endpoint: textNode(s.Link.Address), Compression: "zstd", Timeout: "30s"}
	e.TLS.Cert, e.TLS.Key, e.TLS.CA = dir+"/tls.crt", dir+"/tls.key", dir+"/ca.crt"
	e.TLS.ServerName, e.TLS.Reload, e.TLS.MinVersion = textNode(s.Link.StableName()), "5m", "1.3"
	e.Retry.MaxElapsed = "30m"
	e.Queue.Sizer, e.Queue.Size, e.Queue.Consumers, e.Queue.Block = "items", 524288, 10, true
	e.Queue.Batch.Sizer, e.Queue.Batch.Min, e.Queue.Batch.Max, e.Queue.Batch.Flush = "items", 2048, 4096, "5s"
	return stockConfig{Exporters: map[string]exporter{s.exporterName(): e}}
}

// exporterBlock is the exporter to be put into a configuration.
func (s Sender) exporterBlock(where, title, dir string) Block {
	return Block{where, title + "; older collectors call its type otlp", "exporter.yaml", s.exporter(dir).text()}
}

// stockConfiguration takes OTLP from the machine's applications and sends it on.
func (s Sender) stockConfiguration(dir string) stockConfig {
	c := s.exporter(dir)
	c.Receivers = map[string]any{"otlp": map[string]any{"protocols": map[string]any{
		"grpc": map[string]any{"endpoint": "127.0.0.1:4317"}, "http": map[string]any{"endpoint": "127.0.0.1:4318"},
	}}}
	c.Processors = map[string]any{"memory_limiter": map[string]any{"check_interval": "1s", "limit_percentage": 80, "spike_limit_percentage": 20}}
	pipelines := map[string]any{}
	for _, signal := range []string{"traces", "metrics", "logs"} {
		pipelines[signal] = map[string]any{"receivers": []string{"otlp"}, "processors": []string{"memory_limiter"}, "exporters": []string{s.exporterName()}}
	}
	c.Service = map[string]any{"pipelines": pipelines}
	return c
}

func (c stockConfig) text() string { return encode(c) }

// encode writes YAML in the order of fields and nodes.
func encode(value any) string {
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	_ = encoder.Encode(value) // plain values and nodes encode, into memory
	return text.String()
}
