/* SPDX-License-Identifier: Apache-2.0
 * moire_energy.c - serving within every target at the least power: how many GPUs are awake, at what clock,
 * and how large batches are.
 *
 * Every model is on every GPU, taking turns (more than MO_LET_TENANTS models are dealt out to groups of
 * GPUs).
 *
 * Batches wait for more queries as long as the oldest is in time for sure, because a large batch costs fewer
 * joules a query than a small one.
 *
 * Each second, of all numbers of GPUs and clocks that hold the load as it is forecast (rates of late with
 * their trend, and two deviations of Poisson arrivals more), those with the fewest watts are taken.  Between
 * two such decisions GPUs only wake up: as soon as what waits cannot all be begun in time on those that are
 * awake, one more wakes up, and clocks go to their highest. */
#include <math.h>
#include <string.h>
#include "runtime/policy/whole_gpus.h"

static const double FULL = 0.8;               /* of a GPU's time that a plan may fill */
static const double LONGEST = 0.6;            /* of a target that a batch may take */
static const double MARGIN = 0.12;            /* of a target: batches are to end so much before it */
static const double LEVEL = 0.5, TREND = 0.3; /* of what is new in a second (Holt's linear forecast) */
static const double DEVIATIONS = 2;
static const int64_t second = 1000000000;
enum { STAYS = 3 }; /* seconds that a GPU stays awake once it woke up in need */

struct options {
    bool full_speed; /* clocks stay where they are */
};

struct model {
    int64_t arrivals;
    double level, trend; /* queries/s, and a second */
};

struct group {
    int awake, clock;
    int stays; /* seconds before fewer may be awake */
};

struct state {
    bool laid, ask, known[MO_PLAN_TENANTS];
    int64_t counted;
    int n_groups;
    struct group group[MO_PLAN_GPUS];
    struct model model[MO_PLAN_TENANTS];
    struct mo_whole_gpus on;
    struct mo_lets_plan plan;
};

/* One dispatch. */
struct serving {
    struct state *s;
    const struct mo_view *view;
    struct mo_decisions *out;
    int taken[MO_PLAN_TENANTS];
    int64_t timer;
};

static int n_models(const struct mo_view *view) {
    return view->n_tenants < MO_PLAN_TENANTS ? view->n_tenants : MO_PLAN_TENANTS;
}

/* GPUs of a group are group, group + n_groups, ... */
static int group_gpus(const struct state *s, const struct mo_view *view, int group) {
    return (view->gpus->n_gpus - group + s->n_groups - 1) / s->n_groups;
}

static int top_clock(const struct mo_view *view) {
    return view->power ? mo_power_top_clock(view->power->kind[0]) : 0;
}

static double speed_at(const struct mo_view *view, int clock) {
    return view->power ? mo_power_clock_at(view->power->kind[0], clock).speed : 1;
}

/* --- who is where --------------------------------------------------------------------------------------- */
static void lay(struct state *s, const struct mo_view *view) {
    int n = 0;
    for (int t = 0; t < n_models(view); t++)
        n += s->known[t] = view->tenants[t].open;
    s->n_groups = (n + MO_LET_TENANTS - 1) / MO_LET_TENANTS;
    if (s->n_groups < 1) s->n_groups = 1;
    if (s->n_groups > view->gpus->n_gpus) s->n_groups = view->gpus->n_gpus;
    memset(&s->on, 0, sizeof s->on);
    for (int t = 0, i = 0; t < n_models(view); t++) {
        if (!s->known[t]) continue;
        const int group = i++ % s->n_groups;
        for (int g = group; g < view->gpus->n_gpus; g += s->n_groups)
            (void)mo_whole_gpus_add(&s->on, view, g, t);
    }
    for (int i = 0; i < s->n_groups; i++)
        s->group[i] = (struct group){group_gpus(s, view, i), top_clock(view), STAYS};
    mo_whole_gpus_plan(&s->on, view, false, &s->plan);
    s->laid = s->ask = true;
}

