# canary.mk - a million answers over mixed tenants, searched for each other's bytes (some minutes).
CANARY_ANSWERS ?= 1000000
CANARY_SEED    ?= 1
$(B)/obj/tests/unit/sched/canary_models.o: | $(B)/gen/onnx.pb-c.h
$(B)/canary: $(addprefix $(B)/obj/tests/,canary/main.o unit/sched/canary.o unit/sched/canary_models.o unit/codegen/onnx_build.o) \
    $(filter-out $(MAIN_OBJ),$(TOOL_OBJ)) $(GEN_OBJ) $(B)/libmoire.a
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

.PHONY: canary
canary: $(B)/canary ## a million answers over mixed tenants, searched for each other's bytes
	@$(B)/canary $(CANARY_ANSWERS) $(CANARY_SEED)
