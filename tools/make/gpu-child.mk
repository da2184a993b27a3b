# gpu-child.mk - the process that a GPU plugin runs in, and the plugins that its tests load there.
CHILD_OBJ := $(B)/obj/tools/gpu-child/gpu_child.o $(patsubst %.c,$(B)/obj/%.o,$(wildcard runtime/base/*.c)) \
    $(addprefix $(B)/obj/runtime/gpu/,child/child_serve.o child/child_serve_ask.o program_pack.o plugin.o)
CHILD_FAKES := $(B)/tests/fake/libmoire-toy.so $(B)/tests/fake/libmoire-breaks.so

CHILD_RPATH ?= $$ORIGIN:$$ORIGIN/../lib

all: $(B)/moire-gpu-child
$(B)/moire-gpu-child: $(CHILD_OBJ)
	$(CC) $(LDFLAGS) '-Wl,-rpath,$(CHILD_RPATH)' -o $@ $^ -ldl -lpthread -lm

$(B)/tests/fake/libmoire-toy.so: $(B)/obj/tests/fake/gpu/toy.o $(B)/obj/tests/unit/gpu/toy_gpu.o $(CUDA_BASE)
$(B)/tests/fake/libmoire-breaks.so: $(B)/obj/tests/fake/gpu/breaks.o $(CUDA_BASE)
$(CHILD_FAKES):
	@mkdir -p $(@D)
	$(CC) -shared $(LDFLAGS) -o $@ $^ -ldl -lpthread -lm

CHILD_TESTS := $(filter $(B)/tests/test_gpu_child% $(B)/tests/test_engine_gpu,$(TESTS))
$(CHILD_TESTS): | $(B)/moire-gpu-child $(B)/libmoire-cuda.so $(CHILD_FAKES) $(FAKE_OBJS)
$(B)/tests/test_gpu_child_cuda: $(CUDA_OBJ) $(B)/obj/tests/cuda/gpu_host.o $(GPU_CASES)
$(B)/tests/test_flow: | $(B)/tests/fake/libmoire-toy.so