static void note(struct state *s, const struct mo_view *view, const struct mo_event *event) {
    if (event->kind == MO_EVENT_ARRIVAL && event->tenant < MO_PLAN_TENANTS)
        s->model[event->tenant].arrivals++;
    bool anew = !s->laid || event->kind == MO_EVENT_GPUS;
    for (int t = 0; t < n_models(view); t++)
        anew |= view->tenants[t].open != s->known[t];
    if (anew && !view->lets_coming) lay(s, view);
}

/* --- how many are awake, at what clock ------------------------------------------------------------------ */
static double forecast(const struct model *m) {
    const double next = fmax(0, m->level + fmax(0, m->trend));
    return next + DEVIATIONS * sqrt(next);
}

static void watch_rate(struct model *m, double passed) {
    const double rate = (double)m->arrivals / passed, before = m->level;
    m->arrivals = 0;
    if (m->level <= 0 && m->trend == 0) {
        m->level = rate;
        return;
    }
    m->level += LEVEL * (rate - m->level - m->trend) + m->trend;
    m->trend += TREND * (m->level - before - m->trend);
    if (rate > m->level) m->level = rate; /* a rise is believed at once */
}

/* Profile time that a batch may take at a clock. */
static int64_t batch_limit(const struct mo_view *view, int tenant, double speed) {
    const int64_t qos = view->tenants[tenant].qos_ns;
    return qos ? (int64_t)(LONGEST * (double)qos * speed) : MO_SHARE_NEVER;
}

/* GPUs that the group's tenants keep busy at a clock of that speed, and the part of a GPU that they use
 * meanwhile.  INFINITY: one of them would be too slow. */
static double need_of(const struct state *s, const struct mo_view *view, int group, double speed,
                      double *use) {
    double need = 0, used = 0;
    for (int e = 0; e < s->on.n[group]; e++) {
        const int t = s->on.tenants[group][e];
        const struct mo_share_profile *p = mo_view_share(view, t, group);
        const double rate = speed * mo_share_rate(p, MO_SHARE_WHOLE, 1, batch_limit(view, t, speed));
        const double part = rate > 0 ? forecast(&s->model[t]) / rate : INFINITY;
        const double sm = mo_share_use_at(p, p->max_batch, MO_SHARE_WHOLE).sm;
        need += part;
        used += part * (sm > 0 ? sm : 1);
    }
    *use = need > 0 ? used / need : 1;
    return need;
}

static void size_group(struct state *s, const struct mo_view *view, int group) {
    const struct mo_power_kind *kind = view->power->kind[group];
    const bool full_speed = ((const struct options *)view->options)->full_speed;
    const int all = group_gpus(s, view, group), top = mo_power_top_clock(kind);
    struct group *now = &s->group[group], best = {all, top, 0};
    double use, least = INFINITY;
    for (int clock = top; clock >= (full_speed ? top : 0); clock--) {
        const double busy = need_of(s, view, group, mo_power_clock_at(kind, clock).speed, &use);
        if (busy > all * FULL) continue;
        const int n = busy > 0 ? (int)ceil(busy / FULL) : 1;
        const double watts = n * mo_power_watts(kind, 1, busy / n * use, clock) + (all - n) * kind->off_w;
        if (watts >= least) continue;
        least = watts;
        best = (struct group){n, clock, 0};
    }
    if (now->stays > 0 && best.awake < now->awake) {
        now->stays--;
        return;
    }
    *now = best;
}

/* Each second. */
static void plan(void *state, const struct mo_view *view) {
    struct state *s = state;
    const double passed = (double)(view->now - s->counted) / (double)second;
    const bool first = !s->counted;
    s->counted = view->now;
    if (first || passed <= 0 || !s->laid) return;
    for (int t = 0; t < n_models(view); t++)
        watch_rate(&s->model[t], passed);
    for (int g = 0; view->power && g < s->n_groups; g++)
        size_group(s, view, g);
}

