# Everything that is done to this repository by hand or by CI. `make help` lists it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
UV_VERSION := 0.13.8
VERSITYGW_VERSION := v1.8.0

# The lock holds for these Pythons; the first of them on the path is taken. PYTHON=/path/to/python chooses another.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	"$$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null \
	&& echo "$$python" && break; done)

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- the environment -------------------------------------------------------------------------------------------------

# From the locks alone: every file of dev.txt is a wheel with a known hash, so nothing is built and nothing else is fetched.
# The lock is complete, so pip resolves nothing (--no-deps); it would stumble over extras, which it cannot match with hashes.
# pyspark, which PyPI has as a source distribution only, is the one exception: it has a lock of its own, and is packed by the
# setuptools of dev.txt (--no-build-isolation), not by one fetched for it.
WHEELS := --only-binary :all: --require-hashes --no-deps
SOURCE := --only-binary :all: --no-binary pyspark --no-build-isolation --require-hashes --no-deps

.venv/.locked: requirements/dev.txt requirements/spark.txt
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 to 3.13 found; install one (with its venv module) or set PYTHON=" >&2; exit 1; }
	@echo "Installing the locked packages into .venv (about 1.5 GB on disk)"
	@$(PYTHON) -m venv --clear .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input $(WHEELS) -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input $(SOURCE) -r requirements/spark.txt
	@touch $@

.venv/.installed: .venv/.locked pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input \
		--no-index --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: install
install: .venv/.installed ## Create .venv, or renew it when the lock changed

.PHONY: lock
lock: build/lock/bin/uv ## Resolve what is asked for into locks (UV_ARGS=--upgrade for newer versions)
	build/lock/bin/uv pip compile pyproject.toml --extra dev --constraint requirements/spark.in --quiet \
		--universal --python-version 3.11 --only-binary :all: --no-binary pyspark --no-emit-package pyspark \
		--generate-hashes --no-emit-index-url --custom-compile-command "make lock" --output-file requirements/dev.txt $(UV_ARGS)
	for apart in spark spark4 rust-reader duckdb; do build/lock/bin/uv pip compile requirements/$$apart.in --quiet --no-deps --universal \
		--python-version 3.11 --no-binary pyspark --generate-hashes --no-emit-index-url \
		--custom-compile-command "make lock" --output-file requirements/$$apart.txt $(UV_ARGS); done
	build/lock/bin/uv pip compile pyproject.toml --extra cli --constraint requirements/dev.txt --quiet --universal \
		--python-version 3.11 --only-binary :all: --generate-hashes --no-emit-index-url \
		--custom-compile-command "make lock" --output-file requirements/cli.txt $(UV_ARGS)
	build/lock/bin/uv pip compile pyproject.toml requirements/examples.in --extra read --quiet --universal \
		--python-version 3.11 --only-binary :all: --generate-hashes --no-emit-index-url \
		--custom-compile-command "make lock" --output-file requirements/examples.txt $(UV_ARGS)
	build/lock/bin/uv pip compile layers/base/requirements.in --constraint requirements/dev.txt --quiet --universal \
		--python-version 3.11 --only-binary :all: --generate-hashes --no-emit-index-url \
		--custom-compile-command "make lock" --output-file layers/base/requirements.txt $(UV_ARGS)
	build/lock/bin/uv pip compile requirements/lambda.in --constraint requirements/dev.txt --quiet --universal \
		--python-version 3.11 --only-binary :all: --generate-hashes --no-emit-index-url \
		--custom-compile-command "make lock" --output-file requirements/lambda.txt $(UV_ARGS)
	build/lock/bin/uv pip compile requirements/emr.in --constraint requirements/dev.txt --quiet --universal \
		--python-version 3.11 --only-binary :all: --generate-hashes --no-emit-index-url \
		--custom-compile-command "make lock" --output-file requirements/emr.txt $(UV_ARGS)
	@for python in 3.11 3.12 3.13; do for machine in x86_64 aarch64; do \
		echo "checking that wheels exist for Python $$python on $$machine"; \
		build/lock/bin/uv pip install --quiet --dry-run --target build/lock/none --python-version "$$python" \
			--python-platform "$$machine-manylinux_2_28" --only-binary :all: --require-hashes -r requirements/dev.txt; \
	done; done

