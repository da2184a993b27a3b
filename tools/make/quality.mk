# quality.mk - format, lint, sanitizers, fuzzers, documentation.
C_FILES = $(shell git ls-files '*.c' '*.h')
CLANG   ?= clang

.PHONY: format lint asan tsan fuzz fuzzers docs
format: ## clang-format every C file
	clang-format -i $(C_FILES)

lint: $(B)/gen/onnx.pb-c.h ## formatting, clang-tidy, size and word rules
	@clang-format --dry-run --Werror $(C_FILES)
	@tools/lint-rules
	@tools/run-tidy $(CPPFLAGS) $(TIDY_FLAGS) -std=c11

asan: ## unit tests and conformance under AddressSanitizer and UndefinedBehaviourSanitizer
	ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	$(MAKE) --no-print-directory B=build-asan CC="$(CLANG)" O=-O1 \
	    SAN="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer" unit conformance

tsan: ## unit tests under ThreadSanitizer
	$(MAKE) --no-print-directory B=build-tsan CC="$(CLANG)" O=-O1 SAN="-fsanitize=thread" unit

FUZZ_SECONDS ?= 60
FUZZERS = $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
fuzz: ## run every fuzzer for FUZZ_SECONDS from its seed corpus
	@$(MAKE) --no-print-directory B=build-fuzz CC="$(CLANG)" O=-O1 \
	    SAN="-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined" fuzzers
	@tools/run-fuzzers build-fuzz/fuzz $(FUZZ_SECONDS) $(FUZZERS)

fuzzers: $(FUZZERS:%=$(B)/fuzz/%)
$(B)/fuzz/%: $(B)/obj/tests/fuzz/%.o $(B)/obj/tests/fuzz/memory_file.o $(filter-out $(MAIN_OBJ),$(TOOL_OBJ)) $(GEN_OBJ) $(LIB_OBJ)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LDLIBS)

docs: ## API and developer documentation into build/docs
	doxygen docs/Doxyfile
	@echo "docs: build/docs/html/index.html"

.PHONY: check demo
check: ## install what is missing and pass every test
	@tools/check

demo: ## install, build, compile real models, serve a mixed load, write the report
	@tools/demo
