# serve.mk - moire serve with stock clients (needs $(VENV); see tools/setup --peers).
.PHONY: check-clients
check-clients: $(B)/moire ## moire serve answers tritonclient as ONNX Runtime does; reload and end under load
	@$(VENV)/bin/python tests/serve/check_clients.py --moire $(B)/moire
	@$(VENV)/bin/python tests/serve/check_grpc.py --moire $(B)/moire
	@$(VENV)/bin/python tests/serve/check_http.py --moire $(B)/moire
	@$(VENV)/bin/python tests/serve/check_extensions.py --moire $(B)/moire
	@$(VENV)/bin/python tests/serve/check_tls.py --moire $(B)/moire
	@$(VENV)/bin/python tests/serve/check_access.py --moire $(B)/moire
	@$(VENV)/bin/python tests/serve/check_hostile.py --moire $(B)/moire
	@$(VENV)/bin/python tests/serve/check_stuck.py --moire $(B)/moire
	@$(VENV)/bin/python tests/serve/check_cancels.py --moire $(B)/moire
	@$(VENV)/bin/python tests/serve/check_service.py --moire $(B)/moire
	@$(VENV)/bin/python tests/serve/check_pipelines.py --moire $(B)/moire
	@$(VENV)/bin/python tests/serve/check_ocr.py --moire $(B)/moire
	@$(VENV)/bin/python tests/serve/check_config.py --moire $(B)/moire
	@$(VENV)/bin/python tests/serve/check_page.py --moire $(B)/moire
	@$(VENV)/bin/python tests/serve/check_look.py --moire $(B)/moire
	@$(VENV)/bin/python tests/serve/check_batching.py --moire $(B)/moire
	@$(VENV)/bin/python tests/serve/check_shapes.py --moire $(B)/moire
	@$(VENV)/bin/python tests/serve/check_haproxy.py --moire $(B)/moire
	@$(VENV)/bin/python tests/serve/check_haproxy.py --moire $(B)/moire --namespaces
	@$(VENV)/bin/python tests/serve/check_manifests.py --moire $(B)/moire
.PHONY: check-conformance
check-conformance: $(B)/moire ## moire serve answers 540 requests as Triton did, but for the differences that are meant
	@$(VENV)/bin/python tests/serve/check_conformance.py --moire $(B)/moire
.PHONY: check-overload
check-overload: $(B)/moire ## a tenant sends ten times its load, malformed and cancelled: what others see
	@$(VENV)/bin/python tests/serve/check_overload.py --moire $(B)/moire
# test_grpc is a client by nghttp2.
$(B)/tests/test_grpc: LDLIBS += -lnghttp2
.PHONY: serve-demo
serve-demo: ## serves nine real models under a mixed load of a stock client, with a page to watch
	@B=$(B) VENV=$(VENV) tools/serve-demo
.PHONY: serve-flame
serve-flame: ## a flame graph of moire serve under the demo's load, by perf: $(B)/serve-demo/flame.svg
	@B=$(B) VENV=$(VENV) tools/serve-demo --seconds 15 --http-port 0 --no-browser --flame $(B)/serve-demo/flame.svg
# The live page: its parts as one file, as the numbers of a C array.
LIVE_PAGE := serve/page/live.html serve/page/live.css serve/page/live.js
$(B)/gen/live_page_text.h: $(LIVE_PAGE)
	@mkdir -p $(@D)
	sed -e '/@style@/{r serve/page/live.css' -e 'd}' -e '/@script@/{r serve/page/live.js' -e 'd}' $< | \
	    od -An -v -tx1 | sed 's/ \(..\)/0x\1,/g' > $@.part
	@mv $@.part $@
$(B)/obj/serve/page/live_page.o: $(B)/gen/live_page_text.h
