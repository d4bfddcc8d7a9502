# `make demo` and `make test` are all that a newcomer needs; both set up first.
PYTHON ?= python3
MODEL := qwen2.5-coder-0.5b
BIN := .venv/bin
# Where a built wheel of the engine comes from: a directory, the address of an index, or `pip` (pip's own configuration leads
# to one). Empty: it is built from source, unless pip finds a wheel anyway.
ENGINE_WHEELS ?=
ifneq ($(filter-out pip,$(ENGINE_WHEELS)),)
FROM_WHEELS := --prefer-binary $(if $(findstring ://,$(ENGINE_WHEELS)),--extra-index-url,--find-links) '$(ENGINE_WHEELS)'
endif
HAS_COMPILER := { command -v $${CC:-cc} && command -v $${CXX:-c++}; } >/dev/null
# Without a compiler pip is to say that it found no wheel, instead of what CMake says after minutes.
ONLY_WHEELS := $$($(HAS_COMPILER) || echo --only-binary llama-cpp-python)

.PHONY: setup demo test e2e vsix soak bench clean
.DELETE_ON_ERROR:

setup: .venv/ready
	@$(BIN)/midfill models pull $(MODEL)

.venv/ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "midfill needs Python 3.11 or newer; name one with: make PYTHON=python3.12"; exit 1; }
	@test -n '$(ENGINE_WHEELS)' || $(HAS_COMPILER) || { echo "The engine (llama.cpp) is built from source and needs a C and a C++ compiler. Debian and Ubuntu: apt install build-essential; Fedora: dnf install gcc-c++; Arch: pacman -S base-devel; Alpine: apk add build-base; macOS: xcode-select --install. Or take a built wheel of llama-cpp-python: make setup ENGINE_WHEELS=DIRECTORY, or the address of an index, or pip where pip's configuration leads to one."; exit 1; }
	@echo "Setting up .venv$(if $(ENGINE_WHEELS),,; the first time the engine is built from source, which takes 6 to 10 minutes on two cores)."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=24.2"
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check $(FROM_WHEELS) $(ONLY_WHEELS) --editable ".[dev]"
	@touch $@

demo: setup
	@$(BIN)/midfill demo --model $(MODEL)

test: setup
	@$(BIN)/python -m tests.all

# The extension for VS Code, with the server's wheel in it.
VSCODE := editors/vscode
vsix: .venv/ready $(VSCODE)/node_modules/.package-lock.json
	@rm -rf build $(VSCODE)/wheel $(VSCODE)/dist
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir $(VSCODE)/wheel .
	@rm -rf build; cp LICENSE $(VSCODE)/LICENSE.txt
	@cd $(VSCODE) && npm run --silent check && npm run --silent build && npx vsce package --no-dependencies --no-rewrite-relative-links --allow-missing-repository --out midfill.vsix >/dev/null
	@echo "$(VSCODE)/midfill.vsix is built; install it with: code --install-extension $(VSCODE)/midfill.vsix"

$(VSCODE)/node_modules/.package-lock.json: $(VSCODE)/package-lock.json
	@command -v npm >/dev/null || { echo "The extension for VS Code is built with Node 20 or newer and npm. Debian and Ubuntu: apt install nodejs npm."; exit 1; }
	@cd $(VSCODE) && npm ci --ignore-scripts --silent && touch node_modules/.package-lock.json

# The clients in the real editors, which are fetched from Debian's packages and npm into ~/.cache/midfill-editors (MIDFILL_EDITORS).
e2e: setup
	@$(BIN)/python -m tests.editors

# The engine is killed a hundred times during completions; nothing may be lost, and nothing may be left.
soak: setup
	MIDFILL_TEST_KILLS=100 $(BIN)/python -m pytest tests/e2e/test_shared_engine.py -k kill_9

bench: setup
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[bench]"
	$(BIN)/python -m bench.keystroke --model $(MODEL)

clean:
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .hypothesis $(VSCODE)/node_modules $(VSCODE)/dist $(VSCODE)/out $(VSCODE)/wheel $(VSCODE)/*.vsix
