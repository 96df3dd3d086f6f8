# The short front. Every target first runs the set-up, which is quick when nothing is missing.
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 600
comma := ,
PRESETS := release dev no-mpi asan tsan
BUILDS := $(PRESETS:%=build-%)
CHECKS := $(PRESETS:%=check-%)
FUZZERS := fuzz-pattern fuzz-interval

# What `make test` runs under the sanitizers; `make test-full` runs everything there.
TESTS_asan := -L 'unit|conformance|property'
TESTS_tsan := -L tsan

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup build test test-full demo bench bench-full bench-interval conformance mutants fuzz fuzz-coverage format clean
.PHONY: $(BUILDS) $(CHECKS) $(FUZZERS)

help:
	@echo 'make demo       real programs do their file I/O through Stridio, beside stock MPI-IO'
	@echo 'make build      build/release: the libraries in lib/, the stridio command in bin/'
	@echo 'make test       all tests in the release build, then those of the sanitizers'
	@echo 'make test-full  all tests in every build, the planted bugs, and what the fuzzer reaches'
	@echo 'make bench      measure Stridio against stock MPI-IO and its targets: 10 minutes'
	@echo 'make bench-full the same for all workloads and methods: 2 hours, goes on where it ended'
	@echo 'make bench-interval  measure interval files against stock MPI-IO, HDF5, PnetCDF and flat files, and atomic mode: 12 minutes'
	@echo 'make conformance  test suites of mpi4py, PnetCDF and HDF5 on stock MPI-IO and on Stridio: an hour'
	@echo 'make mutants    plant bugs and see that the tests catch them'
	@echo 'make fuzz       each fuzzer for FUZZ_SECONDS (600), and how much of the decoder they reach'
	@echo 'make format     clang-format on all sources'
	@echo 'make clean      remove build/ (the environments in .venv/ stay)'
	@echo 'make setup      install what all these need, and nothing else'
	@echo 'One preset (one of $(PRESETS)): make build-NAME, make check-NAME'

setup:
	@scripts/setup.sh

# What users get, without the tests.
build: setup
	cmake --preset release --log-level=WARNING
	cmake --build --preset release -j$(JOBS) --target product

$(BUILDS): build-%: setup
	cmake --preset $* --log-level=WARNING
	cmake --build --preset $* -j$(JOBS)

$(CHECKS): check-%: build-%
	XDG_CACHE_HOME=$(CURDIR)/build/$*/cache ctest --test-dir build/$* --output-on-failure --no-tests=error --timeout 900 -j$(JOBS) $(TESTS_$*)

test: check-release check-asan check-tsan

test-full: TESTS_asan :=
test-full: TESTS_tsan :=
test-full: export STRIDIO_KILLS = 100
test-full: check-release mutants fuzz-coverage check-no-mpi check-asan check-tsan

demo: build
	scripts/demo.sh

# Arguments for the driver: make bench BENCH='--mpis mpich', make bench-full BENCH=--restart.
bench bench-full: build
	cmake --build --preset release -j$(JOBS) --target slowfs
	/usr/bin/python3 bench/run.py $(if $(filter %-full,$@),--full) $(BENCH)
	/usr/bin/python3 bench/figures.py
	$(if $(filter %-full,$@),/usr/bin/python3 bench/interval.py --ranks 9$(comma)16 --json build/bench/interval-full.json)

bench-interval: build
	cmake --build --preset release -j$(JOBS) --target slowfs
	/usr/bin/python3 bench/interval.py $(BENCH)
	/usr/bin/python3 bench/atomic.py

# Arguments for the driver: make conformance CONFORMANCE='--suites hdf5'.
conformance: build
	/usr/bin/python3 tests/suites/run.py $(CONFORMANCE)

mutants: build
	scripts/mutants.sh

fuzz: $(FUZZERS) fuzz-coverage

# What makes one crash lies in build/ then.
$(FUZZERS): fuzz-%: setup
	cmake --preset release --log-level=WARNING
	cmake --build --preset release -j$(JOBS) --target fuzz_$*
	build/release/bin/$*_fuzz -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -len_control=0 -rss_limit_mb=1024 -timeout=5 \
	  -print_final_stats=1 -artifact_prefix=build/$*-

fuzz-coverage: setup
	cmake --preset release --log-level=WARNING
	cmake --build --preset release -j$(JOBS) --target fuzz_coverage
	fuzz/coverage.sh 90

format: setup
	git ls-files -co --exclude-standard '*.h' '*.hpp' '*.c' '*.cc' '*.cpp' | xargs -r clang-format -i

clean: setup
	rm -rf build
