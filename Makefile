# Every target sets up what it needs: `make demo` and `make test` work in a fresh clone with Python >= 3.11 and nothing else.
# A second call is instant: the stamps in .venv are remade only when setup.cfg or pyproject.toml change.

VENV    := .venv
PY      := $(VENV)/bin/python
RELAYVM := $(VENV)/bin/relayvm
DEVICE  ?= sim
# the simulated device's copies take the time of a link; a real device has its own
LINK     = $(if $(filter sim,$(DEVICE)),--link 16GB/s$(comma)5us)
comma   := ,
# pytest workers: as many as there are cores, at most four (each compiles kernels and holds a compiler in memory)
WORKERS ?= auto
PYTEST   = $(PY) -m pytest -n $(WORKERS) --maxprocesses=4
OUT     := build/examples
SECONDS ?= 60

# `make gpu GPU_PYTHON=python3`: with an interpreter that has the packages already; nothing is installed.  Missing
# packages may be in the folder GPU_PACKAGES.  GPU_ARGS goes to the program: --out FOLDER, --only PART.
GPU_PYTHON   ?=
GPU_PACKAGES ?=
GPU_ARGS     ?=
GPU_NEEDS    := $(if $(GPU_PYTHON),,$(VENV)/stamp-test $(VENV)/stamp-cudnn13)
GPU_RUN      := $(if $(GPU_PYTHON),PYTHONPATH=$(CURDIR)/.types$(addprefix :,$(abspath $(GPU_PACKAGES)))$${PYTHONPATH:+:$$PYTHONPATH} $(GPU_PYTHON),$(PY))
LINKED       := $(filter-out setup.py,$(wildcard *.py *.pyi py.typed relay_modules/*.py)) $(patsubst %/__init__.py,%,$(wildcard */__init__.py))
LINKS        := rm -rf .types/relayvm && mkdir -p .types/relayvm && ln -s $(addprefix ../../,$(LINKED)) .types/relayvm
EGG_INFO     := -c 'import setuptools; setuptools.setup()' --quiet egg_info --egg-base .types

# The first interpreter that runs, is new enough and can make a virtual environment.  Override: make PYTHON=/path/to/python test
PROBE   := import sys, venv, ensurepip; raise SystemExit(sys.version_info < (3, 11))
PYTHON  ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c '$(PROBE)' >/dev/null 2>&1 && { echo "$$p"; break; }; done)

# Modules are compiled when they are imported: most of the packages' never are.
PIP     := $(PY) -m pip install --quiet --no-compile

# The machine's own code is compiled with the package: the first program then starts faster.  Kernels of usual networks take
# most of a minute more, and the tests and the demo need none.
CODE    := $(RELAYVM) cache install

# Without bytecode each worker of the tests compiles the modules that it imports anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check lint types layers torch torch-suite zoo docs site bench fuzz gpu clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/stamp-run  ## set up, run two example programs on the simulated device, then compare two configurations
	$(PY) examples/detection_tail.py --device $(DEVICE) --out $(OUT)
	$(PY) examples/digits.py --device $(DEVICE) --out $(OUT)
	$(RELAYVM) compare examples/detection_tail.relay --device $(DEVICE) --dim n=500 --brief $(LINK) \
	    --side one_flag:data_dependence=op,place=off --side per_input:data_dependence=input
	@echo
	@echo "Next: $(RELAYVM) explain examples/detection_tail.relay --device sim    each copy, with the change that would remove it"
	@echo "      $(RELAYVM) run model.onnx --dim n=8                              your own model, after $(VENV)/bin/pip install onnx"
	@echo "      README.md                                                        the pages by task"

test: $(VENV)/stamp-test  ## set up with the test extra, test every operator on every device (seven to seventeen minutes on 2 cores)
	$(PYTEST) --tier test $(PYTEST_ARGS)

test-all: test  ## `make test`, then the rest of the tests: more dtypes, modes, examples and architectures
	$(PYTEST) --tier rest $(PYTEST_ARGS)

fuzz: $(VENV)/stamp-test  ## random trials for SECONDS=60, of PARTS= (see tests/campaign); a finding becomes a test in build/campaign
	$(PY) -m tests.campaign $(PARTS) --seconds $(SECONDS) $(FUZZ_ARGS)

check: lint types  ## lint, format, types, and the tests that use no machine code (a minute)
	$(PYTEST) --tier check $(PYTEST_ARGS)

lint: $(VENV)/stamp-test
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

# mypy must see the package as it is installed, under its name: .types/relayvm has links to its files and folders.
types: $(VENV)/stamp-test  ## mypy --strict over the package and a program that uses it
	@$(LINKS)
	$(PY) -m mypy

layers: $(VENV)/stamp-test
	$(PY) -m pytest tests/test_layers.py tests/test_packaging.py

torch: $(VENV)/stamp-test $(VENV)/stamp-torch  ## set up with the extra torch, test the import of torch programs
	$(PYTEST) tests/torch_frontend

torch-suite: $(VENV)/stamp-test $(VENV)/stamp-torch  ## samples of torch's operator database beside torch, by dtype (half an hour on 2 cores)
	$(PYTEST) tests/torch_suite

zoo: $(VENV)/stamp-test $(VENV)/stamp-zoo  ## small networks of transformers and torchvision, by two exporters, beside torch
	$(PYTEST) tests/zoo

docs: $(VENV)/stamp-run  ## write the pages that are generated, wholly or in part: docs/ops.md, docs/python.md, README.md and others
	$(PY) -m relayvm.compiler.docs.pages

site: $(VENV)/stamp-site  ## the documentation as a site in build/site, links checked
	$(PY) -m relayvm.compiler.docs.site_pages build/site-pages
	SITE_NAME="relayvm $$($(PY) -c "import relayvm; print(relayvm.__version__)")" $(PY) -m mkdocs build --strict --quiet

bench: $(VENV)/stamp-bench  ## dispatch cost and kernels against numpy and onnxruntime, cold start, memory, parsing, tuning, error rates of compare (minutes)
	$(PY) benchmarks/dispatch.py
	$(PY) benchmarks/cold_start.py
	$(PY) benchmarks/significance.py
	$(PY) benchmarks/memory.py
	$(PY) benchmarks/parse.py
	$(PY) benchmarks/tuning.py
	$(PY) benchmarks/kernels.py

gpu: $(GPU_NEEDS)  ## all checks that need a GPU, in at most 9 minutes: tests, figures beside their goals (docs/gpu.md)
	$(if $(GPU_NEEDS),,@$(LINKS) && $(GPU_PYTHON) $(EGG_INFO))
	$(GPU_RUN) benchmarks/gpu $(GPU_ARGS)

clean:  ## remove everything that the other targets made
	rm -rf $(VENV) .cache installed_code .types .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(PY):
	@test -n "$(PYTHON)" || { echo "make: no Python >= 3.11 with the venv module found; try make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c '$(PROBE)' || { echo "make: $(PYTHON) is not a Python >= 3.11 with the venv module" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)

# One stamp per extra; pip adds to what is there, so they live side by side.
$(VENV)/stamp-run: setup.cfg pyproject.toml | $(PY)
	$(PIP) --editable .
	$(CODE) --own
	@touch $@

$(VENV)/stamp-%: setup.cfg pyproject.toml | $(PY)
	$(PIP) --editable '.[$*]'
	$(CODE)$(if $(filter test,$*), --own)
	@touch $@
