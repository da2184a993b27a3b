# serve.mk - moire serve with stock clients (needs $(VENV); see tools/setup --peers).
.PHONY: check-clients
check-clients: $(B)/moire ## moire serve answers tritonclient as ONNX Runtime does; reload and end under load
	@$(VENV)/bin/python tests/serve/check_clients.py --moire $(B)/moire
