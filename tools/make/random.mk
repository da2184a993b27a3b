# random.mk - random graphs in every way that moire runs them, against each other and ONNX Runtime.  (Behind
# generic.mk, which adds to the objects of the library.)
DIFF_SECONDS ?= 120
# a check repeats itself, a night looks further
DIFF_SEED    ?= 20261122
NIGHT_SEED   ?= $(shell date +%s)
NIGHT_HOURS  ?= 8
DIFF         := $(B)/differential/differential
DIFF_OBJ     := $(patsubst %.c,$(B)/obj/%.o,$(wildcard tests/differential/*.c))
DIFF_RUN      = mkdir -p $(B)/differential/kernels $(B)/differential/failures && \
                $(DIFF) --folder $(B)/differential --python $(VENV)/bin/python
$(DIFF_OBJ): | $(B)/gen/onnx.pb-c.h
$(DIFF): $(DIFF_OBJ) $(filter-out $(MAIN_OBJ),$(TOOL_OBJ)) $(GEN_OBJ) $(LIB_OBJ)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

tests: $(DIFF)
.PHONY: differential differential-canary night
differential: $(DIFF) ## random graphs, failures of the past and deliberate faults; DIFF_SECONDS, DIFF_SEED
	@$(DIFF_RUN) --found tests/differential/found --canaries 4000 --seconds $(DIFF_SECONDS) --seed $(DIFF_SEED)

differential-canary: $(DIFF) ## every deliberate fault, in built-in kernels and in emitted C, must be found
	@$(DIFF_RUN) --canaries 4000 --emitted 1 --seed $(DIFF_SEED)

night: $(DIFF) ## the same for NIGHT_HOURS; stopped with ^C it goes on where it was
	@$(DIFF_RUN) --seconds $$(( $(NIGHT_HOURS) * 3600 )) --state $(B)/differential/night --seed $(NIGHT_SEED)
