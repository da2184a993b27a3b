# bench-probe.mk - the loops that measure a machine's ceilings, compiled once for every ISA level.
$(foreach i,$(ISAS),$(eval TOOL_OBJ += $(B)/obj/$(i)/bench/kernels/probe/probe.o))
$(foreach i,$(ISAS),$(B)/obj/$(i)/bench/kernels/probe/probe.o): | $(B)/gen/onnx.pb-c.h
