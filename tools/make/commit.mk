# commit.mk - what a binary was built from, for the reports: the commit, a digest of all code that measured times may
# depend on, and one of the code that simulated results do.  The file changes only when one of them does.
MO_COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)$(shell git diff --quiet HEAD -- 2>/dev/null || echo +)
CODE      := include runtime codegen variants models bench
SIMULATOR := include $(addprefix runtime/,base planner policy profile sched sim) $(addprefix bench/,data flexy load search sim)
digest = $$(find $(1) -name '*.[ch]' ! -name '*_show.c' | LC_ALL=C sort | xargs cat | sha256sum | cut -c1-12)
.PHONY: commit-always
$(B)/gen/commit.h: commit-always
	@mkdir -p $(@D)
	@printf '#define MO_%s "%s"\n' COMMIT "$(MO_COMMIT)" SOURCES "$(call digest,$(CODE))" SIMULATOR "$(call digest,$(SIMULATOR))" >$@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
$(B)/obj/bench/data/experiment.o: $(B)/gen/commit.h
