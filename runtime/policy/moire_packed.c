/* SPDX-License-Identifier: Apache-2.0
 * moire_packed.c - `moire` on as few cores, and at as low a clock, as every target allows.
 *
 * Some ten times a second it asks which numbers of cores and clocks hold the present load: there the load
 * leaves room for what comes at random (two deviations of the work that arrives within a target, as in
 * square-root staffing), and a query alone is in time with a margin.  Of those, and of more cores than are
 * needed, it takes those that draw the fewest watts: more of them are done sooner, and sleep together.  The
 * cores with the lowest numbers serve, so that sockets and caches fill up one after the other; the others are
 * parked as soon as they are idle, and all are when nobody waits.  As soon as `moire` sets a query with a
 * target aside, twice as many wake up, at the highest clock, for a while.
 *
 * Within the cores that are awake everything is `moire`.  Where nothing is known of the machine's power it is
 * `moire` alone.  The rows differ in what they may do: race to idle (at full speed, on some cores or on all)
 * against slow and steady (on all cores, at a low clock). */
#include <math.h>
#include "runtime/policy/moire_parts.h"

static const int64_t LOOK_NS = 100000000, STAYS_NS = 200000000;
static const double FULL = 0.9;    /* of the time of cores that a plan may fill */
static const double LONGEST = 0.7; /* of a target that a query may take alone */
static const double DEVIATIONS = 2;
static const double EARLY = 0.15; /* of its target: by then `moire` ends a query where cores are idle */

struct options {
    struct mo_moire_parts parts; /* first: `moire` reads them */
    bool parks, slows;
};

struct state {
    struct mo_moire_state moire;
    int64_t look_at, stays_until;
    int awake, clock;
};

/* A choice, and what it draws. */
struct choice {
    int cores, clock;
    double watts;
};

static double time_on(const struct mo_profile *p, int n) {
    return (double)mo_profile_time(p, n, 0, p->n_layers);
}

