/* SPDX-License-Identifier: Apache-2.0
 * classes.c - moire-classes: two classes of tasks on several devices, none of them reserved.
 *
 * A device is one core, or `units` cores in a row; a block takes all that is idle of one device.  Tasks of
 * tenants that are not best effort run whole.  Best-effort tasks run block by block, no longer than
 * view.block_ns each where their layers allow that, so that a task with a target waits for a device no longer
 * than a block takes: there is no need to keep one idle for it.  A part of one may be kept (`kept`).
 *
 * Three kinds of tasks, in this order: urgent ones, which can still be in time, by deadline; best-effort
 * ones; and late ones, which cannot be in time any more, by age.  Within a tenant an urgent task passes those
 * that are late.  Nobody starves: while best-effort or late tasks wait, each of these two kinds has at least
 * `share` of the time of all devices: what it has had less is owed to it, and a task (of best-effort ones, a
 * block) for which enough is owed comes before urgent ones.  Of the blocks of best-effort tasks every
 * TURNS-th goes to their tenants in turn, the others to the task that is nearest to its end: a tenant among n
 * has share / (TURNS * n) of the time or more. */
#include "runtime/policy/classes.h"

#include <math.h>

enum kind { URGENT, LATE, BATCH, KINDS };
enum { TENANTS = 256, TURNS = 4, OWED_BLOCKS = 4 };

struct account { /* of a tenant, within a dispatch */
    int late, taken[KINDS];
};

struct state {
    int64_t seen;       /* time of the last dispatch; */
    double owed[KINDS]; /* units x ns that a kind should have had by then and has not; */
    int running[KINDS]; /* units that ran it from then on; */
    bool waited[KINDS]; /* and whether one waited */
    int blocks, turn;   /* blocks given to best-effort tasks; the tenant whose turn is next */
    struct account account[TENANTS];
    struct mo_cores idle; /* what is left of it within a dispatch */
};

static const struct mo_classes_options *options_of(const struct mo_view *view) {
    return view->options;
}
static int units_of(const struct mo_view *view) {
    const int units = options_of(view)->units;
    return units > 1 && units <= view->n_cores ? units : 1;
}
static int tenants_of(const struct mo_view *view) {
    return view->n_tenants < TENANTS ? view->n_tenants : TENANTS;
}

/* --- tasks ---------------------------------------------------------------------------------------------- */
static bool can_be_in_time(const struct mo_view *view, int query, int units) {
    const int64_t deadline = view->queries[query].deadline;
    return deadline != MO_NEVER && view->now + mo_view_left(view, query, units) <= deadline;
}

/* Deadlines of a tenant come in order, so what is late stands in front. */
static void count_late(struct state *s, const struct mo_view *view, int tenant) {
    const struct mo_view_tenant *t = &view->tenants[tenant];
    struct account *a = &s->account[tenant];
    *a = (struct account){0};
    while (!t->best_effort && a->late < t->n_waiting &&
           !can_be_in_time(view, t->waiting[a->late], units_of(view)))
        a->late++;
}

/* The tenant's next query of a kind that may run, -1 = none.  What is paused goes on as a best-effort task.
 */
static int head_of(const struct state *s, const struct mo_view *view, int tenant, enum kind kind) {
    const struct mo_view_tenant *t = &view->tenants[tenant];
    const struct account *a = &s->account[tenant];
    const int taken = a->taken[kind];
    if (kind == BATCH && taken < t->n_paused) return t->paused[taken];
    const int others = a->taken[URGENT] + a->taken[LATE];
    int at = kind == URGENT ? a->late + taken : taken, end = kind == LATE ? a->late : t->n_waiting;
    if (kind == BATCH) at -= t->n_paused;
    if (t->best_effort != (kind == BATCH) || at >= end) return -1;
    return (kind == BATCH ? at : others) < t->free_instances ? t->waiting[at] : -1;
}

/* Which comes first of a kind: the smallest. */
static double rank(const struct mo_view *view, int query, enum kind kind) {
    const struct mo_view_query *q = &view->queries[query];
    return kind == BATCH    ? (double)mo_view_left(view, query, units_of(view))
           : kind == URGENT ? (double)q->deadline
                            : (double)q->order;
}

static int next_of(const struct state *s, const struct mo_view *view, enum kind kind) {
    const bool in_turn = kind == BATCH && s->blocks % TURNS == TURNS - 1;
    const int n = tenants_of(view);
    int best = -1;
    double least = INFINITY;
    for (int k = 0; k < n; k++) {
        const int i = (s->turn + k) % n, head = head_of(s, view, i, kind);
        if (head < 0) continue;
        if (in_turn) return head;
        const double r = rank(view, head, kind);
        if (r < least) {
            least = r;
            best = head;
        }
    }
    return best;
}

