# generic.mk - the built-in micro-kernels: a small host tool writes one C file for each ISA level, compiled with
# that level's flags and linked into the library.
HOSTCC ?= cc
EMIT_SRC := $(wildcard tools/emit-*.c codegen/emit/*.c)
$(B)/emit-generic: $(EMIT_SRC) $(wildcard tools/emit-*.h codegen/emit/*.h) variants/tiles.h variants/kernel.h
	@mkdir -p $(@D)
	$(HOSTCC) -std=c11 -O1 -I. -Iinclude -Wall -Wextra -o $@ $(EMIT_SRC) -lm

# Sanitizers that look at accesses would take minutes over these long functions and find little; MemorySanitizer
# must see every store.
TILES_SAN := $(if $(findstring =memory,$(SAN)),,-fsanitize% -fno-sanitize%)

define tiles_rule
$(B)/gen/tiles_$(1).c: $(B)/emit-generic
	@mkdir -p $$(@D)
	$$< $(1) > $$@.tmp && mv $$@.tmp $$@
$(B)/obj/tiles_$(1).o: $(B)/gen/tiles_$(1).c
	@mkdir -p $$(@D)
	$$(CC) $$(CPPFLAGS) $$(filter-out $$(TILES_SAN),$$(CFLAGS)) -g0 -Wno-unused -Wno-psabi $$(ISA_$(1)) -c $$< -o $$@
LIB_OBJ += $(B)/obj/tiles_$(1).o
CPPFLAGS_tiles += -DMO_HAVE_TILES_$(1)=1
endef
$(foreach i,$(ISAS) $(DOTS),$(eval $(call tiles_rule,$(i))))
