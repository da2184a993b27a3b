/* SPDX-License-Identifier: Apache-2.0
 * flexy.c - two classes of tasks on several devices: Flexy and what its paper compares it with.
 *
 * A device is a core.  A task is a query: its whole model is one block on one device, for devices cannot
 * preempt.  A tenant is one of the paper's virtual accelerators; user-facing is who is not best effort, and
 * the others are batch.  A class's next task is the head of line of its next tenant that has one, in turn.
 *
 * Round-robin takes the next tenant of either class.  Priority takes batch tasks when no user-facing one
 * waits, and the first K devices take none.  Flexy (section II.C, Algorithm 1) has U = ceil(le * q / SLA)
 * devices for user-facing tasks, at least K and at most all: le is the mean execution time of the last RECENT
 * user-facing tasks (before one has ended, what those at hand should take), q counts those that wait or run,
 * SLA is the tightest target among their tenants (none: any one task is worth all devices).  They are
 * the U devices that should be free soonest, ties by number; the others are for batch tasks alone.  With
 * `packs` those that run such tasks come first, as in the paper's figures: tasks share few devices, and
 * batch tasks have what is idle.  The algorithm reads otherwise, and its results are like the other's
 * (docs/classes.md).
 *
 * Where the machine can kill a running block (view.resets), priority-reset kills a batch task for every
 * user-facing one that waits and for which no device is being reset yet, those with the most left first;
 * flexy-reset only those on its U devices that would run longer than a reset takes.  With `cuts` batch tasks
 * run block by block, and of a killed one the block alone is lost: priority with both is REEF's rule.
 *
 * K is cut to all devices but one, or batch tasks would never run. */
#include "runtime/policy/flexy.h"

enum { TENANTS = 256, RECENT = 16 };
enum { USER = 1, BATCH = 2 }; /* classes, and what a device may take */

struct device {
    int core;
    int64_t free_at;
    int batch_query;              /* of the batch task that it runs, -1 = it runs none */
    bool idle, resetting, serves; /* serves: it runs a user-facing task */
    int takes;
};

struct state {
    int64_t took[RECENT]; /* execution times of user-facing tasks, a ring */
    int n_took;
    int turn[BATCH + USER + 1];     /* by class: the tenant whose turn is next */
    int64_t restored[MO_MAX_CORES]; /* when a device that was reset should be usable again */
    /* within a dispatch: */
    struct device device[MO_MAX_CORES], *sorted[MO_MAX_CORES];
    short taken[TENANTS];
};

static int class_of(const struct mo_view_tenant *t) {
    return t->best_effort ? BATCH : USER;
}

/* --- what is at hand ------------------------------------------------------------------------------------ */
static void note_task(struct state *s, const struct mo_view *view, const struct mo_event *event) {
    if (event->kind != MO_EVENT_DONE || event->query < 0) return;
    const struct mo_view_query *q = &view->queries[event->query];
    const struct mo_view_tenant *t = &view->tenants[event->tenant];
    if (class_of(t) != USER || !t->profile || q->next_layer < t->profile->n_layers) return;
    s->took[s->n_took++ % RECENT] = view->now - q->started;
}

static void look_at_devices(struct state *s, const struct mo_view *view) {
    for (int c = 0; c < view->n_cores; c++) {
        const bool idle = mo_cores_has(&view->idle, c);
        const int64_t soon = view->now + !idle;
        s->device[c] = (struct device){.core = c,
                                       .idle = idle,
                                       .resetting = !idle, /* unless it runs: below */
                                       .free_at = !idle && s->restored[c] > soon ? s->restored[c] : soon,
                                       .batch_query = -1};
        s->sorted[c] = &s->device[c];
    }
    for (int i = 0; i < view->n_running; i++) {
        const struct mo_view_run *run = &view->runs[view->running[i]];
        const bool batch = class_of(&view->tenants[view->queries[run->query].tenant]) == BATCH;
        for (int c = mo_cores_next(&run->cores, -1); c >= 0; c = mo_cores_next(&run->cores, c)) {
            s->device[c].resetting = false;
            s->device[c].serves = !batch;
            s->device[c].batch_query = batch ? run->query : -1;
            s->device[c].free_at = run->predicted_end > view->now ? run->predicted_end : view->now + 1;
        }
    }
}

static bool before(const struct device *a, const struct device *b, bool packs) {
    return packs && a->serves != b->serves ? a->serves : a->free_at < b->free_at;
}

/* Stable: devices stand by number before. */
static void sort_devices(struct state *s, int n, bool packs) {
    for (int i = 1; i < n; i++) {
        struct device *d = s->sorted[i];
        int at = i;
        for (; at > 0 && before(d, s->sorted[at - 1], packs); at--)
            s->sorted[at] = s->sorted[at - 1];
        s->sorted[at] = d;
    }
}

