# Set-up and everyday commands. `make demo` and `make test` need nothing but Python 3.11 or newer.
PYTHON ?= python3
BIN := .venv/bin
# Modules are translated to bytecode once, not by each of the hundreds of processes of the tests. Images of containers often forbid it.
unexport PYTHONDONTWRITEBYTECODE
# Pip would translate all of every package (--no-compile): half of what an installation takes, for modules that nothing here imports.

.PHONY: demo test check pytest kernels record record-check mutants test-thorough docs api fuzz bench lint clean

# The commands of README.md, and a page of each answer.
demo: .venv/.installed
	$(BIN)/astra-tacos synthesize --network configs/network/hetero_3d_64npus.yml --size 64MiB --chunks-per-npu 4 --output run
	$(BIN)/astra-tacos verify run
	$(BIN)/astra-tacos replay run
	$(BIN)/astra-tacos plan configs/workload/transformer_16 --network configs/network/torus_4x4.yml --output planned
	$(BIN)/astra-tacos report run -o run.html
	$(BIN)/astra-tacos report planned -o planned.html

# mypy runs beside the tests: alone it leaves all cores but one idle.
test: .venv/.testable
	$(MAKE) --no-print-directory --jobs 2 lint pytest

# A minute of it: all of lint, and one test in twelve, of every room.
check: SAMPLE := 12
check: test

# Workers take neighbouring tests, which share what they have made.
SAMPLE ?= 1
export SAMPLE
pytest: kernels
	$(BIN)/python -m pytest -n auto --dist worksteal --sample $(SAMPLE)

# Compiled before, or each worker of the tests would do it.
kernels: .venv/.testable
	$(BIN)/python tests/helpers/compile_kernels.py

# What the commands answer on fixed cases, compared with tests/recorded: quick ones for each commit, TIER=all before a change lands.
# `record` records all anew, once each difference has been explained in tests/recorded/changes.csv.
TIER ?= quick
RECORDER := PYTHONPATH=.:tests $(BIN)/python tests/helpers/recorder.py
record-check: kernels
	$(RECORDER) check --tier $(TIER)

record: kernels
	$(RECORDER) record

# Small faults, drawn with a seed, each against the tests of its room: make mutants MUTANTS=100 SEED=1
MUTANTS ?= 100
SEED ?= 0
mutants: .venv/.testable
	PYTHONPATH=.:tests $(BIN)/python tests/helpers/mutants.py --count $(MUTANTS) --seed $(SEED)

# Property tests with ten times as many examples, or as asked, and others in each run: make test-thorough EXAMPLES=100
EXAMPLES ?= 10
test-thorough: kernels
	ASTRA_TACOS_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -n auto --dist worksteal

# The documentation site, in site/: its notebooks are executed, and a link that leads nowhere is an error (not with --quiet, which hides warnings from --strict).
docs: .venv/.documentable
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python docs/site/run_notebooks.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# What is made from the list of public names in astra_tacos/__init__.py: __init__.pyi and docs/api.md.
api: .venv/.testable
	$(BIN)/python tests/helpers/public_api.py

# The trace reader against protobuf's parser, for ten minutes or as long as asked, and readers of text with changed files: make fuzz FUZZ_SECONDS=3600
FUZZ_SECONDS ?= 600
FUZZ_EXAMPLES ?= 5000
fuzz: .venv/.testable
	FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) $(BIN)/python -m pytest -s tests/run/test_reader_fuzz.py tests/support/test_text_fuzz.py

lint: .venv/.testable
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: bench-synthesis bench-quality bench-trees bench-heterogeneous bench-all_to_all bench-plan bench-optimize \
  bench-sweep bench-replay bench-reading bench-small bench-exact bench-symmetric bench-fabrics bench-fabric_packets bench-pareto bench-unequal bench-calibrate bench-runs bench-step bench-packet bench-teccl bench-many_ranks bench-answer

bench-%: .venv/.installed
	$(BIN)/python benchmarks/$*.py

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.installed: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[all]'
	touch $@

.venv/.testable: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[test]'
	touch $@ .venv/.installed

.venv/.documentable: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[docs]'
	touch $@ .venv/.installed

clean:
	rm -rf .venv site run planned run.html planned.html build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
