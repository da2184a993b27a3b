# python.mk - the Python package: a wheel in dist/, and its tests in an environment of its own.
#
# The wheel has the library with a queue for answers (python/native), the command with all archives linked in, and what
# uses GPUs, which needs none to be built.
PYTHON      ?= python3
PYTHON_VENV ?= .venv-python

$(B)/python/libmoire.so: $(LIB_OBJ) $(B)/obj/python/native/answers.o
	@mkdir -p $(@D)
	$(CC) -shared -Wl,-soname,libmoire.so.0 '-Wl,-rpath,$$ORIGIN' $(LDFLAGS) -o $@ $^ $(LDLIBS)

.PHONY: wheel python
wheel: $(B)/python/libmoire.so $(B)/python/moire $(B)/libmoire-cuda.so $(B)/moire-gpu-child ## the Python package as dist/moire-VERSION-*.whl
	@CC="$(CC)" B=$(B) VERSION=$(VERSION) PYTHON=$(PYTHON) VENV=$(PYTHON_VENV) tools/make-wheel
python: wheel $(FAKE_OBJS) ## the Python package as a wheel, tested in a clean environment, its GPUs by a driver that is none
	@FAKES=$(abspath $(B)/tests/fake) B=$(B) PYTHON=$(PYTHON) tools/check-wheel dist/moire-$(VERSION)-py3-none-*.whl

.PHONY: python-docs
python-docs: wheel ## the Python package's reference, written from its docstrings and types, into $(B)/docs/python
	@$(PYTHON) -m venv $(B)/python/docs
	@$(B)/python/docs/bin/python -m pip install -q --disable-pip-version-check pdoc onnx
	@$(B)/python/docs/bin/python -m pip install -q --disable-pip-version-check --force-reinstall dist/moire-*.whl
	@$(B)/python/docs/bin/pdoc -d restructuredtext -o $(B)/docs/python moire moire.backend
	@echo "python-docs: $(B)/docs/python/moire.html"

.PHONY: loadgen
loadgen: wheel ## MLPerf's LoadGen, the wheel and ONNX Runtime in $(B)/loadgen/venv, for `moire bench loadgen`
	@[ -x $(B)/loadgen/venv/bin/python ] || $(PYTHON) -m venv $(B)/loadgen/venv
	@$(B)/loadgen/venv/bin/python -m pip install -q --disable-pip-version-check mlcommons-loadgen grpcio onnxruntime
	@$(B)/loadgen/venv/bin/python -m pip install -q --disable-pip-version-check --force-reinstall dist/moire-*.whl
	@echo "loadgen: VENV=$(B)/loadgen/venv $(B)/moire bench loadgen resnet50 --scenario Offline --output logs"

.PHONY: backend
backend: wheel ## ONNX's tests for Python backends, its whole models too: passed, failed, skipped by reason
	@B=$(B) PYTHON=$(PYTHON) tools/check-wheel dist/moire-$(VERSION)-py3-none-*.whl tests/python/test_backend.py --real

.PHONY: bench-python
bench-python: wheel ## what Session.run adds to a call in C, and times beside ONNX Runtime's
	@$(PYTHON) -m venv $(B)/python/bench
	@$(B)/python/bench/bin/python -m pip install -q --disable-pip-version-check --force-reinstall dist/moire-*.whl onnxruntime
	@# of this package the networks that read text; it brings more along than they need
	@$(B)/python/bench/bin/python -m pip install -q --disable-pip-version-check --no-deps rapidocr_onnxruntime
	@$(B)/python/bench/bin/python bench/python/sessions.py $(SESSIONS)
