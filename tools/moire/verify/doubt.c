/* SPDX-License-Identifier: Apache-2.0
 * doubt.c - see doubt.h. */
#include "tools/moire/verify/doubt.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "runtime/ops/util.h"

bool mo_output_doubt(const moire_tensor *t, char *why, size_t n) {
    struct mo_value v = {.dtype = t->dtype, .shape = {.rank = t->rank}, .data = t->data};
    size_t size = mo_dtype_bytes(t->dtype), count = size ? t->bytes / size : 0;
    memcpy(v.shape.d, t->shape, sizeof v.shape.d);
    int64_t bad = 0, other = 0;
    double first = count ? mo_load(&v, 0) : 0;
    for (size_t i = 0; i < count; i++) {
        double x = mo_load(&v, (int64_t)i);
        bad += isnan(x) != 0;
        other += x != first;
    }
    if (!count)
        snprintf(why, n, "is empty");
    else if (bad)
        snprintf(why, n, "is NaN in %lld of its %zu values", (long long)bad, count);
    else if (!other && count > 1)
        snprintf(why, n, "is %g in all of its %zu values", first, count);
    else
        return false;
    return true;
}
