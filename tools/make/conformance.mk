# conformance.mk - the ONNX backend tests of Debian's libonnx-testdata, run in C.
ONNX_DATA ?= /usr/share/libonnx-testdata/data
CONF_SRC  := $(wildcard tests/conformance/*.c)
OMIT_SRC  := $(wildcard tests/conformance/omit*.c) tests/unit/codegen/used_memory.c tests/unit/codegen/onnx_build.c
CONF_OBJ  := $(filter-out tests/conformance/omit%,$(CONF_SRC))
CONF_OBJ  := $(CONF_OBJ:%.c=$(B)/obj/%.o) $(B)/obj/tests/unit/codegen/used_memory.o
OMIT_OBJ  := $(OMIT_SRC:%.c=$(B)/obj/%.o)
$(OMIT_OBJ): | $(B)/gen/onnx.pb-c.h
$(CONF_OBJ): | $(B)/gen/onnx.pb-c.h

# the way over a GPU: the plugin on lets of the fake driver, and generated kernels alone; cuda.mk, which is read later,
# says that the fakes come first
CONF_GPU  := $(B)/obj/tests/cuda/gpu_host.o $(B)/obj/tests/cuda/gpu_lets.o $(addprefix $(B)/obj/runtime/gpu/cuda/,rtc.o cache.o symbols.o)

$(B)/conformance: $(CONF_OBJ) $(CONF_GPU) $(filter-out $(MAIN_OBJ),$(TOOL_OBJ)) $(GEN_OBJ) $(B)/libmoire.a
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# every operator with every subset of its operands left out
$(B)/omit: $(OMIT_OBJ) $(filter-out $(MAIN_OBJ),$(TOOL_OBJ)) $(GEN_OBJ) $(B)/libmoire.a
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

.PHONY: conformance
tests: $(B)/conformance $(B)/omit
conformance: $(B)/conformance $(B)/omit ## run the ONNX backend tests (libonnx-testdata)
	@$(B)/omit tests/conformance/operands.txt $(ONNX_DATA)
	@$(B)/conformance --baseline tests/conformance/baseline.txt $(ONNX_DATA)

.PHONY: conformance-gpu
conformance-gpu: $(B)/conformance $(B)/libmoire-cuda.so ## the same cases as programs for a GPU, on a fake one
	@$(B)/conformance --gpu $(B)/tests/fake --baseline tests/conformance/gpu-baseline.txt $(ONNX_DATA)