/* --- batches -------------------------------------------------------------------------------------------- */
/* A batch that a tenant could have on a GPU now. */
struct offer {
    int tenant, n;
    int64_t begin; /* it has to begin by then */
    bool waits;    /* more queries may come until then */
};

static double batch_ns(const struct mo_view *view, int tenant, int gpu, int n, int clock) {
    const struct mo_share_profile *p = mo_view_share(view, tenant, gpu);
    const double slow = fmax(1, view->tenants[tenant].residual * speed_at(view, clock));
    return (double)mo_share_latency(p, n, MO_SHARE_WHOLE) * slow / speed_at(view, clock) +
           (double)mo_share_copy(p, n);
}

static struct offer offer_of(const struct serving *v, int tenant, int gpu) {
    const struct mo_view_tenant *t = &v->view->tenants[tenant];
    const int clock = v->s->group[gpu % v->s->n_groups].clock, at = v->taken[tenant];
    const struct mo_share_profile *p = mo_view_share(v->view, tenant, gpu);
    const int fit =
        mo_share_batch(p, MO_SHARE_WHOLE, 1, batch_limit(v->view, tenant, speed_at(v->view, clock)));
    const int most = fit > 1 ? fit : 1;
    struct offer o = {.tenant = tenant, .n = t->n_waiting - at};
    if (o.n > t->free_instances - at) o.n = t->free_instances - at;
    if (o.n > v->view->max_batch) o.n = v->view->max_batch;
    o.waits = o.n < most;
    if (o.n > most) o.n = most;
    if (o.n < 1) return o;
    const int64_t due = v->view->queries[t->waiting[at]].deadline;
    o.begin = due;
    if (due != MO_NEVER)
        o.begin = due - (int64_t)(MARGIN * (double)t->qos_ns +
                                  batch_ns(v->view, tenant, gpu, o.n + o.waits, clock));
    else
        o.waits = false;
    return o;
}

/* The tenant of a GPU whose batch has to begin first. */
static struct offer first_offer(const struct serving *v, int gpu) {
    struct offer best = {.n = 0};
    for (int e = 0; e < v->s->on.n[gpu]; e++) {
        const struct offer o = offer_of(v, v->s->on.tenants[gpu][e], gpu);
        if (o.n > 0 && (best.n < 1 || o.begin < best.begin)) best = o;
    }
    return best;
}

/* What the other tenants of a GPU may need it for before this one has it: a batch of each that waits. */
static double before(const struct serving *v, int gpu, int tenant) {
    double longest = 0;
    for (int e = 0; e < v->s->on.n[gpu]; e++) {
        const int t = v->s->on.tenants[gpu][e];
        const int waiting = v->view->tenants[t].n_waiting - v->taken[t];
        if (t == tenant || waiting < 1) continue;
        const int most = mo_view_share(v->view, t, gpu)->max_batch; /* at a low clock less: an upper bound */
        longest = fmax(longest, batch_ns(v->view, t, gpu, waiting < most ? waiting : most,
                                         v->s->group[gpu % v->s->n_groups].clock));
    }
    return longest;
}

static bool is_idle(const struct mo_view *view, int gpu) {
    const struct mo_cores units = mo_whole_gpu(view->gpus, gpu);
    return !view->gpu_down[gpu] && mo_cores_subset(&units, &view->idle);
}

static void serve(struct serving *v, int gpu) {
    const struct offer o = first_offer(v, gpu);
    if (o.n < 1) return;
    const int64_t begin = o.begin - (int64_t)before(v, gpu, o.tenant);
    if (o.waits && begin > v->view->now) {
        if (begin < v->timer) v->timer = begin;
        return;
    }
    const struct mo_view_tenant *t = &v->view->tenants[o.tenant];
    mo_decide_batch(v->out, t->waiting[v->taken[o.tenant]], o.n, t->profile->n_layers,
                    mo_whole_gpu(v->view->gpus, gpu));
    v->taken[o.tenant] += o.n;
}

