/* SPDX-License-Identifier: Apache-2.0
 * mhd.c - finds libmicrohttpd; see mhd.h. */
#include "serve/http/mhd.h"

#include <dlfcn.h>
#include <string.h>
#include "serve/protocol/fault.h"

static const char library[] = "libmicrohttpd.so.12";

int ms_mhd_open(struct ms_mhd *out, moire_error *err) {
    static const struct {
        const char *name;
        size_t at;
    } calls[] = {
#define ROW(call) {"MHD_" #call, offsetof(struct ms_mhd, call)},
        MS_MHD_CALLS(ROW)
#undef ROW
    };
    *out = (struct ms_mhd){.library = dlopen(library, RTLD_NOW | RTLD_LOCAL)};
    if (!out->library)
        return ms_fail(err, MOIRE_EUNSUPPORTED, "moire serve needs %s (Debian: libmicrohttpd12): %s", library,
                       dlerror());
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        void *call = dlsym(out->library, calls[i].name);
        if (!call) {
            ms_mhd_close(out);
            return ms_fail(err, MOIRE_EUNSUPPORTED, "%s has no %s: it is too old", library, calls[i].name);
        }
        memcpy((char *)out + calls[i].at, &call, sizeof call);
    }
    return MOIRE_OK;
}

void ms_mhd_close(struct ms_mhd *mhd) {
    if (mhd->library) dlclose(mhd->library);
    *mhd = (struct ms_mhd){0};
}
