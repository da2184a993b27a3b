# msan.mk - MemorySanitizer: nothing is read that nobody has written, arenas and scratch of earlier queries included.
#
# Only this project's code is instrumented.  The libraries (protobuf-c, hwloc, jansson, cmocka) are not, so what
# malloc() hands out counts as written (poison_in_malloc=0, poison_in_free=0); the library itself takes zeroed memory from calloc()
# anyway.  What queries use again counts as never written where tests run plans (used_memory.h).  Kernels that
# tests compile are not instrumented either, which is why those tests are left out.
MSAN_TESTS   ?= canary random_graphs ops kernels simd conv fused recurrent plan passes batch half arenas graph
MSAN_OPTIONS := poison_in_malloc=0:poison_in_free=0:halt_on_error=1

.PHONY: msan msan-run
msan: ## conformance cases, operands left out, random graphs and kernels under MemorySanitizer
	@$(MAKE) --no-print-directory B=build-msan CC="$(CLANG)" O=-O1 MSAN_LIBC=build-msan/obj/tests/msan/libc.o \
	    SAN="-fsanitize=memory -fno-omit-frame-pointer" msan-run

ifneq ($(MSAN_LIBC),)
LDLIBS += $(MSAN_LIBC) $(addprefix -Wl$(comma)--wrap=,fstat64 stat64 lstat64 fstatat64)
endif

MSAN_BIN := $(B)/conformance $(B)/omit $(MSAN_TESTS:%=$(B)/tests/test_%)
ifneq ($(MSAN_LIBC),)
$(MSAN_BIN): | $(MSAN_LIBC)
endif
msan-run: $(MSAN_BIN)
	@MSAN_OPTIONS=$(MSAN_OPTIONS) $(B)/omit tests/conformance/operands.txt $(ONNX_DATA)
	@MSAN_OPTIONS=$(MSAN_OPTIONS) $(B)/conformance --isa base --baseline tests/conformance/baseline.txt $(ONNX_DATA)
	@MSAN_OPTIONS=$(MSAN_OPTIONS) tools/run-tests $(MSAN_TESTS:%=$(B)/tests/test_%)
