# gpu.mk - programs and the library look for plugins beside themselves and in ../lib.
$(B)/moire $(B)/libmoire.so $(TESTS): LDFLAGS += -Wl,-rpath,'$$ORIGIN:$$ORIGIN/../lib:$$ORIGIN/..'