/* Fewest of n cores on which a query takes at most `budget` ns; n + 1: none. */
static int cores_within(const struct mo_profile *p, int n, double budget) {
    int low = 1, high = n + 1;
    while (low < high) {
        const int mid = (low + high) / 2;
        if (mid > n || time_on(p, mid) <= budget)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* Block times over the profile's, were the clock the profile's: what was observed is of the present one. */
static double slower_by(const struct mo_view *view, const struct mo_view_tenant *t) {
    return t->residual * mo_power_clock_at(view->power->kind[0], view->clock[0]).speed;
}

/* Cores that hold the load at a clock of that speed; view->n_cores + 1 or more: it is too slow. */
static int cores_at(const struct mo_view *view, double speed) {
    double variance = 0, busy = 0;
    int least = 1;
    for (int i = 0; i < view->n_tenants; i++) {
        const struct mo_view_tenant *t = &view->tenants[i];
        if (!t->open) continue;
        const double slower = slower_by(view, t), load = t->load * slower / speed;
        busy += load;
        if (t->best_effort || !t->qos_ns) continue;
        const double alone = time_on(t->profile, 1) * slower / speed;
        const int need =
            cores_within(t->profile, view->n_cores, LONGEST * (double)t->qos_ns * speed / slower);
        variance += load * alone / (double)t->qos_ns;
        if (need > least) least = need;
    }
    const int all = (int)ceil((busy + DEVIATIONS * sqrt(variance)) / FULL);
    return all > least ? all : least;
}

/* Mean watts.  A query alone has as many cores as bring it to its end by EARLY of its target, or all n: it is
 * there for so long and takes that core time.  Queries that share n cores leave them empty for 1 - the sum of
 * these (processor sharing); then all sleep. */
static double watts_of(const struct mo_view *view, int n, int clock) {
    const struct mo_power_kind *kind = view->power->kind[0];
    const double speed = mo_power_clock_at(kind, clock).speed, all = view->n_cores;
    double there = 0, busy = 0;
    for (int i = 0; i < view->n_tenants; i++) {
        const struct mo_view_tenant *t = &view->tenants[i];
        if (!t->open || !(t->load > 0)) continue;
        const double slower = slower_by(view, t) / speed;
        const int enough = cores_within(t->profile, n, EARLY * (double)t->qos_ns / slower),
                  cores = enough < n ? enough : n;
        const double part = t->load * slower * time_on(t->profile, cores) / time_on(t->profile, 1);
        there += part;
        busy += part * cores;
    }
    if (busy > n) busy = n;
    if (there >= 1) return mo_power_watts(kind, n / all, busy / all, clock);
    if (!(there > 0)) return kind->off_w;
    return (1 - there) * kind->off_w +
           there * mo_power_watts(kind, n / all, fmin(n, busy / there) / all, clock);
}

/* The best number of cores at a clock: those that are needed, or twice as many, and so on. */
static struct choice at_clock(const struct mo_view *view, const struct options *o, int clock) {
    const int all = view->n_cores,
              need = cores_at(view, mo_power_clock_at(view->power->kind[0], clock).speed);
    struct choice best = {.cores = all, .clock = clock, .watts = INFINITY};
    if (need > all) return best;
    best.watts = watts_of(view, all, clock);
    for (int n = need; o->parks && n < all; n *= 2) {
        const struct choice c = {n, clock, watts_of(view, n, clock)};
        if (c.watts < best.watts) best = c;
    }
    return best;
}

static void look(struct state *s, const struct mo_view *view, const struct options *o) {
    const int top = mo_power_top_clock(view->power->kind[0]);
    struct choice best = at_clock(view, o, top);
    for (int clock = o->slows ? 0 : top; clock < top; clock++) {
        const struct choice c = at_clock(view, o, clock);
        if (c.watts < best.watts) best = c;
    }
    s->look_at = view->now + LOOK_NS;
    if (view->now < s->stays_until) { /* more are awake than the load needs, because it did not suffice */
        best.clock = top;
        if (best.cores < s->awake) best.cores = s->awake;
    }
    s->awake = best.cores;
    s->clock = best.clock;
}

/* Whether a query with a target cannot be in time. */
static bool is_short(const struct mo_moire_state *s) {
    for (int i = 0; i < s->n; i++)
        if (!s->list[i].keep && !s->list[i].best_effort) return true;
    return false;
}

/* Cores beyond those that serve, as soon as they are idle. */
static struct mo_cores parked_of(const struct mo_view *view, int awake) {
    struct mo_cores free = view->idle, out = {0};
    mo_cores_join(&free, &view->parked);
    for (int core = mo_cores_next(&free, awake - 1); core >= 0; core = mo_cores_next(&free, core))
        mo_cores_add(&out, core);
    return out;
}

/* Applies what is to be; the view of those that serve into *small. */
static void apply(const struct state *s, const struct mo_view *view, struct mo_view *small,
                  struct mo_decisions *out) {
    const struct mo_cores parked = parked_of(view, view->n_in_system ? s->awake : 0);
    *small = *view;
    small->n_cores = s->awake;
    mo_cores_join(&small->idle, &view->parked);
    mo_cores_subtract(&small->idle, &parked);
    small->n_idle = mo_cores_count(&small->idle);
    if (!mo_cores_subset(&parked, &view->parked) || !mo_cores_subset(&view->parked, &parked))
        mo_decide_park(out, parked);
    for (int d = 0; d < view->power->n_devices; d++)
        if (view->clock[d] != s->clock) mo_decide_clock(out, d, s->clock);
}

static void dispatch(void *state, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out) {
    struct state *s = state;
    const struct options *o = view->options;
    struct mo_view small;
    if (!view->power) {
        mo_moire_dispatch(&s->moire, view, event, out);
        return;
    }
    if (view->now >= s->look_at || s->awake < 1) look(s, view, o);
    apply(s, view, &small, out);
    if (!view->n_in_system) return;
    mo_moire_dispatch(&s->moire, &small, event, out);
    int64_t next = s->look_at;
    const bool more = s->awake < view->n_cores || s->clock < mo_power_top_clock(view->power->kind[0]);
    if (more && is_short(&s->moire)) {
        s->awake = 2 * s->awake < view->n_cores ? 2 * s->awake : view->n_cores;
        s->clock = mo_power_top_clock(view->power->kind[0]);
        s->stays_until = view->now + STAYS_NS;
        next = view->now + 1; /* those that wake up are dealt out then */
    }
    mo_decide_timer(out, next);
}

static const struct mo_policy rows[] = {
    {.name = "moire-packed",
     .description = "moire on as few cores and at as low a clock as every target allows, the rest parked",
     .clocks = true,
     .options = &(const struct options){.parks = true, .slows = true},
     .state_bytes = sizeof(struct state),
     .dispatch = dispatch},
    {.name = "moire-race",
     .description = "moire on as few cores as every target allows, at full speed: race to idle",
     .research = true,
     .options = &(const struct options){.parks = true},
     .state_bytes = sizeof(struct state),
     .dispatch = dispatch},
    {.name = "moire-sleep",
     .description = "moire on all cores, at full speed, parked together when nobody waits",
     .research = true,
     .options = &(const struct options){.parks = false},
     .state_bytes = sizeof(struct state),
     .dispatch = dispatch},
    {.name = "moire-slow",
     .description = "moire on all cores, at as low a clock as every target allows: slow and steady",
     .research = true,
     .clocks = true,
     .options = &(const struct options){.slows = true},
     .state_bytes = sizeof(struct state),
     .dispatch = dispatch},
};

const struct mo_policy *const *mo_policy_packed(void) {
    static const struct mo_policy *const list[] = {&rows[0], &rows[1], &rows[2], &rows[3], NULL};
    return list;
}
