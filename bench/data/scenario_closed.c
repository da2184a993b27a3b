/* SPDX-License-Identifier: Apache-2.0
 * scenario_closed.c - tenants in a closed loop, and what load means beside them; the format is described in
 * bench/scenarios/README.md.
 *
 * A tenant with "outstanding" has always so many queries on their way: the next one comes when one is
 * answered. So it has neither a rate nor a target, and it is best-effort; load is that of the tenants that
 * have arrivals. */
#include "bench/data/scenario.h"
#include "bench/load/arrivals.h"

int mo_bench_read_outstanding(const struct mo_json_file *f, const char *where, const json_t *tenant,
                              int64_t outstanding, struct mo_bench_tenant *out, moire_error *err) {
    static const char *const others[] = {"rate", "curve", "weight", "stages", "qos", "shed_late"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (json_object_get(tenant, others[i]))
            return mo_json_fail(f, where, err, "has \"outstanding\", so it cannot have \"%s\"", others[i]);
    if (out->cls != MOIRE_BEST_EFFORT)
        return mo_json_fail(f, where, err,
                            "has \"outstanding\" and no target, so it needs \"class\": \"best-effort\"");
    out->outstanding = (int)outstanding;
    out->qos = (struct mo_bench_qos){.cores = 0};
    return MOIRE_OK;
}

int mo_bench_check_rates(struct mo_bench_scenario *s, moire_error *err) {
    int rated = 0, closed = 0;
    for (int i = 0; i < s->n_tenants; i++) {
        rated += s->tenants[i].rate > 0;
        closed += s->tenants[i].outstanding > 0;
    }
    s->rated = rated > 0;
    if (closed == s->n_tenants || closed > MO_BENCH_MAX_CLOSED)
        return mo_json_fail(&s->file, "tenants", err,
                            "some must have arrivals, and at most %d \"outstanding\" queries",
                            MO_BENCH_MAX_CLOSED);
    if (rated && rated + closed < s->n_tenants)
        return mo_json_fail(&s->file, "tenants", err, "some have a \"rate\" or a \"curve\", some have none");
    for (int i = 0; i < s->n_tenants; i++)
        if (s->tenants[i].app && !(s->tenants[i].qos.ms > 0 && rated))
            return mo_json_fail(&s->file, "tenants", err,
                                "the application '%s' needs a rate and a target in \"ms\"",
                                s->tenants[i].name);
    return MOIRE_OK;
}

int mo_bench_no_closed_loops(const struct mo_bench_scenario *s, const char *where, moire_error *err) {
    for (int i = 0; i < s->n_tenants; i++)
        if (s->tenants[i].outstanding)
            return mo_fail(err, MOIRE_EINVAL, "%s: '%s' has \"outstanding\" queries, which %s does not know",
                           s->name, s->tenants[i].name, where);
    return MOIRE_OK;
}
