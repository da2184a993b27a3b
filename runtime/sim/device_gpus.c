/* SPDX-License-Identifier: Apache-2.0
 * device_gpus.c - the simulated machine of GPUs: batches on lets by share profile, interference with what
 * runs on the other lets of the GPU, copies over its link.
 *
 * The interference that is simulated is not exactly the model that planners are given: each pair of tenants
 * has a factor of its own within machine.interference_error, drawn once from the seed.
 *
 * Where the plan cuts nothing (mo_lets_plan.side_by_side), each of the k batches that run on a GPU at a time
 * has a k-th of its compute, whatever it was a moment ago: the batch's time on such a share over that on the
 * whole is a factor of its pace, and what it uses of L2 and memory is what it uses there.  A real GPU deals
 * its blocks out less evenly; no profile says how. */
#include "runtime/base/numbers.h"
#include "runtime/sim/sim_impl.h"

static const struct mo_share_profile *profile_of(const struct mo_sim *s, int tenant, int gpu) {
    return s->share[tenant][s->machine.gpus->kind[gpu]];
}

static double batch_time(struct mo_sim *s, const struct mo_run *run, struct mo_sim_work *w) {
    const struct mo_gpus *g = s->machine.gpus;
    w->gpu = g->gpu_of[run->lead];
    const struct mo_share_profile *p = profile_of(s, run->tenant, w->gpu);
    int share = mo_view_let_share(mo_sched_view(s->sched), w->gpu, run->n_cores);
    w->use = mo_share_use_at(p, run->batch, share);
    double part = mo_view_part(s->profile[run->tenant], run->n_cores, run->begin, run->end);
    return (double)mo_share_latency(p, run->batch, share) * part;
}

static int64_t begin(struct mo_sim *s, const struct mo_run *run, const struct mo_sim_work *w) {
    int64_t cost = s->machine.block_ns + (run->first ? run->batch * s->machine.query_ns : 0);
    if (s->config.starts) cost = mo_sim_start(s, run, false);
    int64_t ready = w->asked + cost;
    if (ready < s->now) ready = s->now; /* the host was done while another block ran */
    int64_t copy = mo_share_copy(profile_of(s, run->tenant, w->gpu), run->batch);
    if (!copy || run->begin) return ready; /* a batch that goes on is there */
    int64_t *link = &s->copied[w->gpu];
    *link = (*link > ready ? *link : ready) + copy;
    return *link;
}

static void ends(const struct mo_sim *s, const struct mo_sim_work *w, uint64_t handle) {
    const struct mo_run *run = &w->run;
    int64_t copy = run->begin ? 0 : mo_share_copy(profile_of(s, run->tenant, w->gpu), run->batch);
    mo_event_put(s->config.ring, s->now, MO_LOG_TIMES, handle, run->tenant, copy, s->now - w->begin, 0);
}

/* In [-1, 1], the same for a pair of tenants throughout a run. */
static double deviation(const struct mo_sim *s, int self, int other) {
    const uint64_t pair = (uint64_t)self * 1024 + (uint64_t)other + 1;
    return (double)(mo_mix(s->config.seed + pair * MO_GOLDEN) >> 11) * 0x1p-52 - 1;
}

/* A k-th of a GPU that is not cut: what a batch uses there, and its time over that on the whole. */
static struct mo_share_use use_of_part(const struct mo_sim *s, const struct mo_sim_work *w, int k) {
    return mo_share_use_at(profile_of(s, w->run.tenant, w->gpu), w->run.batch, MO_SHARE_WHOLE / k);
}
static double time_of_part(const struct mo_sim *s, const struct mo_sim_work *w, int k) {
    const struct mo_share_profile *p = profile_of(s, w->run.tenant, w->gpu);
    return (double)mo_share_latency(p, w->run.batch, MO_SHARE_WHOLE / k) /
           (double)mo_share_latency(p, w->run.batch, MO_SHARE_WHOLE);
}

static double pace_of(const struct mo_sim *s, const struct mo_sim_work *w) {
    if (s->config.spread) return 1; /* measured times have the neighbours in them */
    const struct mo_lets_plan *lets = mo_sched_view(s->sched)->lets;
    const bool equal = lets && lets->side_by_side;
    const struct mo_sim_work *beside[MO_PLAN_UNITS];
    struct mo_share_use self = w->use, others[MO_PLAN_UNITS];
    double error = 0;
    int n = 0;
    for (int i = 0; i < s->n_running; i++) {
        const struct mo_sim_work *o = &s->work[s->running[i]];
        if (o == w || o->gpu != w->gpu || n == MO_PLAN_UNITS) continue;
        beside[n++] = o;
        error += deviation(s, w->run.tenant, o->run.tenant);
    }
    if (!n) return 1;
    if (equal) self = use_of_part(s, w, n + 1);
    for (int i = 0; i < n; i++)
        others[i] = equal ? use_of_part(s, beside[i], n + 1) : beside[i]->use;
    double pace = mo_interference(&mo_gpus_kind(s->machine.gpus, w->gpu)->interference, &self, others, n);
    pace *= 1 + s->machine.interference_error * error / n;
    return (pace > 1 ? pace : 1) * (equal ? time_of_part(s, w, n + 1) : 1);
}

static bool changed(struct mo_sim *s, const struct mo_sim_work *w, int change) {
    int gpu = w->gpu;
    (void)change;
    for (int i = 0; i < s->n_running; i++) {
        struct mo_sim_work *o = &s->work[s->running[i]];
        if (o->gpu == gpu) mo_sim_repace(s, o, pace_of(s, o));
    }
    return true;
}

const struct mo_sim_device mo_sim_gpus = {batch_time, begin, ends, changed};
