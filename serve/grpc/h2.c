/* SPDX-License-Identifier: Apache-2.0
 * h2.c - finds nghttp2; see h2.h. */
#include "serve/grpc/h2.h"
#include "serve/net/library.h"

int ms_h2_open(struct ms_h2 *out, moire_error *err) {
    static const struct ms_symbol symbols[] = {
#define ROW(call) {"nghttp2_" #call, offsetof(struct ms_h2, call)},
        MS_H2_CALLS(ROW)
#undef ROW
    };
    *out = (struct ms_h2){0};
    return ms_library_open("libnghttp2.so.14", "libnghttp2-14", symbols, sizeof symbols / sizeof *symbols,
                           out, &out->library, err);
}

void ms_h2_close(struct ms_h2 *h2) {
    ms_library_close(h2->library);
    *h2 = (struct ms_h2){0};
}