/* --- waking up ------------------------------------------------------------------------------------------ */
/* ns until an awake GPU of the group comes free, with what waits behind the first batches spread over all. */
static bool is_short(const struct serving *v, int group) {
    const struct mo_view *view = v->view;
    const struct group *g = &v->s->group[group];
    int64_t due = MO_NEVER, end = MO_NEVER;
    double work = 0;
    for (int e = 0; e < v->s->on.n[group]; e++) {
        const struct offer o = offer_of(v, v->s->on.tenants[group][e], group);
        const int waiting = view->tenants[o.tenant].n_waiting - v->taken[o.tenant];
        if (o.n < 1) continue;
        work += batch_ns(view, o.tenant, group, o.n, g->clock) * waiting / o.n;
        if (o.begin < due) due = o.begin;
    }
    if (due == MO_NEVER) return false;
    for (int i = 0; i < g->awake; i++) {
        const struct mo_view_run *run = &view->runs[view->gpus->first[group + i * v->s->n_groups]];
        const int64_t free_at = run->query < 0 ? view->now : run->predicted_end;
        if (free_at < end) end = free_at;
    }
    const double target = MARGIN * (double)view->min_qos_ns;
    return (double)(end - due) > 2 * target || work / g->awake > (double)view->min_qos_ns;
}

static void wake(struct serving *v) {
    for (int i = 0; v->view->power && i < v->s->n_groups; i++) {
        struct group *g = &v->s->group[i];
        if (!is_short(v, i)) continue;
        if (g->clock < top_clock(v->view)) g->clock++;
        g->stays = STAYS;
        if (g->awake < group_gpus(v->s, v->view, i)) g->awake++;
    }
}

/* GPUs beyond those that are to be awake, as soon as they are idle; clocks as they are to be. */
static void apply(const struct serving *v) {
    const struct state *s = v->s;
    const struct mo_view *view = v->view;
    bool parked[MO_PLAN_GPUS];
    for (int g = 0; g < view->gpus->n_gpus; g++) {
        const struct group *group = &s->group[g % s->n_groups];
        parked[g] = g / s->n_groups >= group->awake && view->runs[view->gpus->first[g]].query < 0;
        if (view->power && view->clock[g] != group->clock) mo_decide_clock(v->out, g, group->clock);
    }
    mo_whole_gpus_park(view, parked, v->out);
}

static void dispatch(void *state, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out) {
    struct serving v = {.s = state, .view = view, .out = out, .timer = view->now + second};
    note(v.s, view, event);
    if (v.s->ask && !view->lets_coming) {
        mo_decide_lets(out, &v.s->plan);
        v.s->ask = false;
    }
    if (view->lets) {
        wake(&v);
        apply(&v);
        for (int g = 0; g < view->gpus->n_gpus; g++)
            if (g / v.s->n_groups < v.s->group[g % v.s->n_groups].awake && is_idle(view, g)) serve(&v, g);
    }
    mo_decide_timer(out, v.timer > view->now ? v.timer : view->now + 1);
}

const struct mo_policy mo_policy_moire_energy = {
    .name = "moire-energy",
    .description = "as few GPUs awake, at as low a clock and in as large batches as every target allows",
    .gpus = true,
    .options = &(const struct options){.full_speed = false},
    .state_bytes = sizeof(struct state),
    .plan = plan,
    .plan_period_ns = 1000000000,
    .dispatch = dispatch};

const struct mo_policy mo_policy_moire_energy_full_speed = {
    .name = "moire-energy-full-speed",
    .description = "moire-energy with all clocks at their highest",
    .gpus = true,
    .research = true,
    .options = &(const struct options){.full_speed = true},
    .state_bytes = sizeof(struct state),
    .plan = plan,
    .plan_period_ns = 1000000000,
    .dispatch = dispatch};
