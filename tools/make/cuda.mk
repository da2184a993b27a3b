# cuda.mk - the CUDA plugin, and the fakes that stand in for the driver and its libraries in tests.
#
# The plugin links no CUDA library and includes no CUDA header; `make cuda` also compares its
# declarations with the toolkit's headers.  A fake is one folder tests/fake/cuda/<name>/ and the name it is loaded by.
CUDA      ?= /usr/local/cuda
CUDA_SRC  := $(wildcard runtime/gpu/cuda/*.c)
CUDA_OBJ  := $(CUDA_SRC:%.c=$(B)/obj/%.o)
CUDA_BASE := $(patsubst %.c,$(B)/obj/%.o,$(wildcard runtime/base/*.c)) $(addprefix $(B)/obj/runtime/gpu/,precision.o program_pack.o)

FAKE_driver := libcuda.so.1
FAKE_nvml   := libnvidia-ml.so.1
FAKE_nvrtc  := libnvrtc.so.13
FAKE_dnn    := libcudnn.so.9
FAKE_blas   := libcublasLt.so.13
FAKES       := driver nvml nvrtc dnn blas
FAKE_OBJS   := $(foreach f,$(FAKES),$(B)/tests/fake/$(FAKE_$(f)))

all: $(B)/libmoire-cuda.so
conformance-gpu: $(FAKE_OBJS)
# layers that cores compute, by the operators' references
CUDA_CORE := $(patsubst %.c,$(B)/obj/%.o,runtime/gpu/core_layer.c $(wildcard runtime/ops/*.c runtime/ops/*/*.c runtime/graph/*.c))
$(B)/libmoire-cuda.so: $(CUDA_OBJ) $(CUDA_BASE) $(CUDA_CORE)
	$(CC) -shared $(if $(SAN),,-Wl,-z,defs) -Wl,-soname,libmoire-cuda.so $(LDFLAGS) -o $@ $^ -ldl -lpthread -lm

define fake_rule
$(B)/tests/fake/$(FAKE_$(1)): $(patsubst %.c,$(B)/obj/%.o,$(wildcard tests/fake/cuda/$(1)/*.c))
	@mkdir -p $$(@D)
	$$(CC) -shared -Wl,-soname,$$(@F) -Wl,-z,nodelete $$(LDFLAGS) -o $$@ $$^ '-Wl,-rpath,$$$$ORIGIN' -ldl -lpthread -lm
endef
$(foreach f,$(FAKES),$(eval $(call fake_rule,$(f))))

# these work in the driver's streams
$(B)/tests/fake/$(FAKE_dnn) $(B)/tests/fake/$(FAKE_blas): $(B)/tests/fake/$(FAKE_driver)

$(B)/obj/tests/fake/cuda/nvrtc/%.o: CPPFLAGS += -DMO_FAKE_INCLUDE='"$(CURDIR)/tests/fake/cuda/nvrtc"'
TIDY_FLAGS += '-DMO_FAKE_INCLUDE=""'

GPU_CASES := $(B)/obj/tests/cuda/gpu_cases.o $(B)/obj/tests/cuda/gpu_other_cases.o

# lowering is tested with the generated kernels alone, without a driver
$(filter $(B)/tests/test_gpu_lower%,$(TESTS)): $(B)/obj/tests/cuda/gpu_host.o $(B)/obj/tests/cuda/gpu_check.o \
    $(GPU_CASES) $(addprefix $(B)/obj/runtime/gpu/cuda/,rtc.o cache.o symbols.o) | $(B)/tests/fake/$(FAKE_nvrtc)

# tests of the plugin see its inside, and find the fakes beside themselves
CUDA_TESTS := $(filter $(B)/tests/test_cuda_%,$(TESTS))
$(CUDA_TESTS): $(CUDA_OBJ) | $(FAKE_OBJS)
$(B)/tests/test_cuda_libraries: | $(B)/libmoire-cuda.so
CUDA_EXECS := $(addprefix $(B)/tests/test_cuda_,exec cache ways)
$(CUDA_EXECS) $(B)/tests/test_cuda_programs: $(B)/obj/tests/cuda/gpu_host.o $(GPU_CASES)
$(CUDA_EXECS): $(B)/obj/tests/cuda/exec_rig.o

.PHONY: cuda
cuda: $(B)/libmoire-cuda.so $(B)/obj/tools/cuda/check_headers.o ## the CUDA plugin, its declarations checked against the toolkit
cuda: $(B)/obj/tools/cuda/check_libraries.o
$(B)/obj/tools/cuda/check_headers.o $(B)/obj/tools/cuda/check_libraries.o: CPPFLAGS += -isystem $(CUDA)/include
$(B)/obj/tools/cuda/check_libraries.o: CFLAGS += -Wno-deprecated-declarations

# NVML belongs to the driver: its header is not in every toolkit
NVML_H ?= $(firstword $(wildcard $(CUDA)/include/nvml.h /usr/include/nvml.h))
ifneq ($(NVML_H),)
cuda: $(B)/obj/tools/cuda/check_nvml.o
$(B)/obj/tools/cuda/check_nvml.o: CPPFLAGS += -isystem $(dir $(NVML_H))
else
cuda: no-nvml
.PHONY: no-nvml
no-nvml:
	@echo "no nvml.h in $(CUDA): declarations of NVML are not checked (NVML_H=FILE says where it is)"
endif

# what a check can show of it: all where the toolkit is, a line that says so where it is not
.PHONY: check-cuda no-toolkit
check-cuda: $(if $(wildcard $(CUDA)/include/cuda.h),cuda,no-toolkit)
no-toolkit:
	@echo "no CUDA toolkit in $(CUDA): the plugin's declarations and generated kernels are not checked against it (CUDA=FOLDER says where it is)"
