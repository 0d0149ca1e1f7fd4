# make demo   records a real training run of digits and shows its entry (FRAMEWORK=paddle for PaddlePaddle)
# make check  lint, types, house rules and the pure tests: under a minute
# make test   what every change must pass: lint, types and tests
# make test-all  and the further cases of these tests
# make test-cluster  jobs on a real Slurm of two nodes, which it sets up (as root)
# make transcripts  writes what the commands of tests/transcripts/ print now
# make docs   builds the documentation into build/docs
# make pictures  makes the pictures of README and docs again, from real runs
# make pictures-real  makes those of public projects: needs the package index, gpytorch, deepxde and matplotlib
# make bench  the figures of docs and README, measured here
# make bench-health  how well the health checklist finds planted faults (about half an hour)
# make bench-site  how fast the site is built, against the stock, and one entry more (about half an hour)
# make bench-team  how fast large notebooks are listed, searched, exported, queried and synced
# make bench-diagnosis  how often the diagnosis of a failure is right, and how fast a log is read
PYTHON ?= python3
FRAMEWORK ?= torch
VENV := .venv
BIN := $(VENV)/bin
# Compiling 17,000 files takes a minute; each is compiled when it is first imported.
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --no-compile --constraint constraints.txt
PIP := $(PIP_INSTALL) --quiet
# On two cores: two more processes work while others wait for a disk, a server or a program.
WORKERS ?= 4
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

.PHONY: demo check pure test tests ruff mypy test-all test-cluster transcripts docs pictures pictures-real bench bench-health bench-diagnosis bench-site bench-team lint clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo-$(FRAMEWORK): $(BIN)/python pyproject.toml constraints.txt
	@echo 'Installing labbook, $(FRAMEWORK) and scikit-learn into $(VENV); this takes a minute the first time ...'
	@$(PIP_INSTALL) --progress-bar on --editable '.[$(FRAMEWORK)]' scikit-learn
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable '.[torch,paddle,site,dev]'
	touch $@

$(VENV)/.docs: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable '.[docs]'
	touch $@

demo: $(VENV)/.demo-$(FRAMEWORK)
	$(BIN)/labbook record -- $(BIN)/python examples/digits_$(FRAMEWORK).py
	@echo
	@$(BIN)/labbook list --limit 3
	@echo
	@echo 'The entry is the file named above. Read it here with: $(BIN)/labbook show last'

ruff: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

mypy: $(VENV)/.dev
	$(BIN)/mypy

lint: ruff mypy

pure: $(VENV)/.dev
	$(PYTEST) -q -m pure

check: $(VENV)/.dev
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint pure

tests: $(VENV)/.dev
	$(PYTEST) --durations 12 -m "not long"

test: ruff
	@$(MAKE) --no-print-directory --jobs 2 mypy tests

test-all: lint
	$(PYTEST) --durations 12 --hypothesis-profile thorough

test-cluster: $(VENV)/.dev
	bash tests/clusters/slurm_two_nodes.sh start
	$(PYTEST) -n 0 -m cluster tests/clusters

transcripts: $(VENV)/.dev
	$(BIN)/python -m pytest -q tests/transcripts --update-transcripts

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --config-file docs/mkdocs.yml
	@echo 'The documentation is in build/docs/index.html; its search needs a server: $(BIN)/python -m http.server -d build/docs'

pictures: $(VENV)/.dev
	$(BIN)/python docs/pictures/make.py

pictures-real: $(VENV)/.dev
	$(BIN)/python docs/pictures/real_projects.py

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

bench-health: $(VENV)/.dev
	$(BIN)/python -m benchmarks.health all

bench-diagnosis: $(VENV)/.dev
	$(BIN)/python -m benchmarks.diagnosis
	$(BIN)/python -m benchmarks.reading_logs

bench-site: $(VENV)/.dev
	$(BIN)/python -m benchmarks.site

bench-team: $(VENV)/.dev
	$(BIN)/python -m benchmarks.many_runs
	$(BIN)/python -m benchmarks.sync
	$(BIN)/python -m benchmarks.afternoon

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache site/*
