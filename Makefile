# make demo   records a real training run of digits and shows its entry (FRAMEWORK=paddle for PaddlePaddle)
# make test   lint, types and tests
# make test-all  and the tests that record many trainings, which `make bench-health` does as well
# make bench  the figures of docs and README, measured here
# make bench-health  how well the health checklist finds planted faults (about half an hour)
# make bench-site  how fast the site is built, against the stock, and one entry more (about half an hour)
# make bench-diagnosis  how often the diagnosis of a failure is right, and how fast a log is read
PYTHON ?= python3
FRAMEWORK ?= torch
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
WORKERS ?= 2

.PHONY: demo test test-all bench bench-health bench-diagnosis bench-site lint clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo-$(FRAMEWORK): $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable '.[$(FRAMEWORK)]' scikit-learn
	touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable '.[torch,paddle,site,dev]'
	touch $@

demo: $(VENV)/.demo-$(FRAMEWORK)
	$(BIN)/labbook record -- $(BIN)/python examples/digits_$(FRAMEWORK).py
	$(BIN)/labbook show last

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --durations 12 -m "not long"

test-all: lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --durations 12

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

bench-health: $(VENV)/.dev
	$(BIN)/python -m benchmarks.health all

bench-diagnosis: $(VENV)/.dev
	$(BIN)/python -m benchmarks.diagnosis
	$(BIN)/python -m benchmarks.reading_logs

bench-site: $(VENV)/.dev
	$(BIN)/python -m benchmarks.site

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache site/*
