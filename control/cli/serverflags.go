// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// Bounds of --leaf-lifetime.
const (
	minLeafLifetime = time.Minute
	maxLeafLifetime = 720 * time.Hour
)

// serverConfig is what the flags of the server say, checked.
type serverConfig struct {
	listen, adminListen, metricsListen string
	metricsWanted                      bool // somebody asked for that address
	dataDir, databaseURL               string
	publicURL                          *url.URL // nil when not set
	tlsCert, tlsKey                    string
	passphrase                         []byte
	leafLifetime                       time.Duration
	auditLog                           string
	trustedProxies                     []netip.Prefix
	adminToken                         string
	receiverLocalhost                  bool
	logFormat, logLevel                string
	traces                             bool
	migrate                            bool
	chartRegistry                      string
}

// addStoreFlags adds the flags that say where a server's data is; the commands
// that work on it offline take the same.
func addStoreFlags(flags *pflag.FlagSet) {
	flags.String("data-dir", "ikhnos-data", "directory of the server's data")
	flags.String("database-url", "", "postgres:// address; without it, SQLite in the data directory")
	flags.String("database-url-file", "", "file with the database's address")
	flags.String("passphrase-file", "", "file with the passphrase that seals private keys")
}

func addServerFlags(flags *pflag.FlagSet) {
	addStoreFlags(flags)
	flags.String("config", "", "YAML file with these flags")
	flags.String("listen", "127.0.0.1:8443", "address of the API")
	flags.String("admin-listen", "", "address of the administration; then --listen serves machine paths alone")
	flags.String("metrics-listen", "127.0.0.1:9465", "address of /metrics over plain HTTP; empty: off")
	flags.String("public-url", "", "https:// address at which clients reach the server")
	flags.String("chart-registry", "", "OCI registry of the charts in printed commands, oci://HOST/PATH; without it, this project's own")
	flags.Bool("migrate", false, "bring the database's schema up to date and end")
	flags.String("tls-cert", "", "PEM file of the server's certificate; without it the server makes its own")
	flags.String("tls-key", "", "PEM file of its key")
	flags.Duration("leaf-lifetime", maxLeafLifetime, "life of issued certificates, 60s to 720h")
	flags.String("audit-log", "", "also write the audit trail, as JSON Lines, to this file; - is standard output")
	flags.StringSlice("trusted-proxy", nil, "CIDR of proxies whose X-Forwarded-For counts; may be repeated")
	flags.String("admin-token-file", "", "file with the first admin token, instead of making one")
	flags.Var(&choice{value: "text", of: []string{"text", "json"}}, "log-format", "form of the log: text, json")
	flags.Var(&choice{value: "info", of: []string{"debug", "info", "warn", "error"}}, "log-level", "least level of the log: debug, info, warn, error")
	flags.Bool("receiver-localhost", false, "issue receiver certificates that are also good for localhost (demonstrations)")
	_ = flags.MarkHidden("receiver-localhost") // fails only for a flag that is not there
}

