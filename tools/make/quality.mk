# quality.mk - format, lint, sanitizers, fuzzers, documentation.
C_FILES = $(shell git ls-files '*.c' '*.h' '*.cpp' '*.hpp')
CLANG   ?= clang

.PHONY: format lint lint-deep asan tsan fuzz fuzzers docs
format: ## clang-format every C and C++ file
	clang-format -i $(C_FILES)

lint: $(B)/gen/onnx.pb-c.h ## formatting, clang-tidy, size and word rules
	@clang-format --dry-run --Werror $(C_FILES)
	@tools/lint-rules
	@tools/run-tidy $(CPPFLAGS) $(TIDY_FLAGS) -std=c11

lint-deep: ## lint with the static analyzer's full depth (some 10 minutes)
	@TIDY_NODES=225000 $(MAKE) --no-print-directory lint

# For each save: what has changed since the last commit is linted, and all tests run but the slowest, which `unit` runs.
QUICK_LEAVES := $(addprefix $(B)/tests/test_,child compile compiled compiled_model conv cuda_exec cuda_faults cuda_cache \
    cuda_lets cuda_programs emit front gpu_child gpu_child_cuda gpu_lower gpu_lower_recurrent profile serve_gpu simulate)
CHANGED       = $(shell git diff --name-only --diff-filter=d HEAD -- '*.c' '*.h'; git ls-files -o --exclude-standard -- '*.c' '*.h')
.PHONY: quick
quick: all $(filter-out $(QUICK_LEAVES),$(TESTS)) ## what one change needs, in less than a minute: build, lint of the change, fast tests
	@$(if $(CHANGED),clang-format --dry-run --Werror $(CHANGED))
	@tools/lint-rules
	@$(if $(filter %.c,$(CHANGED)),FILES="$(filter %.c,$(CHANGED))" tools/run-tidy $(CPPFLAGS) $(TIDY_FLAGS) -std=c11)
	@TEST_JOBS=$(TEST_JOBS) tools/run-tests $(filter-out $(QUICK_LEAVES),$(TESTS))

# What sanitizers print needs functions and lines only; that compiles and links faster.  So does lld.
SAN_DEBUG := DEBUG=-gline-tables-only LINKER=-fuse-ld=lld
# The leak checker of clang 14 takes the thread-local storage of a library that was opened late (PAPI) for its own
# header where that lies 16 bytes into a page, and dies of it: it is not to look there.
asan: ## the whole build by clang; unit tests and conformance under AddressSanitizer and UndefinedBehaviourSanitizer
	ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:intercept_tls_get_addr=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	$(MAKE) --no-print-directory B=build-asan CC="$(CLANG)" O=-O1 $(SAN_DEBUG) \
	    SAN="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer" all conformance unit

# Tests that take seconds and start no thread: ThreadSanitizer has nothing to see there.
NO_THREADS := bound bounds conv emit gpu_lower gpu_lower_recurrent gpulet_cut gpulet_late lets moire_prices planner_random \
    sched simulate strassen tables targets winograd_emit
tsan: ## unit tests under ThreadSanitizer
	$(MAKE) --no-print-directory B=build-tsan CC="$(CLANG)" O=-O1 $(SAN_DEBUG) SAN="-fsanitize=thread" \
	    LEFT_OUT="$(NO_THREADS)" unit

FUZZ_SECONDS ?= 60
FUZZERS = $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_BED := $(patsubst %.c,$(B)/obj/%.o,$(filter-out tests/fuzz/fuzz_%,$(wildcard tests/fuzz/*.c)))
fuzz: ## run every fuzzer for FUZZ_SECONDS from its seed corpus
	@$(MAKE) --no-print-directory B=build-fuzz CC="$(CLANG)" O=-O1 $(SAN_DEBUG) \
	    SAN="-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined" fuzzers
	@FUZZ_JOBS=$(TEST_JOBS) tools/run-fuzzers build-fuzz/fuzz $(FUZZ_SECONDS) $(FUZZERS)

fuzzers: $(FUZZERS:%=$(B)/fuzz/%)
$(FUZZ_BED): | $(B)/gen/onnx.pb-c.h $(B)/gen/inference.pb-c.h $(B)/gen/health.pb-c.h
$(B)/libfuzzbed.a: $(FUZZ_BED)
	@rm -f $@
	@$(AR) rcsT $@ $^
$(B)/fuzz/%: $(B)/obj/tests/fuzz/%.o $(B)/libfuzzbed.a $(B)/liball.a
	@mkdir -p $(@D)
	$(LINK_TEST) -fsanitize=fuzzer $(LDLIBS)

docs: ## API and developer documentation into build/docs
	doxygen docs/Doxyfile
	@echo "docs: build/docs/html/index.html"

.PHONY: check demo
check: ## install what is missing and pass every test
	@tools/check

demo: ## install, build, compile real models, serve a mixed load, write the report
	@tools/demo
