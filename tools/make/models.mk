# models.mk - model files and their check against ONNX Runtime (needs $(VENV); see tools/setup --peers).
# ZOO_COMPILE are the models whose compiled variants are checked too, ZOO_BUDGET seconds of compiling each.
ZOO_COMPILE ?= lenet,mobilenet-v2,squeezenet1.0,resnet18
ZOO_BUDGET  ?= 15

.PHONY: check-models check-models-all
check-models: $(B)/moire ## small and medium zoo models and the text reader against ONNX Runtime
	@tests/models/run-models $(VENV)/bin/python $(B)/moire $(B)/zoo $(ZOO_COMPILE) $(ZOO_BUDGET)

check-models-all: $(B)/moire ## every zoo model, all layers compiled (takes long, 3 GB of files)
	@$(VENV)/bin/python tests/models/check_zoo.py --moire $(B)/moire --folder $(B)/zoo --budget 300
