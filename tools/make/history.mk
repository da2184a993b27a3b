# History checker: the program moire-history, and its test, which runs with the unit tests.
HISTORY_OBJ := $(B)/obj/tests/history/check.o
TESTS += $(B)/tests/test_history

# Tests may have the events that they record checked (tests/history/recorded.h).
HELP_OBJ += $(HISTORY_OBJ) $(B)/obj/tests/history/recorded.o $(B)/obj/tests/history/spoilt.o

$(B)/moire-history: $(B)/obj/tests/history/main.o $(HISTORY_OBJ)
	$(CC) $(LDFLAGS) -o $@ $^

$(B)/tests/test_history: $(B)/obj/tests/history/test_history.o $(B)/libhelp.a $(B)/liball.a
	@mkdir -p $(@D)
	$(LINK_TEST) -lcmocka $(LDLIBS)

$(B)/obj/tests/history/test_history.o: | $(B)/gen/onnx.pb-c.h
# Tests that build models see the generated messages too.
$(TEST_SRC:%.c=$(B)/obj/%.o): | $(B)/gen/onnx.pb-c.h
