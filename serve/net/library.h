/* SPDX-License-Identifier: Apache-2.0
 * library.h - shared libraries that are loaded at run time: only who serves needs them, and bundles that link
 * everything else run without them. */
#ifndef MS_LIBRARY_H
#define MS_LIBRARY_H
#include <stddef.h>
#include "moire.h"

struct ms_symbol {
    const char *name;
    size_t at; /* of the pointer, in the struct that is filled */
};

/* Loads `file`, of Debian's `package`, and fills n pointers of the struct at `base`.
 * Returns: MOIRE_OK and a handle; MOIRE_EUNSUPPORTED: it is not there, or lacks a symbol. */
int ms_library_open(const char *file, const char *package, const struct ms_symbol *symbols, size_t n,
                    void *base, void **handle, moire_error *err);
/* NULL is fine. */
void ms_library_close(void *handle);
#endif
