/* SPDX-License-Identifier: Apache-2.0
 * library.c - shared libraries that are loaded at run time; see library.h. */
#include "serve/net/library.h"

#include <dlfcn.h>
#include <string.h>
#include "serve/protocol/fault.h"

int ms_library_open(const char *file, const char *package, const struct ms_symbol *symbols, size_t n,
                    void *base, void **handle, moire_error *err) {
    *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!*handle)
        return ms_fail(err, MOIRE_EUNSUPPORTED, "%s is needed (Debian: %s): %s", file, package, dlerror());
    for (size_t i = 0; i < n; i++) {
        void *symbol = dlsym(*handle, symbols[i].name);
        if (!symbol) {
            ms_library_close(*handle);
            *handle = NULL;
            return ms_fail(err, MOIRE_EUNSUPPORTED, "%s has no %s: it is too old", file, symbols[i].name);
        }
        memcpy((char *)base + symbols[i].at, &symbol, sizeof symbol);
    }
    return MOIRE_OK;
}

void ms_library_close(void *handle) {
    if (handle) dlclose(handle);
}
