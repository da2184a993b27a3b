# serve.mk - moire serve with stock clients (needs $(VENV); see tools/setup --peers).
.PHONY: check-clients
check-clients: $(B)/moire ## moire serve answers tritonclient as ONNX Runtime does; reload and end under load
	@$(VENV)/bin/python tests/serve/check_clients.py --moire $(B)/moire
	@$(VENV)/bin/python tests/serve/check_grpc.py --moire $(B)/moire
	@$(VENV)/bin/python tests/serve/check_tls.py --moire $(B)/moire
.PHONY: check-conformance
check-conformance: $(B)/moire ## moire serve answers 450 requests as Triton did, but for the differences that are meant
	@$(VENV)/bin/python tests/serve/check_conformance.py --moire $(B)/moire
# test_grpc is a client by nghttp2.
$(B)/tests/test_grpc: LDLIBS += -lnghttp2
