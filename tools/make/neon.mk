# neon.mk - the aarch64 form: kernels that this machine emits at the NEON level, and the library's own for that
# processor, cross-compiled and run under qemu.
CROSS        ?= aarch64-linux-gnu
NEON         := $(B)-neon
NEON_TESTS   := test_emitted test_emitted_small test_conv test_simd test_activate test_matrix_units
CROSS_CASES  := $(addprefix $(B)/obj/tests/,cross/cases.o unit/kernels/conv_case.o unit/kernels/gemm_case.o \
                unit/generator/small_case.o)

.PHONY: neon
neon: $(B)/cross-emit ## kernels for aarch64 NEON, cross-compiled and run under qemu-aarch64
	@rm -rf $(NEON)/kernels && mkdir -p $(NEON)/kernels
	@$(B)/cross-emit $(NEON)/kernels
	@ls $(NEON)/kernels/k[0-9]*.c | xargs -P $(TEST_JOBS) -n 4 sh -c 'for f; do $(CROSS)-gcc -std=c11 -O2 \
	    -ffp-contract=fast -Wall -Wextra -Werror -c $$f -o $${f%.c}.o || exit 255; done' sh
	@$(MAKE) --no-print-directory B=$(NEON) CC=$(CROSS)-gcc LINKS_FOR=$(CROSS) $(NEON_TESTS:%=$(NEON)/cross/%)
	@TEST_TIMEOUT=1500 TEST_RUNNER=qemu-aarch64 TEST_JOBS=$(TEST_JOBS) tools/run-tests $(NEON_TESTS:%=$(NEON)/cross/%)

tests: $(if $(LINKS_FOR),,$(B)/cross-emit)
$(B)/cross-emit: $(B)/obj/tests/cross/emit.o $(CROSS_CASES) $(GEN_OBJ) $(filter-out $(MAIN_OBJ),$(TOOL_OBJ)) $(LIB_OBJ)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# What runs there needs no library but libc: plans and kernels, without a variant store.
ifneq ($(LINKS_FOR),)
CROSS_SRC := $(wildcard runtime/base/*.c runtime/graph/*.c runtime/ops/*.c runtime/ops/*/*.c runtime/plan/*.c codegen/passes/*.c) \
             $(filter-out variants/store%,$(wildcard variants/*.c)) $(wildcard variants/generic/*.c variants/matrix/*.c)
CROSS_OBJ := $(CROSS_SRC:%.c=$(B)/obj/%.o) $(foreach i,$(ISAS),$(SIMD_SRC:%.c=$(B)/obj/$(i)/%.o) $(B)/obj/tiles_$(i).o) \
             $(addprefix $(B)/obj/codegen/search/,harness.o oracle.o small_layer.o) \
             $(addprefix $(B)/obj/tests/,cross/cmocka.o cross/no_store.o unit/kernels/layer_case.o)
$(B)/obj/tests/%.o: CPPFLAGS += -Itests/cross
$(B)/libcross.a: $(CROSS_OBJ) $(CROSS_CASES)
	@rm -f $@
	$(CROSS)-ar rcs $@ $^
$(B)/cross/test_emitted $(B)/cross/test_emitted_small: $(B)/cross/test_%: $(B)/obj/tests/cross/test_%.o $(B)/libcross.a
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -static -Wl,--no-warnings -o $@ $(B)/kernels/kernels.c $(wildcard $(B)/kernels/k[0-9]*.o) $^ -lm
$(B)/cross/%: $(B)/obj/tests/unit/kernels/%.o $(B)/libcross.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -static -Wl,--no-warnings -o $@ $^ -lm
endif
