# gpu-acceptance.mk - what tools/gpu-acceptance needs beside moire: the plugin that faults on demand, and its judge.
$(B)/libmoire-fault.so: $(B)/obj/tools/gpu/isolation/fault_plugin.o $(CUDA_BASE)
	$(CC) -shared -Wl,-soname,$(@F) $(LDFLAGS) -o $@ $^ '-Wl,-rpath,$$ORIGIN' -ldl -lpthread -lm
$(B)/gpu-isolation: $(B)/obj/tools/gpu/isolation/isolation.o $(filter-out $(MAIN_OBJ),$(TOOL_OBJ)) $(GEN_OBJ) $(LIB_OBJ)
	$(CC) $(LDFLAGS) '-Wl,-rpath,$$ORIGIN:$$ORIGIN/../lib' -o $@ $^ $(LDLIBS)

# what the plugin assumes of driver and libraries, asked one by one
CONTACT_OBJ := $(patsubst %.c,$(B)/obj/%.o,$(wildcard tools/gpu/contact/*.c))
$(B)/gpu-contact: $(CONTACT_OBJ) $(CUDA_OBJ) $(CUDA_BASE) $(CUDA_CORE)
	$(CC) $(LDFLAGS) -o $@ $^ -ljansson -ldl -lpthread -lm
$(B)/bundle/gpu-contact: $(CONTACT_OBJ) $(CUDA_OBJ) $(CUDA_BASE) $(CUDA_CORE)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -Wl,-Bstatic -ljansson -Wl,-Bdynamic -ldl -lpthread -lm

.PHONY: gpu-acceptance
gpu-acceptance: all $(B)/libmoire-fault.so $(B)/gpu-isolation $(B)/gpu-contact ## what tools/gpu-acceptance runs

# the script itself, all steps on the fake driver with networks of a few kilobytes
$(B)/tests/small-zoo: $(B)/obj/tests/cuda/small_zoo.o $(filter-out $(MAIN_OBJ),$(TOOL_OBJ)) $(GEN_OBJ) $(LIB_OBJ)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

.PHONY: check-gpu-acceptance
check-gpu-acceptance: gpu-acceptance $(FAKE_OBJS) $(B)/tests/small-zoo ## tools/gpu-acceptance on the fake driver
	tests/cuda/check-applications $(B)
	tests/cuda/check-acceptance $(B)

.PHONY: check-gpu-applications
check-gpu-applications: all $(B)/moire-gpu-child $(FAKE_OBJS) $(B)/tests/small-zoo ## applications live on the fake driver
	tests/cuda/check-applications $(B)
