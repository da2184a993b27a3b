# conformance.mk - the ONNX backend tests of Debian's libonnx-testdata, run in C.
ONNX_DATA ?= /usr/share/libonnx-testdata/data
CONF_SRC  := $(wildcard tests/conformance/*.c)
CONF_OBJ  := $(CONF_SRC:%.c=$(B)/obj/%.o)
$(CONF_OBJ): | $(B)/gen/onnx.pb-c.h

$(B)/conformance: $(CONF_OBJ) $(filter-out $(MAIN_OBJ),$(TOOL_OBJ)) $(GEN_OBJ) $(B)/libmoire.a
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

.PHONY: conformance
conformance: $(B)/conformance ## run the ONNX backend tests (libonnx-testdata)
	@$(B)/conformance --baseline tests/conformance/baseline.txt $(ONNX_DATA)
