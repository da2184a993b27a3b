/* SPDX-License-Identifier: Apache-2.0
 * resized.c - simulated blocks on cores that come and go.
 *
 * A block runs in phases.  In each its cores stay the same: it begins at a place in the layers and ends with
 * the block, or with the layer at whose end cores leave.  When cores change within a phase, how far it has
 * come follows from the share of its time that has passed, and the next phase begins there: what is left is
 * added up anew, layer by layer, at the new count.  Whoever joins works at once; that the others must let him
 * in holds the block up for machine.resize_ns.  A block that nobody resizes is one phase. */
#include "runtime/profile/place.h"
#include "runtime/sim/sim_impl.h"

static struct mo_layer_sums sums_of(const struct mo_sim *s, const struct mo_sim_work *w) {
    return mo_layer_sums_at(s->profile[w->run.tenant], w->run.pressure, w->run.n_cores);
}

/* What is read cold from a place on; what was measured of blocks holds that already. */
static double cold_from(const struct mo_sim *s, const struct mo_sim_work *w) {
    const struct mo_run *run = &w->run;
    int layer = (int)w->at;
    if (s->config.spread || layer >= w->stop) return 0;
    double first = mo_sim_reuse_extra(&s->reuse, run->tenant, run->n_cores, layer, layer + 1);
    return (1 - (w->at - layer)) * first +
           mo_sim_reuse_extra(&s->reuse, run->tenant, run->n_cores, layer + 1, w->stop);
}

/* A phase begins at w->at; its cores are known. */
static void begin_phase(struct mo_sim *s, struct mo_sim_work *w) {
    const struct mo_run *run = &w->run;
    int layer = (int)w->at;
    double solo;
    bool until_next = !mo_cores_none(&w->leaving) && layer < run->end;
    w->stop = until_next ? layer + 1 : run->end;
    w->asks = mo_demand_of(s->profile[run->tenant], run->pressure, run->n_cores, layer, w->stop, &solo);
    struct mo_layer_sums sums = sums_of(s, w);
    w->whole = w->left = w->factor * (mo_place_left(&sums, w->at, w->stop) + cold_from(s, w));
    w->end = mo_sim_end_of(s, w);
}

/* Where the block is by now in its phase. */
static double place_of(const struct mo_sim *s, const struct mo_sim_work *w) {
    struct mo_layer_sums sums = sums_of(s, w);
    double passed = w->whole > 0 ? 1 - w->left / w->whole : 0;
    return mo_place_after(&sums, w->at, w->stop, passed * mo_place_left(&sums, w->at, w->stop));
}

/* Cores enter a running block, and others go out of it. */
static void change_cores(struct mo_sim *s, struct mo_sim_work *w, const struct mo_cores *in,
                         const struct mo_cores *out) {
    mo_sim_count(s, w);
    mo_cores_join(&w->run.cores, in);
    mo_cores_subtract(&w->run.cores, out);
    mo_cores_join(&s->busy, in);
    mo_cores_subtract(&s->busy, out);
    s->n_busy -= w->run.n_cores;
    w->run.n_cores = mo_cores_count(&w->run.cores);
    s->n_busy += w->run.n_cores;
    for (int c = mo_cores_next(out, -1); c >= 0; c = mo_cores_next(out, c))
        s->idle_since[c] = s->now;
    if (!s->config.ring || !w->ran) return;
    uint64_t handle = mo_query_handle(mo_sched_queries(s->sched), w->run.query);
    for (int c = mo_cores_next(in, -1); c >= 0; c = mo_cores_next(in, c))
        mo_event_put(s->config.ring, s->now, MO_LOG_GROW, handle, w->run.tenant, c, w->run.n_cores,
                     w->run.begin);
    for (int c = mo_cores_next(out, -1); c >= 0; c = mo_cores_next(out, c))
        mo_event_put(s->config.ring, s->now, MO_LOG_LEAVE, handle, w->run.tenant, c, w->run.n_cores,
                     w->run.begin);
}

static bool possible(const struct mo_sim *s, const struct mo_sim_work *w, const struct mo_resize *r) {
    return s->n_running && w->run.lead == r->lead && mo_cores_has(&s->busy, r->lead) &&
           mo_cores_subset(&r->join, &s->all) && !mo_cores_meet(&r->join, &s->busy) &&
           mo_cores_subset(&r->leave, &w->run.cores) && !mo_cores_has(&r->leave, r->lead) &&
           !mo_cores_meet(&r->leave, &w->leaving);
}

/* Of cores that leave, those that have nothing to do in the layer any more: one of the team stands still, and
 * the others have done its rest. */
static struct mo_cores free_to_go(const struct mo_sim *s, const struct mo_sim_work *w,
                                  const struct mo_cores *leave) {
    struct mo_cores still = {0}, go = *leave;
    for (int c = mo_cores_next(&w->run.cores, -1); s->config.pace && c >= 0;
         c = mo_cores_next(&w->run.cores, c))
        if (mo_sim_pace_stands(s->config.pace, c, s->now)) mo_cores_add(&still, c);
    if (mo_cores_none(&still)) return still;
    mo_cores_subtract(&go, &still);
    return go;
}

void mo_sim_count(struct mo_sim *s, struct mo_sim_work *w) {
    if (!w->ran || s->now <= w->counted) return;
    mo_sched_stats(s->sched)->kernel_core_ns += (s->now - w->counted) * w->run.n_cores;
    w->counted = s->now;
}

void mo_sim_resize(void *self, const struct mo_resize *r) {
    static const struct mo_cores none;
    struct mo_sim *s = self;
    struct mo_sim_work *w = &s->work[r->lead];
    s->broken += !possible(s, w, r);
    mo_sim_catch_up(s, w);
    double at = place_of(s, w);
    if (at >= w->stop) { /* what is left is a rounding error */
        w->left = 0;
        w->end = s->now;
    }
    bool goes_on = w->ran && w->left > 0; /* else it ends, or cores leave it, in this very moment */
    if (goes_on) w->at = at;
    change_cores(s, w, &r->join, &none);
    mo_cores_join(&w->leaving, &r->leave);
    if (goes_on) {
        w->going = free_to_go(s, w, &r->leave);
        if (s->now >= w->begin && !mo_cores_none(&r->join)) w->seen += s->machine.resize_ns;
        begin_phase(s, w);
    }
    s->device->changed(s, w, 0);
    s->moved = true;
}

void mo_sim_let_go(struct mo_sim *s, int lead) {
    static const struct mo_cores none;
    struct mo_sim_work *w = &s->work[lead];
    const struct mo_cores out = w->going;
    mo_sim_catch_up(s, w);
    w->at = place_of(s, w);
    mo_cores_subtract(&w->leaving, &out);
    w->going = none;
    change_cores(s, w, &none, &out);
    begin_phase(s, w);
    s->device->changed(s, w, 0);
    s->moved = true;
    mo_sched_cores_back(s->sched, lead, &out, s->now);
}

void mo_sim_end_phase(struct mo_sim *s, int lead) {
    static const struct mo_cores none;
    struct mo_sim_work *w = &s->work[lead];
    const struct mo_cores out = w->leaving;
    w->leaving = none;
    w->at = w->stop;
    w->seen = s->now;
    change_cores(s, w, &none, &out);
    begin_phase(s, w);
    s->device->changed(s, w, 0);
    s->moved = true;
    mo_sched_cores_back(s->sched, lead, &out, s->now);
}
