# Two commands do everything: `make demo` and `make test`. Both set themselves up.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DEMO   := $(VENV)/.demo-ready
SHELL  := /bin/bash
# Where an environment forbids bytecode, every process of the tests would compile all sources and rewrite all asserts again.
unexport PYTHONDONTWRITEBYTECODE
CORE   := tests/model tests/policy tests/test_phases.py tests/test_phases_rederive.py tests/test_capacity.py tests/test_capacity_devices.py tests/scheduling tests/eviction tests/engine tests/operations

.DEFAULT_GOAL := help
.PHONY: help setup layers layers-here test demo format lint types contracts unit coverage house bench bench-cli bench-decisions peers dist mutants chaos e2e e2e-full e2e-parts e2e-contracts lock messages picture golden corpus corpus-inputs corpus-add schema diagrams clean digests runbook bill

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) infra/$(VENV) ## create the environment from pinned versions

# $(call install,FILE): the pinned packages of a requirements file, then our own command, with a line of progress.
define install
$(PYTHON) -c 'import sys; sys.exit("node-fleet needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
set -o pipefail; $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --require-hashes --no-deps -r $(1) 2>&1 \
  | awk -v total=$$(grep -c '==' $(1)) -f tools/pip-progress.awk
$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation -e .
touch $@
endef

$(READY): requirements.txt pyproject.toml
	@echo "Setting up $(VENV) with everything that develops and tests need (requirements.txt, 800 MB; once) …"
	@$(call install,requirements.txt)

$(DEMO): requirements-demo.txt pyproject.toml
	@echo "Setting up $(VENV) with what the demo needs (requirements-demo.txt, 65 MB; once) …"
	@$(call install,requirements-demo.txt)

# Pulumi runs the program in infra/ with the environment that Pulumi.yaml names, beside that file. But it starts the
# dynamic providers in infra/ and looks for the same name there: without this `pulumi preview` fails.
infra/$(VENV):
	@ln -sfn ../$(VENV) $@

layers: setup ## build what ships to Lambda (needs network the first time)
	@$(BIN)/python -m layers.build

layers-here: setup ## the same for this machine: the tests run it
	@$(BIN)/python -m layers.build --here

test: setup layers-here ## everything that must hold: format, lint, types, contracts, tests
	@echo "── format";    $(BIN)/ruff format --check -q .
	@echo "── lint";      $(BIN)/ruff check -q .
	@echo "── contracts"; PYTHONPATH=infra:. $(BIN)/lint-imports --no-cache > $(VENV)/contracts.log || { cat $(VENV)/contracts.log; exit 1; }
	@echo "── core, and types beside it"; $(BIN)/mypy > $(VENV)/types.log 2>&1 & types=$$!; \
	  $(BIN)/pytest -n auto $(CORE) --cov --cov-report= && $(BIN)/python tests/support/coverage_gate.py; core=$$?; \
	  wait $$types; types=$$?; cat $(VENV)/types.log; exit $$((core | types))
	@echo "── the rest";  $(BIN)/pytest -n auto $(CORE:%=--ignore=%)

demo: $(if $(wildcard $(READY)),$(READY),$(DEMO)) ## see the autoscaler at work, offline (installs only what that needs)
	@$(BIN)/nodefleet demo

chaos: setup ## ten thousand simulated evenings in which everything fails, and property tests at length (an hour of CPU)
	@$(BIN)/nodefleet chaos --seeds 10000 --jobs 2
	@HYPOTHESIS_PROFILE=thorough $(BIN)/pytest -n auto $$(grep -rl '^from hypothesis import' tests --include='test_*.py')

e2e: setup layers-here ## on real parts: a Kubernetes control plane, Prometheus, DynamoDB Local (needs Go, a JDK and Maven)
	@cd tests && ../$(BIN)/python -m e2e.parts.get; \
	  case $$? in 0) $(MAKE) --no-print-directory -C .. e2e-parts e2e-contracts ;; 77) ;; *) exit 1 ;; esac

e2e-full: ## that at length: 100 workloads for packing, a cluster of 1,000 nodes
	@NODEFLEET_E2E_FULL=1 $(MAKE) --no-print-directory e2e

e2e-parts:
	@NODEFLEET_E2E=1 $(BIN)/pytest tests/e2e $(AGAIN)

e2e-contracts:
	@cd tests && tools=$$(dirname "$$(../$(BIN)/python -c 'from e2e.parts.recipes import program; print(program("prometheus"))')") && \
	  PATH="$$tools:$$PATH" ../$(BIN)/pytest -c ../pyproject.toml --rootdir .. infra/test_scrape.py infra/test_prometheus_login.py infra/test_reading_rules.py infra/test_server_rules.py infra/test_grafana.py
	@cd tests && ../$(BIN)/python -m e2e.parts.up scheduler dynamodb -- \
	  ../$(BIN)/pytest -c ../pyproject.toml --rootdir .. adapters/kubernetes/test_cluster_contract.py adapters/kubernetes/test_cluster_on_real_server.py \
	  adapters/dynamodb/test_store_contract.py adapters/dynamodb/test_stream_events.py