/* --- who gets which device ------------------------------------------------------------------------------ */
static int kept(const struct mo_view *view) {
    const struct mo_flexy_options *o = view->options;
    return o->keep < view->n_cores ? o->keep : view->n_cores - 1;
}

/* U of Algorithm 1. */
static int wanted_devices(const struct state *s, const struct mo_view *view) {
    const int least = kept(view), recent = s->n_took < RECENT ? s->n_took : RECENT;
    double sum = 0, at_hand = 0, outstanding = 0;
    int64_t sla = 0;
    for (int i = 0; i < view->n_tenants; i++) {
        const struct mo_view_tenant *t = &view->tenants[i];
        if (!t->open || class_of(t) != USER) continue;
        const int n = t->n_waiting + t->n_paused + t->n_running;
        outstanding += n;
        at_hand += n * (double)mo_view_time(t, 1, 0, t->profile->n_layers);
        if (t->qos_ns && (!sla || t->qos_ns < sla)) sla = t->qos_ns;
    }
    if (!(outstanding > 0)) return least;
    if (!sla) return view->n_cores;
    for (int i = 0; i < recent; i++)
        sum += (double)s->took[i];
    const double longest = recent ? sum / recent * outstanding : at_hand;
    const double need = longest / (double)sla;
    int u = need < view->n_cores ? (int)need : view->n_cores;
    if (u < view->n_cores && u < need) u++;
    return u > least ? u : least;
}

/* Returns how many devices stand at the user-facing tasks' disposal, first in `sorted`. */
static int share_devices(struct state *s, const struct mo_view *view) {
    const struct mo_flexy_options *o = view->options;
    const int n = view->n_cores;
    int u = o->order == MO_FLEXY_ELASTIC ? wanted_devices(s, view) : n;
    if (o->order == MO_FLEXY_ELASTIC) sort_devices(s, n, o->packs);
    for (int i = 0; i < n; i++) {
        struct device *d = s->sorted[i];
        if (o->order == MO_FLEXY_ELASTIC)
            d->takes = i < u ? USER : BATCH;
        else
            d->takes = i < kept(view) ? USER : USER | BATCH;
    }
    return u;
}

/* The head of line of the class's next tenant in turn that may start one, -1 = there is none. */
static int next_task(struct state *s, const struct mo_view *view, int class) {
    const int n = view->n_tenants < TENANTS ? view->n_tenants : TENANTS;
    for (int k = 0; k < n; k++) {
        const int i = (s->turn[class] + k) % n;
        const struct mo_view_tenant *t = &view->tenants[i];
        if (!(class_of(t) & class)) continue;
        int query = -1;
        if (s->taken[i] < t->n_paused)
            query = t->paused[s->taken[i]];
        else if (s->taken[i] - t->n_paused < t->n_waiting && s->taken[i] - t->n_paused < t->free_instances)
            query = t->waiting[s->taken[i] - t->n_paused];
        if (query < 0) continue;
        s->taken[i]++;
        s->turn[class] = i + 1;
        return query;
    }
    return -1;
}

/* Idle devices that may take a class get its tasks, as long as there are any. */
static void serve(struct state *s, const struct mo_view *view, int class, struct mo_decisions *out) {
    const struct mo_flexy_options *o = view->options;
    for (int c = 0; c < view->n_cores; c++) {
        struct device *d = &s->device[c];
        if (!d->idle || !(d->takes & class)) continue;
        const int query = next_task(s, view, class);
        if (query < 0) return;
        struct mo_cores core = {0};
        mo_cores_add(&core, c);
        d->idle = false;
        const struct mo_view_tenant *t = &view->tenants[view->queries[query].tenant];
        const bool cut = o->cuts && t->best_effort;
        mo_decide_run(out, query, cut ? mo_view_block(view, query, 1) : t->profile->n_layers, core);
        if (cut) mo_decide_cut(out, MO_CUT_BOUND);
    }
}

/* --- resets --------------------------------------------------------------------------------------------- */
static void reset(struct state *s, const struct mo_view *view, struct device *d, struct mo_decisions *out) {
    if (((const struct mo_flexy_options *)view->options)->cuts)
        mo_decide_reset_block(out, d->batch_query);
    else
        mo_decide_reset(out, d->batch_query);
    s->restored[d->core] = view->now + view->reset_ns;
    d->batch_query = -1;
    d->resetting = true;
}

