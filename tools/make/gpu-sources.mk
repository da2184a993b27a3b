# gpu-sources.mk - generated kernels through the real NVRTC, which needs no GPU; part of `make cuda`.
SOURCE_MODELS := lenet squeezenet1.0 mobilenet-v2 efficientnet-b0 googlenet ssd-mobilenet
$(B)/check-sources: $(B)/obj/tools/cuda/check_sources.o $(B)/obj/runtime/device/cuda/rtc.o \
    $(B)/obj/runtime/device/cuda/symbols.o $(GEN_OBJ) $(LIB_OBJ)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

.PHONY: cuda-sources
cuda: cuda-sources
cuda-sources: $(B)/check-sources $(B)/moire
	@mkdir -p $(B)/cuda-models
	@for m in $(SOURCE_MODELS); do f=$(B)/cuda-models/$$m.onnx; \
	    [ -f $$f ] || $(B)/moire zoo build $$m -o $$f >/dev/null || exit 1; done
	$(B)/check-sources $(CUDA)/lib64 1 $(SOURCE_MODELS:%=$(B)/cuda-models/%.onnx)
