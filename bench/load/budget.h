/* SPDX-License-Identifier: Apache-2.0
 * budget.h - how many queries a run may miss before its goal is out of reach, so that it may end. */
#ifndef MO_BENCH_BUDGET_H
#define MO_BENCH_BUDGET_H
#include "bench/data/scenario.h"

struct mo_bench_budget {
    int all;       /* of all queries; -1 = any number is fine */
    int n_tenants; /* of whose queries it is said, too; 0 = none */
    int tenant[MO_BENCH_MAX_TENANTS];
};

/* More has been missed than may be: of all queries, or of a tenant's. */
static inline bool mo_bench_spent(const struct mo_bench_budget *b, int missed, const int *missed_of) {
    bool spent = missed > b->all;
    for (int i = 0; i < b->n_tenants; i++)
        spent |= missed_of[i] > b->tenant[i];
    return spent && b->all >= 0;
}

/* As runners are told: "12", or "12,3,9" with one number a tenant.  out[n] has room for all of it. */
void mo_bench_budget_write(const struct mo_bench_budget *budget, char *out, size_t n);
/* MOIRE_OK, or MOIRE_EINVAL: something else, or numbers of more or fewer tenants. */
int mo_bench_budget_read(const char *text, int n_tenants, struct mo_bench_budget *out);
#endif