format: setup ## format, and fix what can be fixed
	@$(BIN)/ruff format -q . && $(BIN)/ruff check -q --fix .

coverage: setup ## branch coverage of the pure packages, with the missing lines
	@$(BIN)/pytest --cov --cov-report=term-missing

house: setup ## how easy the code is to find one's way in: files, seams, names (SHOW=1 lists them)
	@$(BIN)/python -m nodefleet_tools.house $(if $(SHOW),--show)

bench: setup ## the figures of benchmarks/
	@$(BIN)/python benchmarks/decide.py
	@$(BIN)/python benchmarks/packing.py
	@$(BIN)/python benchmarks/backtest.py
	@cd benchmarks && ../$(BIN)/python ratios.py && ../$(BIN)/python imports.py && ../$(BIN)/python cycle.py && ../$(BIN)/python lambda_sizes.py

peers: setup layers-here ## node-fleet, Karpenter and cluster-autoscaler side by side on one control plane (needs what e2e needs; hours)
	@$(BIN)/python benchmarks/peers/side_by_side.py $(ARGS)

bench-cli: setup ## how much CPU time the command line takes to start, against its budget
	@$(BIN)/python benchmarks/cli_start.py

bench-decisions: setup ## how good decisions are on the recorded load of TRACES=DIR (a directory of CSV files; minutes)
	@nice -n 10 $(BIN)/python benchmarks/decisions.py $(TRACES)

own-cost: setup ## measure what the autoscaler asks of AWS in a simulated day, and write the bill (a minute or two)
	@$(BIN)/python benchmarks/own_requests.py
	@$(MAKE) bill

digests: setup ## ask the registries whether the pinned images are still those of their tags (needs the network)
	@cd infra && ../$(BIN)/python -m nodefleet_infra.digests

runbook: setup ## write docs/runbook.md from the catalogues of alarms and messages
	@cd infra && ../$(BIN)/python -m nodefleet_infra.runbook

bill: setup ## write the bill of docs/deploy.md from the bundled prices
	@cd infra && ../$(BIN)/python -m nodefleet_infra.bill

mutants: setup ## do the tests notice? mutation tests of engine, operations, reconcile and adapters (long; SAMPLE=200 SEED=1)
	@PYTHONPATH=tests $(BIN)/python tests/support/mutants.py $(ONLY) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED)) $(if $(SECONDS),--seconds $(SECONDS))

messages: setup ## play the situations of every message, and write the examples of docs/messages.md
	@PYTHONPATH=infra:tests $(BIN)/python tests/support/message_preview.py

picture: setup ## take the README's picture of the page again (needs a browser; a minute)
	@PYTHONPATH=lambda:tools:infra:tests $(BIN)/python tests/support/page_picture.py

golden: setup ## write what people read in simulated runs to tests/golden/ (a minute)
	@PYTHONPATH=lambda:tools:infra:tests $(BIN)/python tests/support/golden.py
	@rm -rf tests/golden/wording && NODEFLEET_GOLDEN=1 $(BIN)/pytest $$(grep -rl 'assert_wording(' tests --include='test_*.py' --exclude=test_wording.py)

corpus: setup ## decide the stored inputs of tests/corpus/ again, and write their outcomes
	@PYTHONPATH=lambda:tools:infra:tests $(BIN)/python tests/support/corpus.py

corpus-inputs: setup ## play scenarios and chaos seeds, and choose the inputs of tests/corpus/ again (two minutes)
	@PYTHONPATH=lambda:tools:infra:tests $(BIN)/python tests/support/corpus.py --inputs

corpus-add: setup ## put the inputs of SCENARIO=name behind those of tests/corpus/ (half a minute)
	@PYTHONPATH=lambda:tools:infra:tests $(BIN)/python tests/support/corpus.py --add $(SCENARIO)

schema: setup ## write the JSON Schema of the policy for editors
	@$(BIN)/nodefleet policy schema > docs/policy.schema.json

LOCK = $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes
lock: setup ## resolve requirements.in and pyproject.toml into pinned versions (needs network)
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet uv
	@$(LOCK) -o requirements.txt requirements.in
	@$(LOCK) -c requirements.txt -o layers/requirements.txt layers/requirements.in
	@$(LOCK) -c requirements.txt -o requirements-demo.txt pyproject.toml requirements-build.in
	@$(LOCK) -c requirements.txt --extra aws -o requirements-run.txt pyproject.toml requirements-build.in

dist: setup ## the release in dist/: wheel, source archive, SBOM and checksums; the same commit gives the same bytes
	@$(BIN)/python -m nodefleet_tools.release

diagrams: ## render diagrams/*.dot (needs graphviz)
	@command -v dot >/dev/null || { echo "graphviz is missing: apt-get install graphviz"; exit 1; }
	@for source in diagrams/*.dot; do dot -Tsvg "$$source" -o "$${source%.dot}.svg"; done

clean: ## remove the environment and everything generated
	@rm -rf $(VENV) infra/$(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis mutants build dist *.egg-info .coverage
