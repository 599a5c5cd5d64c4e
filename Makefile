# Everything is set up inside this checkout: .tools/ holds uv, its cache and the lab's binaries; .venv/ holds the project.
# Needs python3 (3.11 or newer), git and make; `make lab` needs Go as well.

export UV_CACHE_DIR := $(CURDIR)/.tools/cache
export UV_PYTHON_DOWNLOADS := never
PYTHON := .venv/bin/python

# The Python that .venv is made of: that of the distribution, where it is new enough and whole, else the first of PATH.
# Distributions build theirs with profile-guided optimization: commands take a sixth less than on one that pyenv compiled.
BASE_PYTHON ?= $(shell for each in /usr/bin/python3 python3; do "$$each" -c \
    'import sys; assert sys.version_info >= (3, 11); import ctypes, ensurepip, lzma, sqlite3, ssl' 2>/dev/null && \
    echo "$$each" && break; done)

# Where Python may not keep what it has compiled, every worker and every process of the tests compiles all of Textual and
# Google's libraries again: a start takes three times the processor time.
unexport PYTHONDONTWRITEBYTECODE

# Where `make corpus` looks for logs of other people.
CORPUS ?= ../shared/corpus

# Where `make cases` looks for small inputs of other people.
CASES ?= ../shared/cases

# The Pythons of this machine that `make versions` runs the tests on.
PYTHONS ?= $(wildcard /usr/bin/python3.1[1-4] $(HOME)/.pyenv/versions/3.1[1-4].*/bin/python)

# What `make test` runs: no cluster but the practice cluster, no programs of other packages, nothing over a second.
TESTS := -m pytest -q
FAST := not slow and not lab and not programs
SLOW := slow and not lab and not programs
# A worker takes the next test when it has none, so that none is left alone with a minute; those of a module stay in order.
BESIDE := -n auto --dist worksteal

ON_LAB := tests/contract tests/lab tests/chart/test_accepted.py tests/chart/test_beside.py tests/chart/test_dry_run.py

CHECKS := format lint types contracts

.PHONY: demo check $(CHECKS) test fast slow alone nightly advisories versions docs pictures corpus cases rulers size fuzz lab lab-test \
    rehearsal rehearsal-if-changed bench wheel release-dry-run site clean

demo: .venv/.ready  ## the console on the practice cluster; without a terminal, the tour
	@if [ -t 0 ] && [ -t 1 ]; then exec .venv/bin/a4 --demo; else exec .venv/bin/a4 --demo tour; fi

check: .venv/.ready  ## format, lint, types and contracts, beside each other
	@$(MAKE) --no-print-directory -k -j $(words $(CHECKS)) $(CHECKS)

format: .venv/.ready
	@.venv/bin/ruff format --check --quiet . || { echo "format: .venv/bin/ruff format . mends it"; exit 1; }

lint: .venv/.ready
	@.venv/bin/ruff check --quiet .

types: .venv/.ready
	@.venv/bin/mypy

contracts: .venv/.ready
	@.venv/bin/lint-imports --no-logo >.tools/contracts.txt 2>&1 || { cat .tools/contracts.txt; exit 1; }

test: .venv/.compiled  ## check, and beside it every test that takes at most a second and needs nothing else
	@$(MAKE) --no-print-directory -k -j $(words $(CHECKS) fast) $(CHECKS) fast

fast: .venv/.compiled
	@$(PYTHON) $(TESTS) -m "$(FAST)" $(BESIDE)

slow: .venv/.compiled  ## the tests that take longer, each of which says why
	$(PYTHON) $(TESTS) -m "$(SLOW)" $(BESIDE)

alone: .venv/.compiled  ## the fast tests one after another: the 30 slowest, and which take over a second
	$(PYTHON) $(TESTS) -m "$(FAST)" -n 0 --durations 30

nightly: .venv/.compiled  ## all of it: every Python, all rehearsals, new random input, benchmarks; and a table
	$(PYTHON) -m tests.stages nightly

advisories: .venv/.ready  ## known vulnerabilities of the locked packages, where the index tells them (exit code 3: not known)
	$(PYTHON) -m tests.advisories

size: .venv/.ready  ## lines of each package, beside their bounds in tests/architecture/size.toml
	@$(PYTHON) -m tests.architecture

versions: .venv/.ready  ## the same tests on every other Python of this machine (PYTHONS="python3.13 …")
	@minor() { "$$1" -c 'import sys; print(*sys.version_info[:2], sep=".")'; }; \
	done=$$(minor $(PYTHON)); for python in $(PYTHONS); do \
	    version=$$(minor $$python); \
	    case " $$done " in *" $$version "*) continue;; esac; done="$$done $$version"; \
	    echo "Python $$version: $$python"; \
	    place=".tools/python/$$version"; \
	    UV_PROJECT_ENVIRONMENT="$$place" .tools/bin/uv sync --quiet --frozen --python "$$python" || exit 1; \
	    "$$place/bin/python" $(TESTS) -m "not lab and not programs" $(BESIDE) || exit 1; \
	done

