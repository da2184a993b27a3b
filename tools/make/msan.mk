# msan.mk - MemorySanitizer: nothing is read that nobody has written, arenas and scratch of earlier queries included.
#
# Only this project's code is instrumented.  The libraries (protobuf-c, hwloc, jansson, cmocka) are not, so what
# malloc() hands out counts as written (poison_in_malloc=0, poison_in_free=0); this library takes zeroed memory from
# calloc() anyway.  What queries use again counts as never written where tests run plans (tests/unit/codegen/used_memory.h).
# Kernels that tests compile are not instrumented, and hwloc reports faults of its own, so tests that need these are
# left out.
MSAN_TESTS   ?= random_graphs ops simd fused quantized small_layers recurrent plan passes batch half arenas graph
MSAN_OPTIONS := poison_in_malloc=0:poison_in_free=0:halt_on_error=1

.PHONY: msan msan-run
msan: ## conformance cases, operands left out, random graphs and kernels under MemorySanitizer
	@$(MAKE) --no-print-directory B=build-msan CC="$(CLANG)" O=-O1 $(SAN_DEBUG) MSAN_LIBC=build-msan/obj/tests/msan/libc.o \
	    SAN="-fsanitize=memory -fno-omit-frame-pointer" msan-run

ifneq ($(MSAN_LIBC),)
LDLIBS += $(MSAN_LIBC) $(addprefix -Wl$(comma)--wrap=,fstat64 stat64 lstat64 fstatat64 \
    protobuf_c_message_pack_to_buffer)
endif

MSAN_BIN := $(B)/conformance $(B)/omit $(B)/tests/test_used_memory $(MSAN_TESTS:%=$(B)/tests/test_%)
ifneq ($(MSAN_LIBC),)
$(MSAN_BIN): | $(MSAN_LIBC)
endif
msan-run: $(MSAN_BIN)
	@if MSAN_OPTIONS=$(MSAN_OPTIONS) $(B)/tests/test_used_memory read >$(B)/planted.log 2>&1; then \
	    echo "msan: a planted read of memory that nobody wrote was not found" >&2; exit 1; fi
	@grep -q 'use-of-uninitialized-value' $(B)/planted.log
	@MSAN_OPTIONS=$(MSAN_OPTIONS) $(B)/tests/test_used_memory networks
	@MSAN_OPTIONS=$(MSAN_OPTIONS) $(B)/omit tests/conformance/operands.txt $(ONNX_DATA)
	@MSAN_OPTIONS=$(MSAN_OPTIONS) $(B)/conformance --baseline tests/conformance/baseline.txt $(ONNX_DATA)
	@MSAN_OPTIONS=$(MSAN_OPTIONS) TEST_JOBS=$(TEST_JOBS) tools/run-tests $(MSAN_TESTS:%=$(B)/tests/test_%)
