/* SPDX-License-Identifier: Apache-2.0
 * mhd.c - finds libmicrohttpd; see mhd.h. */
#include "serve/http/mhd.h"
#include "serve/net/library.h"

int ms_mhd_open(struct ms_mhd *out, moire_error *err) {
    static const struct ms_symbol symbols[] = {
#define ROW(call) {"MHD_" #call, offsetof(struct ms_mhd, call)},
        MS_MHD_CALLS(ROW)
#undef ROW
    };
    *out = (struct ms_mhd){0};
    return ms_library_open("libmicrohttpd.so.12", "libmicrohttpd12", symbols,
                           sizeof symbols / sizeof *symbols, out, &out->library, err);
}

void ms_mhd_close(struct ms_mhd *mhd) {
    ms_library_close(mhd->library);
    *mhd = (struct ms_mhd){0};
}