docs: .venv/.ready  ## write the pages of the guide that are made from the program: its keys and its commands
	$(PYTHON) -m tests.docs

pictures: .venv/.ready  ## draw the pictures of the guide; WHICH=all every page in every size and both themes, in docs/pictures/all
	$(PYTHON) -m tests.pictures $(WHICH)

corpus: .venv/.ready  ## an extra: logs of other people, which are not in this repository, and how well they are read
	$(PYTHON) -m tests.corpus $(CORPUS)

cases: .venv/.ready  ## an extra: small inputs of other people, which are not in this repository, and how many are read right
	$(PYTHON) -m tests.cases $(CASES)

lab: .venv/.ready  ## build and start the real control plane; Ctrl-C stops it
	$(PYTHON) -m tests.lab build
	$(PYTHON) -m tests.lab up

# Two control planes beside each other, each for the files of one worker.
lab-test: .venv/.ready  ## on the real control plane the contract tests that `make test` runs on the practice cluster
	$(PYTHON) -m tests.programs
	$(PYTHON) -m tests.lab build
	$(PYTHON) -m pytest -q -m "lab or programs" -n 2 --dist loadfile $(ON_LAB)
	$(PYTHON) -m pytest -q -m programs --ignore tests/contract --ignore tests/lab

rehearsal: .venv/.ready  ## every recipe's pods for real on nodes made of namespaces; needs root (REHEARSE=COMMIT: of another commit)
	$(PYTHON) -m tests.rehearsal $(if $(REHEARSE),--of $(REHEARSE))

rehearsal-if-changed: .venv/.ready  ## of these the ones that were not rehearsed as chart and launchers are now
	$(PYTHON) -m tests.rehearsal --changed

rulers: .venv/.ready  ## an extra: other people's tests, from their Go modules (needs Go), and docs/scoreboard.md
	$(PYTHON) -m tests.rulers

SECONDS_EACH ?= 300
fuzz: .venv/.ready  ## random input for everything that reads bytes from outside, SECONDS_EACH for each reader (SEED=N: the same again)
	$(PYTHON) -m tests.fuzz $(SECONDS_EACH) $(if $(SEED),--seed $(SEED))

bench: .venv/.ready  ## benchmarks beside their peers, ratios of one run (PARTS="parsers panels": only those)
	$(PYTHON) -m tests.lab build
	$(PYTHON) -m tests.bench $(PARTS)

wheel: .tools/bin/uv
	.tools/bin/uv build --wheel

site: .tools/docs/.ready  ## the guide as a site, in .tools/site; a link that leads nowhere fails it
	@rm -rf .tools/pages && mkdir .tools/pages
	@tar -cf - *.md docs parts/*/*.md parts/kueue_rules/examples LICENSE $$(grep -oh '(\.\./[a-z_/]*\.py)' docs/*.md | tr -d '()' | sed 's,^../,,') \
	    | tar -xf - -C .tools/pages
	NO_MKDOCS_2_WARNING=1 .tools/docs/bin/mkdocs build --quiet --strict

.tools/docs/.ready: pyproject.toml uv.lock .tools/bin/uv
	UV_PROJECT_ENVIRONMENT=.tools/docs .tools/bin/uv sync --quiet --frozen --no-default-groups --only-group docs --python python3
	@touch $@

# In a clone, where the tag may be set: what is made there depends on the commit alone.
TAG ?= $(shell sed -n 's/^## \[\([0-9.]*\)\] - 20.*/v\1/p' CHANGELOG.md | head -1)
release-dry-run: .tools/bin/uv  ## all that a release publishes, made twice from this commit and compared, in .tools/release
	rm -rf .tools/release
	git clone --quiet --no-tags . .tools/release/tree
	git -C .tools/release/tree tag $(TAG)
	UV=$(CURDIR)/.tools/bin/uv .tools/release/tree/.ci/release $(TAG) $(CURDIR)/.tools/release/once
	UV=$(CURDIR)/.tools/bin/uv .tools/release/tree/.ci/release $(TAG) $(CURDIR)/.tools/release/again >/dev/null
	cmp .tools/release/once/SHA256SUMS .tools/release/again/SHA256SUMS
	@echo "The same bytes twice: $$(pwd)/.tools/release/once"

clean:
	rm -rf .venv .tools dist tour

.venv/.ready: pyproject.toml uv.lock .tools/bin/uv
	.tools/bin/uv sync --frozen --python "$(or $(BASE_PYTHON),python3)"
	@touch $@

# Once for a new .venv: what each of four workers would compile by itself, and beside it the first check of all types, whose
# cache the test of the types goes on with. Whatever is wrong, the tests tell.
.venv/.compiled: .venv/.ready
	@.venv/bin/mypy >/dev/null 2>&1 & $(PYTHON) -m pytest -q --collect-only >/dev/null 2>&1; wait
	@touch $@

.tools/bin/uv: .ci/uv.txt
	python3 -m venv .tools
	.tools/bin/pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes -r .ci/uv.txt
	@touch $@
