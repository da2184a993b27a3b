# commit.mk - the commit a binary was built from, for the reports; the file changes only when the commit does.
MO_COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)$(shell git diff --quiet HEAD -- 2>/dev/null || echo +)
.PHONY: commit-always
$(B)/gen/commit.h: commit-always
	@mkdir -p $(@D)
	@echo '#define MO_COMMIT "$(MO_COMMIT)"' | cmp -s - $@ || echo '#define MO_COMMIT "$(MO_COMMIT)"' >$@
$(B)/obj/bench/data/experiment.o: $(B)/gen/commit.h
