# `make` lists the targets. What .ci/run checks is `make check`.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/belfry-mq/belfry/pkg/app.linkedVersion=$(VERSION)
IMAGE ?= belfry:$(VERSION)

# The run time of each fuzz target, and the number of sequences of the model test.
FUZZTIME ?= 30s
MODEL_CHECKS ?= 2000

LINT_VERSION := v2.15.0
VULN_VERSION := v1.9.0
GOTESTSUM_VERSION := v1.13.0
NFPM_VERSION := v2.45.2
SBOM_VERSION := v1.10.0
ACTIONLINT_VERSION := v1.7.12
HELM_VERSION := v3.22.0
KUBECONFORM_VERSION := v0.8.0
LINT := .bin/golangci-lint
GOTESTSUM := .bin/gotestsum
NFPM := .bin/nfpm
SBOM := .bin/cyclonedx-gomod
ACTIONLINT := .bin/actionlint
HELM := .bin/helm
KUBECONFORM := .bin/kubeconform

# Flags of go test, and what follows them.
TEST_FLAGS ?=

# How long a program with the race detector waits before it exits, so that other goroutines can still report a race. The
# default is a second, and the tests start more than a hundred such programs.
export GORACE ?= atexit_sleep_ms=50

.PHONY: help run test deploy-tools manifests deploy-check examples pooler browser container screenshots restore postgres-versions fuzz model chaos chaos-build chaos-faults chaos-network chaos-mix chaos-pooler chaos-schedules chaos-limits chaos-limits-long chaos-long ha check fmt fmt-check alerts vet lint build bench bench-dispatch bench-edge release release-tools vuln image clean FORCE

help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{ printf "  %-14s %s\n", $$1, $$2 }'

run: ## Run Belfry with a private Postgres; Ctrl-C stops both.
	go run ./cmd/belfry dev

# Many tests wait for timeouts, so three packages run at a time even with two processors. The package that takes longest
# comes first. The timeout is for busy cores (scripts/steady). A test that fails is run once more, see scripts/tests.
test: $(GOTESTSUM) ## Run all tests with the race detector; needs the Postgres programs.
	go run ./scripts/tests ./test/integration ./test/ha ./... -- -race -shuffle=on -timeout 40m -p 3 $(TEST_FLAGS)

pooler: ## Run behind PgBouncer, in session and in transaction mode; needs pgbouncer.
	go test -race -tags installed -count=1 -run '^TestPooler' ./test/integration
	$(MAKE) chaos-pooler

examples: ## Build the examples and run them on a server; needs node, psql.
	go test -race -tags installed -count=1 -run '^TestExample' ./test/integration

browser: ## Test the dashboard in a browser; needs chromium, node, npm.
	go test -tags installed -count=1 ./test/browser

container: ## Build the image and run docker-compose.yml; needs root, podman, podman-compose, debootstrap, prometheus.
	go test -tags installed -count=1 -v ./test/container

# The folder of the screenshots.
SHOTS ?= /tmp/belfry-screenshots
screenshots: ## Make a screenshot of each page of the dashboard, in SHOTS.
	BELFRY_SCREENSHOTS='$(SHOTS)' go test -tags installed -count=1 ./test/browser

restore: ## Dump a database in use, restore it in a new cluster; needs pg_dump, psql.
	go test -race -tags installed -count=1 -run '^TestRestore' ./test/integration

postgres-versions: $(GOTESTSUM) ## Test on Postgres 14 and 18; needs npm.
	scripts/test-on-postgres

fuzz: ## Run each fuzz target for FUZZTIME (30s); a failing input stays in testdata.
	@grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort -u | \
	sed -E 's|^(.*)/[^/]*:func (.*)$$|\1 \2|' | while read -r package target; do \
		echo "== $$package $$target"; \
		go test "$$package" -run '^$$' -fuzz "^$$target\$$" -fuzztime '$(FUZZTIME)' </dev/null; \
	done

model: ## Compare the store with its model in MODEL_CHECKS (2000) sequences.
	go test ./test/model -count=1 -timeout 2h -rapid.checks='$(MODEL_CHECKS)'

check: fmt-check alerts vet lint test ## The checks of a change, cheapest first.

fmt: $(LINT) ## Format the code and group its imports.
	$(LINT) fmt

fmt-check: ## Fail when a file is not formatted.
	@unformatted="$$(gofmt -l .)"; \
	if [[ -n "$$unformatted" ]]; then \
		printf 'not formatted, run make fmt:\n%s\n' "$$unformatted" >&2; exit 1; \
	fi

alerts: ## Check the alert rules and run their tests; needs promtool.
	@command -v promtool >/dev/null || { \
		echo 'promtool is missing: install it (Debian: apt-get install prometheus)' >&2; exit 1; \
	}
	promtool check rules config/prometheus/alerts.yml
	promtool test rules config/prometheus/alerts_test.yml

deploy-tools: $(HELM) $(KUBECONFORM)

manifests: $(HELM) ## Copy the alerts into the Helm chart and render deploy/kubernetes.
	cp config/prometheus/alerts.yml deploy/helm/belfry/files/alerts.yml
	scripts/manifests $(HELM) deploy/kubernetes/belfry.yaml

deploy-check: deploy-tools ## Check the Helm chart and the manifests.
	go test -tags installed -count=1 ./test/deploy

vet: ## Run go vet.
	go vet ./...

# With -race the linter reads what make test has compiled.
lint: $(LINT) ## Run the linters of .golangci.yml.
	GOFLAGS=-race $(LINT) run ./...

build: ## Build a static binary, bin/belfry.
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/belfry ./cmd/belfry