/* User-facing tasks that still wait. */
static int waiting_tasks(const struct state *s, const struct mo_view *view) {
    int n = 0;
    for (int i = 0; i < view->n_tenants; i++) {
        const struct mo_view_tenant *t = &view->tenants[i];
        if (class_of(t) == USER) n += t->n_waiting + t->n_paused - (i < TENANTS ? s->taken[i] : 0);
    }
    return n;
}

static struct device *most_left(struct state *s, const struct mo_view *view) {
    struct device *best = NULL;
    for (int c = 0; c < view->n_cores; c++) {
        struct device *d = &s->device[c];
        if (d->batch_query >= 0 && (!best || d->free_at > best->free_at)) best = d;
    }
    return best;
}

static void reset_devices(struct state *s, const struct mo_view *view, int u, struct mo_decisions *out) {
    const struct mo_flexy_options *o = view->options;
    int waiting = waiting_tasks(s, view);
    if (o->order == MO_FLEXY_ELASTIC) {
        for (int i = 0; waiting > 0 && i < u; i++)
            if (s->sorted[i]->batch_query >= 0 && s->sorted[i]->free_at - view->now > view->reset_ns)
                reset(s, view, s->sorted[i], out);
        return;
    }
    for (int c = 0; c < view->n_cores; c++)
        waiting -= s->device[c].resetting;
    for (struct device *d; waiting > 0 && (d = most_left(s, view)); waiting--)
        reset(s, view, d, out);
}

static void dispatch(void *state, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out) {
    struct state *s = state;
    const struct mo_flexy_options *o = view->options;
    for (int i = 0; i < view->n_tenants && i < TENANTS; i++)
        s->taken[i] = 0;
    note_task(s, view, event);
    look_at_devices(s, view);
    const int u = share_devices(s, view);
    if (o->order == MO_FLEXY_ROUND_ROBIN) {
        serve(s, view, USER | BATCH, out);
        return;
    }
    serve(s, view, USER, out);
    serve(s, view, BATCH, out);
    if (o->resets && view->resets) reset_devices(s, view, u, out);
}

/* --- rows ----------------------------------------------------------------------------------------------- */
static const struct mo_policy rows[] = {
    {.name = "round-robin",
     .description = "two classes on devices: the next tenant's oldest task, of either class",
     .options = &(const struct mo_flexy_options){.order = MO_FLEXY_ROUND_ROBIN},
     .state_bytes = sizeof(struct state),
     .dispatch = dispatch},
    {.name = "priority",
     .description = "two classes on devices: best-effort tasks when no other waits",
     .options = &(const struct mo_flexy_options){.order = MO_FLEXY_PRIORITY},
     .state_bytes = sizeof(struct state),
     .dispatch = dispatch},
    {.name = "priority-1",
     .description = "priority, and one device takes no best-effort tasks",
     .options = &(const struct mo_flexy_options){.order = MO_FLEXY_PRIORITY, .keep = 1},
     .state_bytes = sizeof(struct state),
     .dispatch = dispatch},
    {.name = "priority-reset",
     .description = "priority, and a best-effort task is killed for each other that waits",
     .research = true,
     .options = &(const struct mo_flexy_options){.order = MO_FLEXY_PRIORITY, .resets = true},
     .state_bytes = sizeof(struct state),
     .dispatch = dispatch},
    {.name = "flexy-0",
     .description = "as many devices as tasks with a target need, the others for best-effort ones (Flexy)",
     .options = &(const struct mo_flexy_options){.order = MO_FLEXY_ELASTIC},
     .state_bytes = sizeof(struct state),
     .dispatch = dispatch},
    {.name = "flexy-1",
     .description = "flexy-0, and at least one device (Flexy with its minimum reservation)",
     .options = &(const struct mo_flexy_options){.order = MO_FLEXY_ELASTIC, .keep = 1},
     .state_bytes = sizeof(struct state),
     .dispatch = dispatch},
    {.name = "flexy-reset",
     .description = "flexy-0, and best-effort tasks on those devices are killed (Flexy with resets)",
     .research = true,
     .options = &(const struct mo_flexy_options){.order = MO_FLEXY_ELASTIC, .resets = true},
     .state_bytes = sizeof(struct state),
     .dispatch = dispatch},
};

extern const struct mo_policy mo_policy_moire_classes;

const struct mo_policy *const *mo_policy_classes(void) {
    static const struct mo_policy *const list[] = {
        &rows[0], &rows[1], &rows[2], &rows[3], &rows[4], &rows[5], &rows[6], &mo_policy_moire_classes, NULL};
    return list;
}

struct mo_policy mo_policy_flexy(const struct mo_flexy_options *options) {
    struct mo_policy p = rows[0];
    p.options = options;
    return p;
}