build/lock/bin/uv: Makefile
	@$(PYTHON) -m venv --clear build/lock
	@build/lock/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@

# --- the two commands of the README ----------------------------------------------------------------------------------

.PHONY: demo
demo: install ## Write a table, expire its snapshots, show that it still reads the same, and write a page about it
	@mkdir -p build
	@$(BIN)/lakesweep demo --html build/demo.html

# Each process that tests start, and each that runs tests, would compile the package and the tests anew.
unexport PYTHONDONTWRITEBYTECODE

# Processes that run tests: one for each core, unless JOBS says otherwise.
JOBS ?= auto

.PHONY: quick
quick: install ## Run the tests of values, formats and rules, which take a minute: what one runs while writing
	@LAKESWEEP_SAMPLED=1 $(BIN)/python -m pytest $(addprefix tests/unit/,model format control table storage aws docs) \
		$(wildcard tests/unit/operations/*/*rules*) \
		--numprocesses $(JOBS) --dist worksteal $(PYTEST_ARGS)

# Of a test with very many cases it takes some, and of places where something may break each twelfth: tests/support/sampling.py.
.PHONY: test
test: install ## Run every suite that this machine can run, sampled where it is exhaustive (PYTEST_ARGS="-k name" to choose)
	@LAKESWEEP_SAMPLED=1 LAKESWEEP_FAULTS_EVERY=$${LAKESWEEP_FAULTS_EVERY:-12} \
		$(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal $(PYTEST_ARGS)

.PHONY: test-all
test-all: install ## Run every test with all its cases, also those that take long: some hours
	@LAKESWEEP_FAULTS_EVERY=$${LAKESWEEP_FAULTS_EVERY:-1} \
		$(BIN)/python -m pytest -m "long or not long" --numprocesses $(JOBS) --dist worksteal $(PYTEST_ARGS)

.PHONY: mutations
mutations: install ## Break rules of the safety code one by one, and show that a test of `make test` notices each
	@$(BIN)/python -m tests.mutations $(ARGS)

.PHONY: size
size: ## Count lines, files in a folder, long modules and words of the documentation
	@$(PYTHON) -m benchmarks.size

.PHONY: docs
docs: install ## Write the generated pages: docs/cli_json.md and docs/commands.md
	@$(BIN)/python -m benchmarks.reference

.PHONY: faults
faults: install ## Break every storage call of a run in every way, and kill it there; prints what was broken
	@LAKESWEEP_FAULTS_EVERY=$${LAKESWEEP_FAULTS_EVERY:-1} LAKESWEEP_SCHEDULES=$${LAKESWEEP_SCHEDULES:-1000} $(BIN)/python -m pytest tests/fault tests/bad_bytes \
		tests/unit/operations/test_branch_protection.py tests/unit/operations/test_undo_moves.py --numprocesses $(JOBS) --dist worksteal $(PYTEST_ARGS)

# --- deployment: docs/deploy.md ---------------------------------------------------------------------------------------

# As the template's parameters of these names; a deployment that sets them has to be built with the same.
RUNTIME ?= python3.13
ARCHITECTURE ?= arm64
# It compiles the layers, which halves the time of a cold start. What is built works without it.
TARGET_PYTHON ?= $(RUNTIME)

# SAM wants a region even for what it does here; nothing is asked of it.
SAM := SAM_CLI_TELEMETRY=0 AWS_DEFAULT_REGION=$${AWS_DEFAULT_REGION:-us-east-1} PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/sam

.PHONY: build
build: install ## Build functions and layers into .aws-sam (TARGET_PYTHON=/path/to/python3.13 RUNTIME= ARCHITECTURE=)
	@"$(TARGET_PYTHON)" -c 'import sys; sys.exit("python%d.%d" % sys.version_info[:2] != "$(RUNTIME)")' 2>/dev/null \
		|| echo "$(RUNTIME) is not here: cold starts will be slower. TARGET_PYTHON=/path/to/$(RUNTIME) names it." >&2
	@LAYER_RUNTIME=$(RUNTIME) LAYER_ARCHITECTURE=$(ARCHITECTURE) TARGET_PYTHON="$(TARGET_PYTHON)" $(SAM) build \
		--parameter-overrides Runtime=$(RUNTIME) Architecture=$(ARCHITECTURE) $(SAM_ARGS)

# A bucket in the stack's region. UPLOAD=no uploads nothing, and says how to.
PREFIX ?= lakesweep
UPLOAD ?= yes
.PHONY: package package-bucket
package-bucket:
	@test -n "$(BUCKET)" || { echo "state the bucket: make package BUCKET=NAME" >&2; exit 2; }
package: package-bucket build ## Package what CloudFormation, Terraform and CDK take into build/package, and upload it (BUCKET= PREFIX= UPLOAD=no)
	@$(BIN)/python deploy/package.py --runtime $(RUNTIME) --architecture $(ARCHITECTURE) --bucket "$(BUCKET)" \
		--prefix "$(PREFIX)" --output build/package $(if $(filter yes,$(UPLOAD)),--upload)

# As the template's parameters SparkRelease, SparkArchitecture (in small letters) and SparkPython.
RELEASE ?= emr-spark-8.0.0
SPARK_PYTHON ?= 3.11

.PHONY: emr-artifacts
emr-artifacts: install ## Build what EMR Serverless runs into build/emr (RELEASE= ARCHITECTURE= SPARK_PYTHON=), and say how to upload it
	@$(BIN)/python emr/artifacts.py --release $(RELEASE) --architecture $(ARCHITECTURE) --python $(SPARK_PYTHON)

.PHONY: invoke
invoke: install ## Run one built function on one event, on this machine: FUNCTION=expire EVENT=events/sqs_expire.json
	@$(BIN)/python -m tests.system.invoke $(FUNCTION) $(EVENT) $(ARGS)

.PHONY: system
system: install ## Run the deployed system on this machine: every function, real writers, every row checked (SCAN=1 ARGS=--help)
	@$(BIN)/python -m tests.system $(if $(SCAN),--scan )$(ARGS)

.PHONY: system-long
system-long: install ## Run the tests of the deployed system, and of requests, that `make test` leaves out
	@$(BIN)/python -m pytest tests/system tests/e2e tests/attack -m long --numprocesses $(JOBS) --dist worksteal $(PYTEST_ARGS)

MINUTES ?= 10
.PHONY: chaos
chaos: install ## Run it with every kind of trouble for MINUTES (10); SEED= repeats a run
	@$(BIN)/python -m tests.system.chaos --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

.PHONY: validate
validate: install ## Lint the template
	@$(SAM) validate --lint

# --- for contributors ------------------------------------------------------------------------------------------------

.PHONY: check
check: install ## Lint, formatting, types, import directions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: install ## Format, and mend what ruff can mend
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

.PHONY: jars
jars: ## Fetch the Java engine for the differential tests (needs a JDK and Maven)
	@if command -v mvn javac >/dev/null && [ "$$(command -v mvn javac | wc -l)" = 2 ]; then \
		$(MAKE) build/engine-classpath.txt build/old-engine-classpath.txt; \
	else \
		echo "make jars: skipped, mvn and javac are both needed; the differential tests will be skipped too"; \
	fi

build/%-classpath.txt: requirements/%-pom.xml
	@echo "Fetching the Java $* into the local Maven repository"
	@mkdir -p build
	@mvn --quiet --batch-mode --file $< dependency:build-classpath -Dmdep.outputFile=$(CURDIR)/$@.new </dev/null
	@mv $@.new $@ && touch $@
	@echo "Its class path is in $@"

.PHONY: versitygw
versitygw: ## Build versitygw, the second S3 server of the tests (needs Go; minutes, once)
	@if command -v go >/dev/null; then \
		$(MAKE) build/versitygw; \
	else \
		echo "make versitygw: skipped, Go is needed; the tests that need this server will be skipped too"; \
	fi

# It depends on this file because the version stands here. Go keeps what it compiled, so a second build takes seconds.
build/versitygw: Makefile
	@echo "Building versitygw $(VERSITYGW_VERSION), which takes some minutes the first time"
	@mkdir -p build
	@GOBIN=$(CURDIR)/build CGO_ENABLED=0 nice -n 10 \
		go install github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW_VERSION) </dev/null
	@touch $@

.PHONY: chromium
chromium: ## Install Debian's Chromium, which the tests of pages drive (needs apt-get and its rights; once)
	@if command -v chromium >/dev/null; then \
		echo "make chromium: $$(command -v chromium) is there"; \
	elif command -v apt-get >/dev/null; then \
		apt-get update --quiet --quiet && apt-get install --yes --quiet --quiet chromium fonts-dejavu-core </dev/null >/dev/null; \
	else \
		echo "make chromium: skipped, apt-get is needed; the tests of pages in a browser will be skipped too"; \
	fi

.PHONY: servers
servers: install versitygw ## Run the storage tests against real S3 servers
	@$(BIN)/python -m pytest tests/conformance tests/servers --numprocesses $(JOBS) --dist worksteal $(PYTEST_ARGS)

# Spark 4.0 for the tests: it lies before the Spark of .venv on the path, and everything else comes from .venv.
build/spark4/.installed: requirements/spark4.txt .venv/.locked
	@echo "Installing Spark 4.0 into build/spark4 (about 490 MB on disk)"
	@rm -rf build/spark4
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --target build/spark4 $(SOURCE) \
		-r requirements/spark4.txt
	@touch $@

.PHONY: spark4-env
spark4-env: install build/spark4/.installed ## Install Spark 4.0 beside the other one, for the tests

# Notebook, Dagster and Airflow for the tests of examples/, beside what `pip install 'lakesweep[read]'` brings.
build/examples/.installed: requirements/examples.txt
	@echo "Installing Jupyter, Dagster and Airflow into build/examples (about 680 MB on disk)"
	@$(PYTHON) -m venv --clear build/examples
	@build/examples/bin/python -m pip install --quiet --disable-pip-version-check --no-input $(WHEELS) \
		-r requirements/examples.txt
	@touch $@

.PHONY: examples-env
examples-env: build/examples/.installed ## Install what runs the notebook and the tasks of examples/, for the tests

# What `pip install 'lakesweep[cli]'` fetches, so that a test can install it into a clean environment without a network.
build/wheels/.downloaded: requirements/cli.txt .venv/.locked
	@rm -rf build/wheels
	@$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-input --dest build/wheels $(WHEELS) \
		-r requirements/cli.txt
	@touch $@

.PHONY: wheels
wheels: install build/wheels/.downloaded ## Fetch the wheels of the extra `cli`, for the test of an installation

build/duckdb/.installed: requirements/duckdb.txt .venv/.locked
	@rm -rf build/duckdb
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --target build/duckdb -r requirements/duckdb.txt
	@touch $@

.PHONY: duckdb-env
duckdb-env: install build/duckdb/.installed ## Install DuckDB apart from .venv, for the tests of queries on the ledger

.PHONY: spark4
spark4: spark4-env ## Run the Spark tests on Spark 4.0 (make test runs them on 3.5, and some on 4.0)
	@PYTHONPATH="$(CURDIR)/build/spark4" $(BIN)/python -m pytest tests/spark $(PYTEST_ARGS)

.PHONY: spark-long
spark-long: install ## Run the Spark tests that `make test` leaves out: drivers that are killed, executors without a package
	@$(BIN)/python -m pytest tests/spark -m long $(PYTEST_ARGS)

.PHONY: differential
differential: install jars ## Compare with the Java engine on COUNT random tables
	@$(if $(COUNT),LAKESWEEP_DIFFERENTIAL_COUNT=$(COUNT) )$(BIN)/python -m pytest tests/differential --numprocesses $(JOBS) --dist worksteal $(PYTEST_ARGS)

.PHONY: differential-tags
differential-tags: install jars ## Compare tags with the Java engine on COUNT random histories (100)
	@LAKESWEEP_TAG_HISTORIES=$(or $(COUNT),100) $(BIN)/python -m pytest tests/differential/test_tags.py tests/differential/test_tag_documents.py --numprocesses $(JOBS) --dist worksteal $(PYTEST_ARGS)

.PHONY: differential-branches
differential-branches: install jars ## Compare rollback and branches with the Java engine on COUNT random histories (100)
	@LAKESWEEP_BRANCH_HISTORIES=$(or $(COUNT),100) $(BIN)/python -m pytest tests/differential/test_branches.py --numprocesses $(JOBS) --dist worksteal $(PYTEST_ARGS)

# A reader of its own code base for the tests: a third judge of the rows that commits leave.
build/rust-reader/.installed: requirements/rust-reader.txt .venv/.locked
	@echo "Installing the Rust reader into build/rust-reader (about 280 MB on disk)"
	@rm -rf build/rust-reader
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --target build/rust-reader $(WHEELS) \
		-r requirements/rust-reader.txt
	@touch $@

.PHONY: rust-reader
rust-reader: install build/rust-reader/.installed ## Install a reader in Rust, for the differential tests of commits

.PHONY: differential-commits
differential-commits: install jars rust-reader ## Let the Java engine go on after the commits of COMMITS random histories (100)
	@LAKESWEEP_COMMIT_HISTORIES=$(or $(COMMITS),$(COUNT),100) LAKESWEEP_MANIFEST_HISTORIES=$(or $(COMMITS),$(COUNT),100) \
		$(BIN)/python -m pytest tests/differential/test_commit_histories.py tests/differential/test_as_latest_histories.py tests/differential/test_manifest_histories.py tests/differential/test_compacted_writers.py tests/differential/test_wrong_statistics.py tests/differential/test_deleted_entries.py -m "long or not long" --numprocesses $(JOBS) --dist worksteal $(PYTEST_ARGS)

.PHONY: differential-live
differential-live: install jars ## Let the Java engine and this program work on one table at once, COUNT times (50)
	@LAKESWEEP_LIVE_PLAYS=$(or $(COUNT),50) $(BIN)/python -m pytest tests/differential/test_live.py $(PYTEST_ARGS)

.PHONY: bad-bytes
bad-bytes: install ## Flip every bit of the metadata of every test table, hours of work (PYTEST_ARGS="-k name")
	@LAKESWEEP_BAD_BYTES=all $(BIN)/python -m pytest tests/bad_bytes --timeout=0 $(PYTEST_ARGS)

# atheris is no part of the lock: it has wheels for CPython on x86_64 Linux alone. SECONDS is for all targets together.
SECONDS ?= 60
.PHONY: fuzz
fuzz: install build/fuzz/packages/.installed ## Fuzz every decoder for SECONDS (60) in all, or some: TARGETS="avro orc"
	@PYTHONPATH=build/fuzz/packages:. $(BIN)/python -m tests.fuzz.run \
		--seconds $(SECONDS) $(TARGETS)

build/fuzz/packages/.installed: requirements/fuzz.txt .venv/.locked
	@rm -rf build/fuzz/packages && mkdir -p build/fuzz/packages
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --target build/fuzz/packages \
		--only-binary :all: --require-hashes -r requirements/fuzz.txt
	@touch $@

# --- benchmarks: each writes benchmarks/results/NAME.json and NAME.md (ARGS=--help shows what can be chosen) -----------

.PHONY: bench-expire
bench-expire: install jars ## Measure expire_snapshots beside the Java engine
	@$(BIN)/python -m benchmarks.expire $(ARGS)

.PHONY: bench-decode
bench-decode: install jars ## Measure the decoding of a manifest beside fastavro
	@$(BIN)/python -m benchmarks.decode $(ARGS)

.PHONY: bench-vectors
bench-vectors: install jars ## Measure making and reading deletion vectors beside the Java engine
	@$(BIN)/python -m benchmarks.vectors $(ARGS)

.PHONY: bench-memory
bench-memory: install ## Measure plan and show on a table of a million files (needs 3 GB of disk)
	@$(BIN)/python -m benchmarks.memory $(ARGS)

.PHONY: bench-overview
bench-overview: install ## Measure the overview of 200 tables, twice (needs versitygw)
	@$(BIN)/python -m benchmarks.overview $(ARGS)

.PHONY: bench-simulate
bench-simulate: install ## Measure five simulated policies over 10 000 snapshots
	@$(BIN)/python -m benchmarks.simulate $(ARGS)

.PHONY: bench-list
bench-list: install ## Measure listing 100 000 keys beside boto3
	@$(BIN)/python -m benchmarks.list $(ARGS)

# Lambda's Python has its runtime client and boto3, and nothing else. TARGET_PYTHON makes it, or else the one of .venv.
build/lambda-runtime/.installed: requirements/lambda.txt .venv/.locked
	@python="$(TARGET_PYTHON)"; "$$python" -c "" 2>/dev/null || python=$(BIN)/python; \
		"$$python" -m venv --clear build/lambda-runtime
	@build/lambda-runtime/bin/python -m pip install --quiet --disable-pip-version-check --no-input \
		--only-binary :all: --require-hashes --no-deps -r requirements/lambda.txt
	@touch $@

# Built for that Python and this machine, in a place of their own.
.PHONY: bench-functions
bench-functions: install build/lambda-runtime/.installed ## Measure the start of the functions under Lambda's runtime client
	@python="$(CURDIR)/build/lambda-runtime/bin/python"; $(MAKE) build TARGET_PYTHON="$$python" \
		RUNTIME="$$("$$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')" \
		ARCHITECTURE="$(subst aarch64,arm64,$(shell uname -m))" SAM_ARGS="--build-dir build/lambda-functions" >/dev/null
	@$(BIN)/python -m benchmarks.functions $(ARGS)

.PHONY: bench-install
bench-install: install wheels ## Measure the installation of lakesweep[cli] from its wheel: size, seconds, first help
	@$(BIN)/python -m benchmarks.install $(ARGS)

.PHONY: bench-start
bench-start: install ## Measure the start of commands: help, and what a small table needs
	@$(BIN)/python -m benchmarks.start $(ARGS)

.PHONY: bench-system
bench-system: install ## Measure the running system: from a commit to its last delete, and the memory of a pass
	@$(BIN)/python -m benchmarks.system $(ARGS)

.PHONY: bench-orphans
bench-orphans: install jars ## Measure the removal of orphan files beside the Java engine, and on a million objects
	@$(BIN)/python -m benchmarks.orphans $(ARGS)

.PHONY: bench-spark
bench-spark: install jars ## Measure the scan for orphan files on Spark beside that of one process
	@$(BIN)/python -m benchmarks.spark $(ARGS)

.PHONY: bench-read
bench-read: install jars ## Measure reading a version on Spark beside Spark's own reader and the Java engine
	@$(BIN)/python -m benchmarks.read $(ARGS)

.PHONY: bench-delete-rows
bench-delete-rows: install jars ## Measure deleting rows on Spark beside the Java engine
	@$(BIN)/python -m benchmarks.delete_rows $(ARGS)

.PHONY: bench-compact
bench-compact: install jars ## Measure compacting data files on Spark beside the Java engine
	@$(BIN)/python -m benchmarks.compact $(ARGS)

.PHONY: bench-merge
bench-merge: install jars ## Measure compacting tables with a primary key beside the Java engine (about 20 minutes)
	@$(BIN)/python -m benchmarks.merge $(ARGS)

.PHONY: bench-fan-out
bench-fan-out: install ## Measure the scan for orphan files by functions, beside that of one process (needs versitygw)
	@$(BIN)/python -m benchmarks.fan_out $(ARGS)

.PHONY: bench-tags
bench-tags: install ## Measure the deletion of a hundred tags that alone hold 100 000 files
	@$(BIN)/python -m benchmarks.tags $(ARGS)

.PHONY: bench-partitions
bench-partitions: install jars ## Measure expiring and dropping partitions beside the Java engine (needs versitygw)
	@$(BIN)/python -m benchmarks.partitions $(ARGS)

.PHONY: bench-manifests
bench-manifests: install jars ## Measure compacting manifests beside the Java engine (needs versitygw)
	@$(BIN)/python -m benchmarks.manifests $(ARGS)

.PHONY: clean
clean: ## Remove everything that these commands made
	rm -rf .venv build dist .aws-sam .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find shared tests -name __pycache__ -type d -prune -exec rm -rf {} +
