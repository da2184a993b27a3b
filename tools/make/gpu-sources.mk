# gpu-sources.mk - generated kernels through the real NVRTC, which needs no GPU; part of `make cuda`.
SOURCE_MODELS := lenet squeezenet1.0 mobilenet-v2 efficientnet-b0 googlenet ssd-mobilenet \
    $(addprefix case:,resampled chosen recurrent einsums sampled losses signals)
$(B)/check-sources: $(B)/obj/tools/cuda/check_sources.o $(B)/obj/runtime/gpu/cuda/rtc.o \
    $(addprefix $(B)/obj/runtime/gpu/cuda/,cache.o symbols.o) $(B)/obj/tests/cuda/gpu_cases.o $(B)/obj/tests/cuda/gpu_other_cases.o \
    $(B)/obj/tests/unit/codegen/onnx_build.o $(filter-out $(MAIN_OBJ),$(TOOL_OBJ)) $(GEN_OBJ) $(LIB_OBJ)
	$(CC) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

.PHONY: cuda-sources
cuda: cuda-sources
cuda-sources: $(B)/check-sources
	$(B)/check-sources $(CUDA)/lib64 $(B)/cuda-models 1 $(SOURCE_MODELS)
