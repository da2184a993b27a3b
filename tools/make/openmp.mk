# The test that lends an OpenMP team to the runtime is the only user of OpenMP.  The sanitizers do not know the
# OpenMP run time, so their builds leave it out.
$(B)/obj/tests/unit/kernels/test_openmp.o: CFLAGS += -fopenmp
$(B)/tests/test_openmp: LDFLAGS += -fopenmp
ifneq ($(SAN),)
TESTS := $(filter-out $(B)/tests/test_openmp,$(TESTS))
endif
