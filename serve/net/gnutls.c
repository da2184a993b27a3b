/* SPDX-License-Identifier: Apache-2.0
 * gnutls.c - finds GnuTLS; see gnutls.h. */
#include "serve/net/gnutls.h"
#include "serve/net/library.h"

int ms_gnutls_open(struct ms_gnutls *out, moire_error *err) {
    static const struct ms_symbol symbols[] = {
#define ROW(call) {"gnutls_" #call, offsetof(struct ms_gnutls, call)},
        MS_GNUTLS_CALLS(ROW)
#undef ROW
    };
    *out = (struct ms_gnutls){0};
    return ms_library_open("libgnutls.so.30", "libgnutls30", symbols, sizeof symbols / sizeof *symbols, out,
                           &out->library, err);
}

void ms_gnutls_close(struct ms_gnutls *gnutls) {
    ms_library_close(gnutls->library);
    *gnutls = (struct ms_gnutls){0};
}
