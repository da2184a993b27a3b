/* SPDX-License-Identifier: Apache-2.0
 * budget.c - budgets as text; see budget.h. */
#include "bench/load/budget.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/text.h"

void mo_bench_budget_write(const struct mo_bench_budget *b, char *out, size_t n) {
    struct mo_text t = mo_text_in(out, n);
    mo_text_put(&t, "%d", b->all);
    for (int i = 0; i < b->n_tenants; i++)
        mo_text_put(&t, ",%d", b->tenant[i]);
}

/* A number from -1 on, and what follows it. */
static int number(const char **text, int *out) {
    char *end;
    errno = 0;
    long v = strtol(*text, &end, 10);
    if (errno || end == *text || v < -1 || v > INT_MAX) return MOIRE_EINVAL;
    *text = end;
    *out = (int)v;
    return MOIRE_OK;
}

int mo_bench_budget_read(const char *text, int n_tenants, struct mo_bench_budget *out) {
    memset(out, 0, sizeof *out);
    int code = number(&text, &out->all);
    out->n_tenants = *text == ',' ? n_tenants : 0;
    for (int i = 0; !code && i < out->n_tenants; i++)
        code = *text++ == ',' ? number(&text, &out->tenant[i]) : MOIRE_EINVAL;
    return code || *text ? MOIRE_EINVAL : MOIRE_OK;
}
