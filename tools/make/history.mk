# History checker: the program moire-history, and its test, which runs with the unit tests.
HISTORY_OBJ := $(B)/obj/tests/history/check.o
TESTS += $(B)/tests/test_history

$(B)/moire-history: $(B)/obj/tests/history/main.o $(HISTORY_OBJ)
	$(CC) $(LDFLAGS) -o $@ $^

$(B)/tests/test_history: $(B)/obj/tests/history/test_history.o $(HISTORY_OBJ) $(HELP_OBJ) \
                         $(filter-out $(MAIN_OBJ),$(TOOL_OBJ)) $(GEN_OBJ) $(LIB_OBJ)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

# Tests of batches have their events checked too.
$(B)/tests/test_batch $(B)/tests/test_lets $(B)/tests/test_gpulet_cut $(B)/tests/test_engine_gpu: $(HISTORY_OBJ) $(B)/obj/tests/history/recorded.o

$(B)/obj/tests/history/test_history.o: | $(B)/gen/onnx.pb-c.h
# Tests that build models see the generated messages too.
$(TEST_SRC:%.c=$(B)/obj/%.o): | $(B)/gen/onnx.pb-c.h
