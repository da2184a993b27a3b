# install.mk - installation, man page, completion, relocatable bundle.
#
# Where things go: PREFIX; LIBDIR where libraries have a folder for each architecture; PLUGINDIR for those of GPUs,
# when the loader is told of it; DESTDIR for packagers.
LIBDIR    ?= $(PREFIX)/lib
PLUGINDIR ?= $(LIBDIR)
.PHONY: install man
$(B)/man/moire.1: $(B)/moire tools/make-man
	tools/make-man $(B)/moire $(B)/man
man: $(B)/man/moire.1 ## the man pages, set by the command itself

# For programs that are linked with -static: libhwloc.a calls libudev, which Debian has no archive of.
$(B)/libmoire-no-udev.a: $(B)/obj/tools/static/no_udev.o
	@rm -f $@
	$(AR) rcs $@ $^
all: $(B)/libmoire-no-udev.a

# The .pc files are written where they go: they name PREFIX, which may be another one each time.
install: all $(B)/libmoire-cuda.so $(B)/moire-gpu-child $(B)/man/moire.1 ## install below DESTDIR/PREFIX
	install -D -m 755 $(B)/moire $(DESTDIR)$(PREFIX)/bin/moire
	for f in moire.h moire_model.h moire_predict.h moire_stats.h moire_threads.h moire.hpp moire_query.hpp moire_values.hpp; do \
	    install -D -m 644 include/$$f $(DESTDIR)$(PREFIX)/include/$$f || exit 1; done
	for f in libmoire.a libmoire-no-udev.a; do \
	    install -D -m 644 $(B)/$$f $(DESTDIR)$(LIBDIR)/$$f || exit 1; done
	install -D -m 644 $(B)/libmoire.so $(DESTDIR)$(LIBDIR)/libmoire.so.$(VERSION)
	ln -sf libmoire.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libmoire.so.0
	ln -sf libmoire.so.0 $(DESTDIR)$(LIBDIR)/libmoire.so
	install -D -m 644 $(B)/libmoire-cuda.so $(DESTDIR)$(PLUGINDIR)/libmoire-cuda.so
	install -D -m 755 $(B)/moire-gpu-child $(DESTDIR)$(PREFIX)/libexec/moire-gpu-child
	mkdir -p $(DESTDIR)$(LIBDIR)/pkgconfig
	for f in moire moire-static; do \
	    sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' tools/$$f.pc.in \
	        > $(DESTDIR)$(LIBDIR)/pkgconfig/$$f.pc || exit 1; done
	mkdir -p $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 $(B)/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1
	install -D -m 644 tools/moire.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/moire
	install -D -m 644 tools/moire.zsh $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_moire
	for f in $$(cd bench && find scenarios machines gpus -name '*.json' -o -name '*.csv' -o -name '*.mo') \
	    $$(cd bench && find loadgen -name '*.py'); do \
	    install -D -m 644 bench/$$f $(DESTDIR)$(PREFIX)/share/moire/$$f || exit 1; done

# --- one tarball that runs without the packages: their archives are linked into the programs, which so need nothing
# but the C library, nor /proc to find anything.  bundle/moire-static needs no C library, for an empty container.
# libmoire.so keeps them beside itself: Debian's archives are not made for shared objects.
BUNDLE_LIBS := -Wl,-Bstatic -lprotobuf-c -lhwloc -ljansson -Wl,-Bdynamic -ldl -lpthread -lm
BUNDLED     := $(addprefix $(B)/bundle/,moire moire-static gpu-isolation gpu-contact libmoire.so)
NOT_MAIN    := $(filter-out $(MAIN_OBJ),$(TOOL_OBJ)) $(GEN_OBJ) $(LIB_OBJ)
$(filter-out %.so,$(BUNDLED)) $(B)/python/moire: $(B)/obj/tools/static/no_udev.o
# the Python package's is a file of its own: both may be made at once
$(B)/bundle/moire $(B)/python/moire: $(MAIN_OBJ) $(NOT_MAIN)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -rdynamic '-Wl,-rpath,$$ORIGIN/../lib' -o $@ $^ $(BUNDLE_LIBS)
$(B)/bundle/gpu-isolation: $(B)/obj/tools/gpu/isolation/isolation.o $(NOT_MAIN)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) '-Wl,-rpath,$$ORIGIN/../lib' -o $@ $^ $(BUNDLE_LIBS)
# the linker warns of calls that the C library's archive serves only where the same C library is shared: dlopen(),
# of objects that call it, and getpwuid_r(), asked only where HOME is not set
$(B)/bundle/moire-static: $(MAIN_OBJ) $(NOT_MAIN)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -static -o $@ $^ -lprotobuf-c -lhwloc -ljansson -ldl -lpthread -lm
$(B)/bundle/libmoire.so: $(LIB_OBJ)
	@mkdir -p $(@D)
	$(CC) -shared -Wl,-soname,libmoire.so.0 '-Wl,--disable-new-dtags,-rpath,$$ORIGIN' $(LDFLAGS) -o $@ $^ $(LDLIBS)

.PHONY: bundle
bundle: gpu-acceptance $(BUNDLED) ## one tarball that runs without the packages
	tools/make-bundle $(B) $(VERSION) $(MAKE)
