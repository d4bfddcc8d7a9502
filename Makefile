# `make demo` and `make test` are all that a newcomer needs; both set up first.
PYTHON ?= python3
MODEL := qwen2.5-coder-0.5b
BIN := .venv/bin

.PHONY: setup demo test bench clean
.DELETE_ON_ERROR:

setup: .venv/ready
	@$(BIN)/midfill models pull $(MODEL)

.venv/ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "midfill needs Python 3.11 or newer; name one with: make PYTHON=python3.12"; exit 1; }
	@command -v cc >/dev/null && command -v c++ >/dev/null || { echo "The engine (llama.cpp) is built from source and needs a C and a C++ compiler. Debian and Ubuntu: apt install build-essential; Fedora: dnf install gcc-c++; macOS: xcode-select --install"; exit 1; }
	@echo "Setting up .venv; the first time the engine is built from source, which takes 6 to 10 minutes on two cores."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=24.2"
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@

demo: setup
	@$(BIN)/midfill demo --model $(MODEL)

test: setup
	@$(BIN)/python -m tests.all

bench: setup
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[bench]"
	$(BIN)/python -m bench.keystroke --model $(MODEL)

clean:
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .hypothesis
