SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo demo-ingest compiled test test-slow test-system fuzz soak sequences lint up down cluster-up cluster-down cluster-status shell wheel bench-ingest bench-fits bench-append bench-living bench-crossmatch bench-small bench-margin bench-acid bench-hips bench-tables bench-delta bench-liquid bench-cluster bench-cube bench-sky bench-files bench-gzip bench-store bench-scale bench-last page pictures docs docs-serve setup peers peers-older peers-cube lock clean

with := source include/setup/environment.sh;

help: ## Say what the targets do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  Variables: HIPSLAKE_LANDING, HIPSLAKE_WAREHOUSE, AIRFLOW_HOME (folders), HIPSLAKE_PORT, HIPSLAKE_PYTHON, JAVA_HOME"

demo: setup ## Set everything up, run the whole chain on Gaia and Hipparcos under a real scheduler, print what came out
	@include/setup/setup.sh database
	@$(with) python -m hipslake_demo.demo

demo-ingest: setup ## The quick one: the ingests alone, by `airflow dags test`
	@include/setup/setup.sh database
	@$(with) python -m hipslake_demo.ingest

compiled: setup ## Collect all tests once: the workers of `make test` find what they import compiled
	@$(with) python -m pytest --collect-only --quiet >/dev/null

test: setup peers peers-older ## Run the tests (ARGS="-k name" narrows them)
	@include/setup/setup.sh nginx postgres stilts chromium
	@$(with) include/setup/in_memory.sh python -m pytest -m "not slow and not cluster" -n "$${HIPSLAKE_TEST_WORKERS:-$$(($$(getconf _NPROCESSORS_ONLN) + 3))}" --dist loadfile --no-loadscope-reorder $(ARGS)

test-slow: setup peers peers-older ## Run the long tests, which `make test` leaves out, and all examples of properties
	@include/setup/setup.sh nginx postgres stilts chromium
	@$(with) HIPSLAKE_TEST_EXAMPLES=all include/setup/in_memory.sh python -m pytest -m "(slow or properties) and not cluster" $(ARGS)

test-system: setup ## Run the tests on the whole deployment: kills and a failing store (about an hour; ARGS="-k name" narrows them)
	@include/setup/setup.sh postgres fab
	@$(with) python -m pytest -m cluster $(ARGS)
	@$(with) python -m tests.trust.records docs/reliability.md

fuzz: setup ## Have every reader read 100,000 hostile inputs (ARGS="--target fits --seed 2" for others)
	@$(with) python -m tests.fuzz $(ARGS)
	@$(with) python -m tests.trust.records docs/reliability.md

soak: setup ## Run two hundred nights in one process and look whether anything grows (some minutes)
	@$(with) python -m tests.soak $(ARGS)
	@$(with) python -m tests.trust.records docs/reliability.md

sequences: setup peers ## Run 500 random sequences of 20 commits in mode upsert against a dict (ARGS="--sequences 50" for fewer)
	@$(with) include/setup/in_memory.sh python -m tests.sequences $(ARGS)
	@$(with) python -m tests.trust.records docs/reliability.md

lint: setup ## Check style, format and types
	@$(with) hadolint Dockerfile
	@$(with) ruff check .
	@$(with) ruff format --check .
	@$(with) mypy

up: setup ## Start Airflow with its UI on 127.0.0.1:8080 (HIPSLAKE_PORT moves it), and its database
	@include/setup/setup.sh database
	@$(with) python include/setup/standalone.py up

down: ## Stop Airflow and its database
	@if [[ -x .venv/bin/python ]]; then $(with) python include/setup/standalone.py down; else echo "hipslake: Airflow is not running (there is no .venv yet)"; fi

# Without environment.sh: what the services are told stands in docker-compose.yml.
cluster-up: setup ## Start the deployment of docker-compose.yml as plain processes: PostgreSQL, S3, Spark, Airflow
	@include/setup/setup.sh postgres
	@.venv/bin/python -m hipslake_cluster up

cluster-down: ## Stop the deployment that cluster-up started
	@if [[ -x .venv/bin/python ]]; then .venv/bin/python -m hipslake_cluster down; else echo "hipslake: there is no cluster (there is no .venv yet)"; fi

cluster-status: setup ## Say what became of each service of the deployment
	@.venv/bin/python -m hipslake_cluster status

shell: setup ## Open a shell where airflow, python and spark-submit are this project's
	@include/setup/setup.sh database
	@include/setup/shell.sh

wheel: setup ## Build the package for an Airflow that is already there: dist/hipslake-*.whl
	@include/setup/wheel.sh dist

bench-ingest: setup peers ## Compare the ingest with its peers (ARGS="--quick" takes 2M rows only)
	@$(with) python -m benchmarks.ingest $(ARGS)

bench-fits: setup peers ## Compare ways to read FITS, and weigh the ingest of a 2 GB file
	@$(with) python -m benchmarks.fits_reading
	@$(with) python -m benchmarks.fits_ingest

bench-append: setup ## Measure what a night costs in a catalog, and in one ten times as large
	@$(with) python -m benchmarks.append

