# Continuum. `make demo` shows the main job, `make test` runs every test.
# Paths are relative, so that the checkout may lie in a folder with a space.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

VERSION := 0.1.0
LDFLAGS := -s -w -X github.com/ikhnos/continuum/internal/version.Version=$(VERSION)
GOBUILD := env CGO_ENABLED=0 go build -v -trimpath -ldflags '$(LDFLAGS)'

# What `go test` runs. The generated main package has no tests, and compiling its
# three thousand packages once more for the race detector would buy nothing.
PACKAGES = $$(go list ./... | grep -v /cmd/continuum-collector)

.PHONY: build demo test soak unit e2e packages lint generate generate-check bench fuzz clean

build: ## both programs, in bin/
	@mkdir -p bin
	@scripts/go-progress ikhnos $(GOBUILD) -o bin/ikhnos ./control/cmd/ikhnos
	@scripts/go-progress continuum-collector $(GOBUILD) -o bin/continuum-collector ./cmd/continuum-collector

demo: build ## the main job on loopback; ONCE=1 runs it once and checks it
	@bin/ikhnos demo $(if $(ONCE),--once)

test: build ## every test, with the race detector
	@scripts/test $(PACKAGES)

soak: build ## the tests with a long count, with that count; about an hour
	@scripts/soak

lint: ## golangci-lint, go vet, govulncheck, gofmt
	@scripts/lint

packages: build ## deb, rpm and archives of both programs, in dist/
	@scripts/packages $(VERSION)

generate: ## everything that is generated and committed
	@scripts/generate

generate-check: generate ## fails when a generated file was out of date
	@git diff --exit-code --stat

bench: ## speed, beside the peers named in the docs
	@BENCH_GO=1 scripts/bench

FUZZTIME ?= 30s
fuzz: ## every fuzz target for FUZZTIME each
	@scripts/fuzz $(FUZZTIME)

clean:
	rm -rf bin dist