/* --- devices -------------------------------------------------------------------------------------------- */
/* The idle units of a device that a class may have. */
static struct mo_cores idle_of(const struct state *s, const struct mo_view *view, int device, bool batch) {
    const int units = units_of(view), kept = batch && device == 0 ? options_of(view)->kept : 0;
    struct mo_cores out = {0};
    for (int u = kept; u < units; u++)
        if (mo_cores_has(&s->idle, device * units + u)) mo_cores_add(&out, device * units + u);
    return out;
}

/* The most idle one; empty: none is. */
static struct mo_cores best_device(const struct state *s, const struct mo_view *view, bool batch) {
    struct mo_cores best = {0};
    int most = 0;
    for (int d = 0; d < view->n_cores / units_of(view); d++) {
        const struct mo_cores idle = idle_of(s, view, d, batch);
        const int n = mo_cores_count(&idle);
        if (n <= most) continue;
        most = n;
        best = idle;
    }
    return best;
}

/* A task with a target runs whole, and if it is to be in time, where it is; else it waits for more of a
 * device. */
static bool serve(struct state *s, const struct mo_view *view, enum kind kind, struct mo_decisions *out) {
    const struct mo_cores cores = best_device(s, view, kind == BATCH);
    const int query = mo_cores_none(&cores) ? -1 : next_of(s, view, kind), n = mo_cores_count(&cores);
    if (query < 0 || (kind == URGENT && !can_be_in_time(view, query, n))) return false;
    const int tenant = view->queries[query].tenant;
    s->account[tenant].taken[kind]++;
    mo_cores_subtract(&s->idle, &cores);
    s->running[kind] += n;
    if (kind == BATCH) s->blocks++;
    if (kind == BATCH) s->turn = tenant + 1;
    mo_decide_run(out, query,
                  kind == BATCH ? mo_view_block(view, query, n) : view->tenants[tenant].profile->n_layers,
                  cores);
    mo_decide_cut(out, MO_CUT_BOUND);
    return true;
}

/* --- what is owed --------------------------------------------------------------------------------------- */
/* Who waits is owed its share of the time that has passed, less what it had. */
static void settle(struct state *s, const struct mo_view *view, enum kind kind, double share, double most) {
    const double passed = s->seen ? (double)(view->now - s->seen) : 0;
    if (s->waited[kind]) s->owed[kind] += passed * (share * view->n_cores - s->running[kind]);
    if (!s->waited[kind] || s->owed[kind] < 0) s->owed[kind] = 0;
    if (s->owed[kind] > most) s->owed[kind] = most;
}

static void look(struct state *s, const struct mo_view *view) {
    const double block = (double)view->block_ns * units_of(view);
    settle(s, view, BATCH, options_of(view)->share, block * OWED_BLOCKS);
    settle(s, view, LATE, options_of(view)->share, INFINITY);
    s->seen = view->now;
    s->idle = view->idle;
    s->running[BATCH] = s->running[LATE] = 0;
    for (int i = 0; i < view->n_running; i++) {
        const struct mo_view_run *r = &view->runs[view->running[i]];
        const struct mo_view_query *q = &view->queries[r->query];
        if (view->tenants[q->tenant].best_effort)
            s->running[BATCH] += r->n_cores;
        else if (r->predicted_end > q->deadline)
            s->running[LATE] += r->n_cores;
    }
    for (int i = 0; i < tenants_of(view); i++)
        count_late(s, view, i);
}

static double time_of(const struct mo_view *view, int query) {
    return query < 0 ? INFINITY : (double)mo_view_left(view, query, units_of(view)) * units_of(view);
}

static void dispatch(void *state, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out) {
    struct state *s = state;
    (void)event;
    look(s, view);
    const double block = (double)view->block_ns * units_of(view);
    for (double owed = s->owed[BATCH]; owed > block && serve(s, view, BATCH, out);)
        owed -= block;
    for (double owed = s->owed[LATE], time;
         owed > (time = time_of(view, next_of(s, view, LATE))) && serve(s, view, LATE, out);)
        owed -= time;
    while (serve(s, view, URGENT, out)) {
    }
    while (serve(s, view, BATCH, out)) {
    }
    while (serve(s, view, LATE, out)) {
    }
    s->waited[BATCH] = next_of(s, view, BATCH) >= 0;
    s->waited[LATE] = next_of(s, view, LATE) >= 0;
}

const struct mo_policy mo_policy_moire_classes = {
    .name = "moire-classes",
    .description = "two classes on devices: best-effort tasks block by block, a minimum share of time theirs",
    .options = &(const struct mo_classes_options){.share = 0.05},
    .state_bytes = sizeof(struct state),
    .dispatch = dispatch,
};
