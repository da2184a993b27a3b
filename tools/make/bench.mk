# bench.mk - a short look at speed: kernels against the ceilings (and oneDNN where `make peers` built it), then latency.
BENCH_MODELS ?= resnet18 mobilenet-v2
BENCH_PEERS  ?= $(if $(wildcard $(VENV)/bin/python),openvino$(comma)onnxruntime,none)
comma        := ,

.PHONY: bench
bench: $(B)/moire ## kernels and latency of BENCH_MODELS in about two minutes, beside the peers that are set up
	@VENV=$(VENV) $(B)/moire bench kernels $(BENCH_MODELS) --seconds 0.05 \
	    --peer $(if $(wildcard $(B)/peers/onednn-runner),onednn,none)
	@VENV=$(VENV) $(B)/moire bench latency $(BENCH_MODELS) --threads 1 --generic --seconds 1 --peers $(BENCH_PEERS)