bench-living: setup ## Measure a night of changed rows, and the match, index and light curves that follow (ARGS="--sizes 1 10 40" for 40M rows)
	@$(with) python -m benchmarks.living $(ARGS)

bench-crossmatch: setup peers ## Compare the cross-match with LSDB and a scipy program (ARGS="--rows 2M" for a short one)
	@$(with) python -m benchmarks.crossmatch $(ARGS)

bench-small: setup peers ## Match 20M rows with 1,000 to 100,000, beside LSDB, and count the pairs of crowds (ARGS="--rows 200M" takes more, and 12 GB of disk)
	@$(with) python -m benchmarks.small_sides $(ARGS)

bench-margin: setup peers ## Compare a margin of 5M rows with hats-import's (ARGS="--rows 1M" takes fewer)
	@$(with) python -m benchmarks.margin $(ARGS)

bench-acid: setup peers ## Compare ingest, margin and cross-match with ACID, 20M x 5M (ARGS="--quick" takes 2M x 500k)
	@$(with) python -m benchmarks.acid $(ARGS)

bench-hips: setup ## Measure the HiPS of a catalog of 5M rows (ARGS="--rows 1M" takes fewer)
	@$(with) python -m benchmarks.hips $(ARGS)

bench-tables: setup peers ## Compare sinks, clustering and upserts of tables with their peers (ARGS="--quick" takes 2M rows)
	@$(with) python -m benchmarks.tables $(ARGS)

bench-delta: setup peers ## Compare clustering and upserts of Delta tables with delta-rs (ARGS="--quick" takes 2M rows)
	@$(with) python -m benchmarks.delta $(ARGS)

bench-liquid: setup ## Feed 50 nights to a table that is kept clustered, beside full clusterings (ARGS="--rows 80M" takes more rows)
	@$(with) python -m benchmarks.liquid $(ARGS)

bench-cluster: setup ## Hold a Spark cluster on loopback against local cores: a step, an ingest, a cross-match (ARGS="--rows 2M" for a short one)
	@$(with) python -m benchmarks.cluster $(ARGS)

bench-cube: setup ## Compare cubes with kartothek, if `make peers-cube` ran, and plan a million files (ARGS="--quick" takes 2M cells)
	@$(with) python -m benchmarks.cube $(ARGS)
	@$(with) python -m benchmarks.cube_planning

bench-sky: setup ## Measure the catalogs page in a browser, and its endpoints on 4 million partitions
	@include/setup/setup.sh chromium
	@$(with) python -m benchmarks.sky $(ARGS)

bench-files: setup ## Ingest up to 176,561 small files, and weigh it by their number (ARGS="--files 1000" takes fewer)
	@$(with) python -m benchmarks.many_files $(ARGS)

bench-gzip: setup ## Ingest a .csv.gz of 2 GB on one core and on two (ARGS="--gigabytes 0.3" for a smaller one)
	@$(with) python -m benchmarks.big_gzip $(ARGS)

bench-store: setup peers ## Measure an S3 store with latency behind a proxy (ARGS="--rows 1M --latencies 0 30" for a short one)
	@$(with) python -m benchmarks.store $(ARGS)

bench-scale: setup ## Ingest a billion rows, or as many as the disk holds, and use them (ARGS="--rows 20M 100M" takes fewer)
	@$(with) python -m benchmarks.scale $(ARGS)

bench-last: setup ## Tell every second from a trigger to its asset event, and what DAG files of 1,000 specs cost (ARGS="--runs 1 --specs 20" for a short one)
	@$(with) python -m benchmarks.last_seconds $(ARGS)

page: ## Bundle the catalogs page anew from its sources (needs node and npm; nobody else does)
	@cd plugins/hipslake_airflow/web/frontend && npm ci --ignore-scripts --no-audit --no-fund && npm run check && npm run build

pictures: setup ## Draw the pictures of the documentation anew, from specs and catalogs of the demo
	@$(with) python -m hipslake_docs

docs: setup ## Build the documentation site in .site; a warning is a failure
	@include/setup/setup.sh docs
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet

docs-serve: setup ## Show the documentation site on 127.0.0.1:8000 while pages are written
	@include/setup/setup.sh docs
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs serve

setup: ## Make .venv from requirements.txt, if it is not there yet
	@include/setup/setup.sh project

peers: setup ## Make .venv-peers (LSDB, hats, hats-import, ACID, DuckDB, polars, delta-rs), which tests and benchmarks compare with
	@include/setup/setup.sh peers

peers-older: setup ## Make .venv-peers-older (LSDB and hats of the versions before), which tests read catalogs with too
	@include/setup/setup.sh peers_older

peers-cube: ## Make .venv-peers-cube (kartothek, of Python 3.8), which the cube benchmark compares with
	@include/setup/setup.sh peers_cube

lock: setup ## Compile requirements.txt and those of the peers and the documentation anew
	@$(with) include/setup/lock.sh

clean: down cluster-down ## Remove the environments and the default folders: .data and .airflow
	@rm -rf .venv .venv-peers .venv-peers-older .venv-peers-cube .venv-docs .site .nginx .stilts .postgres .fab .cluster .image .image.lock dist .data .airflow .setup.lock .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse
