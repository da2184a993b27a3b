/* SPDX-License-Identifier: Apache-2.0
 * on_cores.c - units that any block may take: cores.  Whatever is idle may run whatever waits, for as long as
 * the bound on blocks says; nothing is queued behind a block, and nothing is planned. */
#include "runtime/sched/core_impl.h"

static int create(struct mo_sched *s, const struct mo_gpus *gpus) {
    (void)s, (void)gpus;
    return MOIRE_OK;
}

static void destroy(struct mo_sched *s) {
    (void)s;
}

static int64_t solo(const struct mo_sched *s, int tenant, int lead, int n, int begin, int end, int batch) {
    (void)lead;
    return batch * mo_profile_time(s->tenant_views[tenant].profile, n, begin, end);
}

static bool may_run(const struct mo_sched *s, const struct mo_decision *d) {
    (void)s, (void)d;
    return true;
}

static bool may_queue(const struct mo_sched *s, const struct mo_decision *d, int lead) {
    (void)s, (void)d, (void)lead;
    return false;
}

static void begins(struct mo_sched *s, const struct mo_decision *d, int lead) {
    (void)s, (void)d, (void)lead;
}

/* A block on one core. */
static bool ensure_progress(struct mo_sched *s, struct mo_decision *d, int64_t now) {
    (void)now;
    d->cores = mo_cores_first(1);
    d->batch = 1;
    d->end = mo_view_block(&s->view, d->query, 1);
    return true;
}

static bool lost(const struct mo_sched *s, int tenant) {
    (void)s, (void)tenant;
    return false;
}

static bool ask(struct mo_sched *s, const struct mo_lets_plan *plan) {
    (void)s, (void)plan;
    return false;
}

static void forget(struct mo_sched *s, int tenant) {
    (void)s, (void)tenant;
}

const struct mo_sched_units mo_sched_on_cores = {
    .create = create,
    .destroy = destroy,
    .solo = solo,
    .may_run = may_run,
    .may_queue = may_queue,
    .begins = begins,
    .ensure_progress = ensure_progress,
    .lost = lost,
    .ask = ask,
    .forget = forget,
};
