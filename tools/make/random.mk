# differential.mk - random graphs in every way that moire runs them, against each other and ONNX Runtime.
DIFF_SRC := $(wildcard tests/differential/*.c)
DIFF_OBJ := $(DIFF_SRC:%.c=$(B)/obj/%.o)
$(DIFF_OBJ): | $(B)/gen/onnx.pb-c.h
$(B)/differential/differential: $(DIFF_OBJ) $(filter-out $(MAIN_OBJ),$(TOOL_OBJ)) $(GEN_OBJ) $(LIB_OBJ)
	@mkdir -p $(@D) $(@D)/kernels $(@D)/failures
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
