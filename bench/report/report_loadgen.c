/* SPDX-License-Identifier: Apache-2.0
 * report_loadgen.c - a load as MLPerf's LoadGen would judge it in its scenario Server, tenant by tenant. */
#include <stdio.h>
#include "bench/data/early_stopping.h"
#include "bench/report/report_loadgen.h"
#include "bench/report/report_page.h"

static const double share = 0.99, confidence = 0.99;

static void row(const struct mo_merged *m) {
    const double late = m->n - m->met;
    const int64_t missing = mo_early_missing((int64_t)m->met, (int64_t)late, share, confidence);
    printf("  %-32s %7.0f %7.0f %9.2f  %s", m->name, m->n, late, m->p99, missing ? "INVALID" : "VALID");
    if (missing) printf(", %lld more would have to be in time", (long long)missing);
    printf("\n");
}

void mo_report_loadgen(const json_t *document, const struct mo_merged_load *at) {
    int shown = 0;
    for (int i = 0; i < at->n_tenants; i++) {
        const struct mo_merged *m = &at->tenants[i];
        if (!(m->n > 0) || !mo_doc_has_target(document, m->name)) continue;
        if (!shown++)
            printf("  as LoadGen judges its Server, 99 %% within the target, by early stopping:\n"
                   "  %-32s %7s %7s %9s  %s\n",
                   "tenant", "queries", "late", "p99 ms", "result");
        row(m);
    }
}
