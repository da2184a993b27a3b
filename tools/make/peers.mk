# peers.mk - the systems that moire is compared with; they live in $(VENV) and are never a dependency.
OV_ROOT = $(firstword $(wildcard $(VENV)/lib/python3*/site-packages/openvino))
OV_C    = $(firstword $(wildcard $(OV_ROOT)/libs/libopenvino_c.so*))
PEER_OBJ = $(addprefix $(B)/obj/bench/,data/json_read.o data/scenario.o data/scenario_rates.o data/scenario_closed.o data/process.o load/arrivals.o \
           load/closed_loop.o load/score.o load/drive.o load/budget.o load/runner.o)

DNNL_LIB     ?= $(firstword $(wildcard $(VENV)/lib/libdnnl.so.*))
DNNL_INCLUDE ?= $(VENV)/include

.PHONY: peers
peers: ## set up and build the peers (OpenVINO, ONNX Runtime, ncnn, MNN, oneDNN) in a git-ignored venv
	@VENV=$(VENV) tools/setup --peers
	@$(MAKE) --no-print-directory $(B)/peers/openvino-runner $(B)/peers/onednn-runner

.PHONY: check-tvm compare-tvm
check-tvm: ## TVM as a peer, as far as it needs no TVM
	@python3 -S -B tests/peers/test_tvm.py

TVM_FOLDER   ?= $(B)/tvm
TVM_NETWORKS ?= resnet18 resnet50 mobilenet-v2
TVM_MINUTES  ?= 3
compare-tvm: $(B)/moire ## moire's kernels beside TVM's MetaSchedule, the same minutes to tune: a table, and JSON in TVM_FOLDER
	@VENV=$(VENV) tools/setup --tvm
	@VENV=$(VENV) $(VENV)-tvm/bin/python -B bench/peers/tvm_compare.py $(TVM_FOLDER) $(TVM_NETWORKS) --layers \
	    --minutes $(TVM_MINUTES) --moire $(B)/moire

$(B)/peers/openvino-runner: bench/peers/openvino_runner.c $(PEER_OBJ) $(B)/libmoire.a
	@mkdir -p $(@D)
	@test -n "$(OV_C)" || { echo "peers: no OpenVINO in $(VENV); run make peers" >&2; exit 4; }
	$(CC) $(CPPFLAGS) -isystem $(OV_ROOT)/include $(CFLAGS) $(LDFLAGS) -o $@ $^ $(OV_C) \
	    -Wl,-rpath,$(abspath $(OV_ROOT)/libs) -Wl,-rpath-link,$(OV_ROOT)/libs $(LDLIBS)

$(B)/peers/onednn-runner: bench/peers/onednn_runner.c $(PEER_OBJ) $(B)/obj/bench/data/layer_spec.o $(B)/libmoire.a
	@mkdir -p $(@D)
	@test -n "$(DNNL_LIB)" || { echo "peers: no oneDNN in $(VENV); run make peers" >&2; exit 4; }
	$(CC) $(CPPFLAGS) -isystem $(DNNL_INCLUDE) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(DNNL_LIB) \
	    -Wl,-rpath,$(abspath $(dir $(DNNL_LIB))) $(LDLIBS)
