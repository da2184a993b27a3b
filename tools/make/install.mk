# install.mk - installation, man page, completion, relocatable bundle.
.PHONY: install bundle man
$(B)/moire.1: $(B)/moire tools/make-man
	tools/make-man $(B)/moire $(VERSION) > $@
man: $(B)/moire.1 ## the man page, from the verbs' own help

$(B)/moire.pc: tools/moire.pc.in
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' $< > $@

install: all $(B)/libmoire-cuda.so $(B)/moire-gpu-child $(B)/moire.1 $(B)/moire.pc ## install below DESTDIR/PREFIX
	install -D -m 755 $(B)/moire $(DESTDIR)$(PREFIX)/bin/moire
	for f in moire.h moire_stats.h; do \
	    install -D -m 644 include/$$f $(DESTDIR)$(PREFIX)/include/$$f || exit 1; done
	install -D -m 644 $(B)/libmoire.a $(DESTDIR)$(PREFIX)/lib/libmoire.a
	install -D -m 755 $(B)/libmoire.so $(DESTDIR)$(PREFIX)/lib/libmoire.so.$(VERSION)
	ln -sf libmoire.so.$(VERSION) $(DESTDIR)$(PREFIX)/lib/libmoire.so.0
	ln -sf libmoire.so.0 $(DESTDIR)$(PREFIX)/lib/libmoire.so
	install -D -m 755 $(B)/libmoire-cuda.so $(DESTDIR)$(PREFIX)/lib/libmoire-cuda.so
	install -D -m 755 $(B)/moire-gpu-child $(DESTDIR)$(PREFIX)/libexec/moire-gpu-child
	install -D -m 644 $(B)/moire.pc $(DESTDIR)$(PREFIX)/lib/pkgconfig/moire.pc
	install -D -m 644 $(B)/moire.1 $(DESTDIR)$(PREFIX)/share/man/man1/moire.1
	install -D -m 644 tools/moire.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/moire
	for f in $$(cd bench && find scenarios machines gpus -name '*.json' -o -name '*.csv'); do \
	    install -D -m 644 bench/$$f $(DESTDIR)$(PREFIX)/share/moire/$$f || exit 1; done

bundle: all gpu-acceptance $(B)/moire.1 ## one tarball that runs without the packages
	tools/make-bundle $(B) $(VERSION)