// readServerConfig fills the flags from environment and file and checks them.
func readServerConfig(cmd *cobra.Command) (*serverConfig, error) {
	if err := fillFlags(cmd); err != nil {
		return nil, err
	}
	flags := cmd.Flags()
	cfg := &serverConfig{
		listen: text(cmd, "listen"), adminListen: text(cmd, "admin-listen"),
		metricsListen: text(cmd, "metrics-listen"), metricsWanted: isSet(cmd, "metrics-listen"),
		tlsCert: text(cmd, "tls-cert"), tlsKey: text(cmd, "tls-key"), auditLog: text(cmd, "audit-log"),
		logFormat: text(cmd, "log-format"), logLevel: text(cmd, "log-level"),
		migrate: text(cmd, "migrate") == "true", chartRegistry: strings.TrimRight(text(cmd, "chart-registry"), "/"),
	}
	if cfg.chartRegistry != "" && !strings.HasPrefix(cfg.chartRegistry, "oci://") {
		return nil, usageError("--chart-registry must be oci://HOST[/PATH]")
	}
	cfg.receiverLocalhost, _ = flags.GetBool("receiver-localhost") // the flag exists with this type
	vars := environmentOf(cmd).vars
	cfg.traces = vars["OTEL_EXPORTER_OTLP_ENDPOINT"] != "" || vars["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] != ""
	cfg.leafLifetime, _ = flags.GetDuration("leaf-lifetime")
	if cfg.leafLifetime < minLeafLifetime || cfg.leafLifetime > maxLeafLifetime {
		return nil, usageError("--leaf-lifetime must be from 60s to 720h")
	}
	if (cfg.tlsCert == "") != (cfg.tlsKey == "") {
		return nil, usageError("--tls-cert and --tls-key need each other")
	}
	for name, address := range map[string]string{"listen": cfg.listen, "admin-listen": cfg.adminListen, "metrics-listen": cfg.metricsListen} {
		if _, _, err := net.SplitHostPort(address); err != nil && (address != "" || name == "listen") {
			return nil, usageError("--%s must be HOST:PORT", name)
		}
	}
	if err := cfg.readURLs(cmd); err != nil {
		return nil, err
	}
	return cfg, cfg.readFiles(cmd)
}

func (c *serverConfig) readURLs(cmd *cobra.Command) error {
	if public := text(cmd, "public-url"); public != "" {
		parsed, err := url.Parse(public)
		if err != nil || parsed.Scheme != "https" || parsed.Hostname() == "" {
			return usageError("--public-url must be https://HOST[:PORT]")
		}
		c.publicURL = parsed
	}
	proxies, _ := cmd.Flags().GetStringSlice("trusted-proxy")
	for _, proxy := range proxies {
		prefix, err := netip.ParsePrefix(proxy)
		if err != nil {
			return usageError("--trusted-proxy must be a CIDR such as 10.0.0.0/8")
		}
		c.trustedProxies = append(c.trustedProxies, prefix)
	}
	return nil
}

func (c *serverConfig) readFiles(cmd *cobra.Command) (err error) {
	if c.dataDir, c.databaseURL, c.passphrase, err = readStoreFlags(cmd); err != nil {
		return err
	}
	if path := text(cmd, "admin-token-file"); path != "" {
		content, err := readable("admin-token-file", path)
		if err != nil {
			return err
		}
		c.adminToken = strings.TrimSpace(string(content))
	}
	return nil
}

// readStoreFlags reads what addStoreFlags added; passphrase is nil without one.
func readStoreFlags(cmd *cobra.Command) (dataDir, databaseURL string, passphrase []byte, err error) {
	databaseURL = text(cmd, "database-url")
	if path := text(cmd, "database-url-file"); path != "" {
		content, err := readable("database-url-file", path)
		if err != nil {
			return "", "", nil, err
		}
		databaseURL = strings.TrimSpace(string(content))
	}
	if databaseURL != "" && !strings.HasPrefix(databaseURL, "postgres://") && !strings.HasPrefix(databaseURL, "postgresql://") {
		return "", "", nil, usageError("--database-url must start with postgres://")
	}
	if path := text(cmd, "passphrase-file"); path != "" {
		content, err := readable("passphrase-file", path)
		if err != nil {
			return "", "", nil, err
		}
		if passphrase = bytes.TrimSpace(content); len(passphrase) == 0 {
			return "", "", nil, usageError("the file of --passphrase-file is empty")
		}
	}
	return text(cmd, "data-dir"), databaseURL, passphrase, nil
}

// fillFlags sets the command's own flags that the command line left out: from
// the environment, else from the file of --config.
func fillFlags(cmd *cobra.Command) error {
	vars := environmentOf(cmd).vars
	file := map[string]any{}
	if path := firstOf(text(cmd, "config"), vars["IKHNOS_CONFIG"]); path != "" {
		content, err := readable("config", path)
		if err != nil {
			return err
		}
		if err := yaml.Unmarshal(content, &file); err != nil {
			return usageError("the file of --config is not YAML with flag names as keys")
		}
	}
	var failed error
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		value, inFile := file[f.Name]
		delete(file, f.Name)
		if f.Changed || failed != nil || f.Name == "help" {
			return
		}
		if given, ok := vars["IKHNOS_"+strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))]; ok {
			failed = setFlag(cmd, f.Name, given)
		} else if inFile {
			failed = setFlag(cmd, f.Name, flagText(value))
		}
	})
	if failed != nil {
		return failed
	}
	for name := range file {
		return usageError("the file of --config has an unknown key %q", name)
	}
	return nil
}

func setFlag(cmd *cobra.Command, name, value string) error {
	if err := cmd.Flags().Set(name, value); err != nil {
		return usageError("--%s, from the environment or --config: %v", name, err)
	}
	return nil
}

// flagText is a YAML value as it would stand on a command line.
func flagText(value any) string {
	list, ok := value.([]any)
	if !ok {
		return fmt.Sprint(value)
	}
	parts := make([]string, len(list))
	for i, v := range list {
		parts[i] = fmt.Sprint(v)
	}
	return strings.Join(parts, ",")
}

func (c *serverConfig) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.logLevel)) // one of the words that the flag takes
	options := &slog.HandlerOptions{Level: level}
	if c.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