bench: ## Run the performance measurements; 15 minutes.
	scripts/performance

bench-dispatch: ## Measure wake-ups, waiting, timers and schedules; 15 minutes, Linux.
	go run ./test/bench/dispatch

bench-edge: ## Measure slow clients, large messages and a million partitions; 10 minutes, Linux.
	go run ./test/bench/edge

# The first run breaks processes, sessions, disks and clocks, the second the network, the
# third several things at a time, the fourth what is behind PgBouncer, the fifth schedules. Two
# run at a time.
# A run lasts longer than its duration if a fault was not injected yet. A fault
# with a question mark is skipped with a message if the machine does not allow it: filling
# a disk needs the right to mount one. The list and the seed determine the order of the
# faults; the slowest come last.
chaos: ## Break the environment of Belfry and check its promises; needs pgbouncer, 3 minutes.
	$(MAKE) --jobs=2 --output-sync=target chaos-faults chaos-network chaos-mix chaos-pooler chaos-schedules chaos-limits

chaos-build:
	go run ./scripts/steppable bin/chaos

chaos-faults: chaos-build
	bin/chaos --seed 1 --duration 45s --faults \
		'step-clock,hold-snapshot,kill-server,end-listeners,stall-commits,fill-disk?,exhaust-connections,fail-over,stop-synchronous-standby,stop-server,stop-postgres,kill-postgres,end-sessions'

chaos-network: chaos-build
	bin/chaos --seed 2 --duration 58s --faults \
		freeze-clients,cut-clients,silence-clients,slow-clients,freeze-database,cut-database,silence-database,slow-database,freeze-listener,cut-listener,silence-listener,slow-listener,lose-notifications,lose-commits,trickle-clients,stop-reading-clients

chaos-mix: chaos-build
	bin/chaos --seed 3 --duration 25s --instances 3 --faults mix

chaos-pooler: chaos-build
	bin/chaos --seed 4 --duration 20s --pooler transaction --faults end-sessions,kill-postgres,kill-server

chaos-schedules: chaos-build
	bin/chaos --seed 5 --instances 3 --schedules 200 --ticks 4000

chaos-limits: chaos-build
	bin/chaos --seed 6 --instances 3 --limits --duration 15s --faults kill-server,cut-database,freeze-clients,lose-commits,kill-postgres

chaos-limits-long: chaos-build ## Run chaos with limited groups for ten seeds, all faults; 15 minutes.
	for seed in 1 2 3 4 5 6 7 8 9 10; do bin/chaos --seed $$seed --instances 3 --limits --duration 60s || exit 1; done

SEED ?= 0
MINUTES ?= 60
chaos-long: ## Run chaos for MINUTES (60) with SEED, and make ha.
	go run ./test/chaos --seed $(SEED) --duration $(MINUTES)m
	$(MAKE) ha

KILLS ?= 10
ha: ## Kill, freeze and switch over the primary of a Patroni cluster; needs patroni, etcd, 20 minutes.
	go test -tags installed -count=1 -v -timeout 1h ./test/ha -args -delay 3s -kills $(KILLS) -switchovers 2 -freezes 2

# The platforms of a release; scripts/notices has the same list.
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

# The time of all files of a release.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)

release: $(NFPM) $(SBOM) ## Build archives, packages, lists of components and checksums in dist.
	go run ./scripts/release -version '$(VERSION)' -epoch '$(SOURCE_DATE_EPOCH)' -platforms '$(PLATFORMS)' -out dist

release-tools: $(NFPM) $(SBOM) $(ACTIONLINT) ## Install the tools of a release into .bin.

vuln: ## Look for known vulnerabilities; needs the internet (vuln.go.dev).
	go run golang.org/x/vuln/cmd/govulncheck@$(VULN_VERSION) ./...

image: ## Build the container image.
	docker build --build-arg VERSION='$(VERSION)' --tag '$(IMAGE)' .

clean: ## Remove the built files and the tools.
	rm -rf bin .bin dist

# FORCE runs the recipe every time. It installs the linter if the version differs from
# LINT_VERSION.
$(LINT): FORCE
	@if ! [[ -x $(LINT) ]] || [[ "v$$($(LINT) version --short)" != '$(LINT_VERSION)' ]]; then \
		echo 'installing golangci-lint $(LINT_VERSION) into .bin'; \
		GOBIN='$(CURDIR)/.bin' go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION); \
	fi

# As the linter.
$(GOTESTSUM): FORCE
	@if ! [[ "$$($(GOTESTSUM) --version 2>/dev/null)" == *'$(GOTESTSUM_VERSION)' ]]; then \
		echo 'installing gotestsum $(GOTESTSUM_VERSION) into .bin'; \
		GOBIN='$(CURDIR)/.bin' go install gotest.tools/gotestsum@$(GOTESTSUM_VERSION); \
	fi

# As the linter. Go records the version of a program that it installs.
$(NFPM): MODULE = github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM_VERSION)
$(SBOM): MODULE = github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$(SBOM_VERSION)
$(ACTIONLINT): MODULE = github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)
$(HELM): MODULE = helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)
$(KUBECONFORM): MODULE = github.com/yannh/kubeconform/cmd/kubeconform@$(KUBECONFORM_VERSION)
$(NFPM) $(SBOM) $(ACTIONLINT) $(HELM) $(KUBECONFORM): FORCE
	@if ! go version -m $@ 2>/dev/null | grep -qE "^[[:space:]]mod.*[[:space:]]$(lastword $(subst @, ,$(MODULE)))[[:space:]]"; then \
		echo 'installing $(MODULE) into .bin'; \
		GOBIN='$(CURDIR)/.bin' go install $(MODULE); \
	fi

FORCE:
