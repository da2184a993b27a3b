# moire - build, test, demo.  `make help` lists the targets.
#
# Sources are found by folder: a new file needs no edit here.
#   library   runtime/*/*.c runtime/gpu/{lower,child}/*.c codegen/{.,import,passes}/*.c variants/{.,generic,matrix}/*.c
#   tiles     emitted micro-kernels, once for every ISA level and every set with a dot product of bytes ($(DOTS))
#   simd      variants/simd/*.c, compiled once for every ISA level (-DMO_ISA_<LEVEL>)
#   tool      codegen/{family,emit,search,compile,tune,quantize}/*.c models/*.c bench/*/*.c serve/*.c serve/*/*.c tools/moire/*.c
#             tools/moire/*/*.c
#   tests     tests/unit/*/test_*.c: one cmocka program each, build/tests/test_*
B        ?= build
CC       ?= gcc
O        ?= -O2
DEBUG    ?= -g
SAN      ?=
VENV     ?= .venv
PREFIX   ?= /usr/local
DESTDIR  ?=
ONNX_PROTO ?= /usr/include/onnx/onnx.proto
VERSION  := $(shell sed -n 's/.*MOIRE_VERSION_STRING "\(.*\)"/\1/p' include/moire.h)
ARCH     := $(shell $(CC) -dumpmachine | cut -d- -f1)

WARN     := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
CPPFLAGS += -I. -Iinclude -I$(B)/gen -D_FILE_OFFSET_BITS=64
CFLAGS   += -std=c11 $(O) $(DEBUG) -fPIC -fvisibility=hidden -fno-math-errno $(WARN) $(SAN)
LDFLAGS  += $(SAN) $(LINKER)
LDLIBS   += -lprotobuf-c -lhwloc -ljansson -ldl -lpthread -lm

LIB_SRC  := $(wildcard runtime/*/*.c runtime/ops/*/*.c runtime/planner/*/*.c runtime/gpu/lower/*.c runtime/gpu/child/*.c codegen/*.c codegen/import/*.c codegen/passes/*.c variants/*.c variants/generic/*.c variants/matrix/*.c)
SIMD_SRC := $(wildcard variants/simd/*.c)
GEN_SRC  := $(wildcard codegen/family/*.c codegen/emit/*.c codegen/search/*.c codegen/compile/*.c codegen/tune/*.c \
             codegen/quantize/*.c)
TOOL_SRC := $(filter-out bench/peers/%,$(wildcard models/*.c bench/*/*.c serve/*.c serve/*/*.c tools/moire/*.c tools/moire/*/*.c))
TEST_SRC := $(wildcard tests/unit/*/test_*.c)
HELP_SRC := $(filter-out $(TEST_SRC),$(wildcard tests/unit/*/*.c))

ISAS     := base
ISA_base :=
ifeq ($(ARCH),x86_64)
ISAS     += avx2 avx512
ISA_base := -march=x86-64-v2
ISA_avx2 := -march=x86-64-v3
ISA_avx512 := -march=x86-64-v4 -mprefer-vector-width=512
DOTS     := avx512vnni avxvnni avx2pairs
ISA_avx512vnni = $(ISA_avx512) -mavx512vnni
ISA_avxvnni = $(ISA_avx2) -mavxvnni
ISA_avx2pairs = $(ISA_avx2)
ISA_bf16 := $(ISA_avx512) -mavx512bf16
ISA_amx  := $(ISA_bf16) -mamx-tile -mamx-int8 -mamx-bf16
endif
ifeq ($(ARCH),aarch64)
ISAS     += neon
ISA_neondot := -march=armv8.2-a+dotprod
endif

LIB_OBJ  := $(LIB_SRC:%.c=$(B)/obj/%.o) $(foreach i,$(ISAS),$(SIMD_SRC:%.c=$(B)/obj/$(i)/%.o)) $(B)/obj/onnx.pb-c.o
GEN_OBJ  := $(GEN_SRC:%.c=$(B)/obj/%.o)
TOOL_OBJ := $(TOOL_SRC:%.c=$(B)/obj/%.o) $(B)/obj/inference.pb-c.o $(B)/obj/health.pb-c.o
MAIN_OBJ := $(B)/obj/tools/moire/main.o
HELP_OBJ := $(HELP_SRC:%.c=$(B)/obj/%.o)
UNIT     := $(foreach t,$(TEST_SRC),$(B)/tests/$(notdir $(t:.c=)))
TESTS    := $(filter-out $(addprefix $(B)/tests/test_,$(LEFT_OUT)),$(UNIT))

.PHONY: all help
all: $(B)/moire $(B)/libmoire.a $(B)/libmoire.so

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## / \t/' | sort | awk -F'\t' '{printf "  make %-12s %s\n",$$1,$$2}'

include $(wildcard tools/make/*.mk)

# --- generated: ONNX messages from Debian's onnx.proto, gRPC's from serve/grpc -------------------------
$(B)/gen/onnx.pb-c.c $(B)/gen/onnx.pb-c.h &: $(ONNX_PROTO)
	@mkdir -p $(B)/gen
	protoc-c --c_out=$(B)/gen -I$(dir $(ONNX_PROTO)) $(notdir $(ONNX_PROTO))
$(B)/gen/%.pb-c.c $(B)/gen/%.pb-c.h: serve/grpc/%.proto
	@mkdir -p $(B)/gen
	protoc-c --c_out=$(B)/gen -Iserve/grpc $(notdir $<)
$(B)/obj/%.pb-c.o: $(B)/gen/%.pb-c.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(filter-out $(WARN),$(CFLAGS)) -c $< -o $@
$(LIB_OBJ) $(GEN_OBJ) $(TOOL_OBJ) $(HELP_OBJ): | $(B)/gen/onnx.pb-c.h
$(TOOL_OBJ): | $(B)/gen/inference.pb-c.h $(B)/gen/health.pb-c.h

# --- objects -------------------------------------------------------------------------------------------
$(B)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

# Comparisons may be computed for lanes that do not need them: without -fno-trapping-math gcc leaves loops with
# exp() in them scalar.
define simd_rule
$(B)/obj/$(1)/%.o: %.c
	@mkdir -p $$(@D)
	$$(CC) $$(CPPFLAGS) $$(CFLAGS) -O3 -fno-trapping-math $$(ISA_$(1)) -DMO_ISA_LEVEL=$(1) -DMO_ISA_IS_$(1)=1 -MMD -MP -c $$< -o $$@
endef
$(foreach i,$(ISAS),$(eval $(call simd_rule,$(i))))
$(B)/obj/variants/matrix/matrix_amx.o: CFLAGS += -O3 -falign-loops=64 $(ISA_amx)
$(B)/obj/variants/matrix/matrix_neon.o: CFLAGS += -O3 $(ISA_neondot)
$(B)/obj/variants/matrix/matrix_gather.o $(B)/obj/variants/matrix/matrix_vectors.o: CFLAGS += -O3 $(ISA_bf16)

# --- products ------------------------------------------------------------------------------------------
$(B)/libmoire.a: $(LIB_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^
$(B)/libmoire.so: $(LIB_OBJ)
	$(CC) -shared -Wl,-soname,libmoire.so.0 $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(B)/moire: $(MAIN_OBJ) $(filter-out $(MAIN_OBJ),$(TOOL_OBJ)) $(GEN_OBJ) $(LIB_OBJ)
	$(CC) $(LDFLAGS) -rdynamic -o $@ $^ $(LDLIBS)

$(foreach t,$(TEST_SRC),$(eval $(B)/tests/$(notdir $(t:.c=)): $(B)/obj/$(t:.c=.o)))
# A test takes from the archives what it uses: 200 programs with all of it would be 4 GB.  They name the objects only.
$(B)/liball.a: $(filter-out $(MAIN_OBJ),$(TOOL_OBJ)) $(GEN_OBJ) $(LIB_OBJ)
$(B)/libhelp.a: $(HELP_OBJ)
$(B)/liball.a $(B)/libhelp.a:
	@rm -f $@
	@$(AR) rcsT $@ $^
LINK_TEST = $(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group
$(UNIT): $(B)/libhelp.a $(B)/liball.a
	@mkdir -p $(@D)
	$(LINK_TEST) -lcmocka $(LDLIBS)

# Tests measure no time, so as many run at once as there are cores.
TEST_JOBS ?= $(shell nproc)
.PHONY: tests unit clean
tests: $(TESTS) ## build all tests of this configuration
unit: $(TESTS) ## build and run the unit tests
	@TEST_JOBS=$(TEST_JOBS) tools/run-tests $(TESTS)

clean: ## remove what was built
	rm -rf $(B) build-*

.PRECIOUS: $(B)/obj/%.o
-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)
