/* SPDX-License-Identifier: Apache-2.0
 * model.c - see model.h. */
#include <math.h>
#include <string.h>
#include "runtime/planner/model.h"

void *mo_scratch_raw(struct mo_plan_scratch *s, size_t count, size_t size) {
    size_t at = (s->used + 63) & ~(size_t)63;
    if (at > s->bytes || (size && count > (s->bytes - at) / size)) return NULL;
    s->used = at + count * size;
    return s->base + at;
}

void *mo_scratch_take(struct mo_plan_scratch *s, size_t count, size_t size) {
    void *p = mo_scratch_raw(s, count, size);
    return p ? memset(p, 0, count * size) : NULL;
}

int mo_kind_size(const struct mo_plan_kind *kind, int units) {
    int s = 0;
    while (s < kind->n_sizes && kind->sizes[s] < units)
        s++;
    return s;
}

/* Before = greater rate; then the tighter target; then the name. */
static bool before(const struct mo_plan_tenant *a, const struct mo_plan_tenant *b) {
    if (a->best_effort != b->best_effort) return b->best_effort;
    if (a->rate != b->rate) return a->rate > b->rate;
    if (a->target_ns != b->target_ns) return a->target_ns < b->target_ns;
    return strcmp(a->name, b->name) < 0;
}

static void sort_tenants(struct mo_space *space) {
    const struct mo_plan_tenant *t = space->view->tenants;
    for (int i = 0; i < space->view->n_tenants; i++) {
        int at = space->n;
        if (!(t[i].rate > 0)) continue;
        for (; at > 0 && before(&t[i], &t[space->index[at - 1]]); at--)
            space->index[at] = space->index[at - 1];
        space->index[at] = i;
        space->n++;
        space->n_critical += !t[i].best_effort;
    }
    for (int i = 0; i < space->n; i++)
        space->rate[i] = t[space->index[i]].rate;
}

static void take_use(struct mo_plan_cell *cell, const struct mo_interference *model,
                     const struct mo_share_use *use, double *most) {
    double suffers = model->l2_self * use->l2 + model->dram_self * use->dram;
    if (suffers > *most) {
        *most = suffers;
        cell->self = *use;
    }
    if (use->l2 > cell->out.l2) cell->out.l2 = use->l2;
    if (use->dram > cell->out.dram) cell->out.dram = use->dram;
    if (use->sm > cell->out.sm) cell->out.sm = use->sm;
}

static int fill_cell(struct mo_space *space, int kind, int size, int tenant,
                     struct mo_plan_scratch *scratch) {
    const struct mo_plan_kind *k = &space->view->kinds[kind];
    const struct mo_share_profile *p = space->view->tenants[space->index[tenant]].profile[kind];
    struct mo_plan_cell *cell = &space->cells[(kind * space->n + tenant) * MO_PLAN_SIZES + size];
    int share = mo_share_of_units(k->sizes[size], k->units);
    int64_t target = mo_space_target(space, tenant), *solo;
    double most = -INFINITY;
    if (!p) return MOIRE_OK;
    solo = mo_scratch_raw(scratch, (size_t)p->max_batch + 1, sizeof *solo);
    if (!solo) return MOIRE_ENOMEM;
    cell->solo = solo;
    cell->copy = (double)mo_share_copy(p, 1);
    for (int b = 1; b <= p->max_batch; b++) {
        struct mo_share_use use = mo_share_use_at(p, b, share);
        solo[b] = mo_share_latency(p, b, share);
        if (solo[b] <= 0 || solo[b] >= MO_SHARE_NEVER || 2 * mo_cell_time(cell, b, 1) > target) break;
        cell->max_batch = b;
        take_use(cell, &k->interference, &use, &most);
    }
    cell->rate = mo_space_rate(space, kind, size, tenant, 1);
    return MOIRE_OK;
}

/* x + burst sqrt(x) = batch */
static double mean_of_batch(int batch, double burst) {
    double root = (sqrt(burst * burst + 4.0 * batch) - burst) / 2;
    return root * root;
}

int mo_space_open(struct mo_space *space, const struct mo_plan_view *view, struct mo_plan_scratch *scratch,
                  bool interference, moire_error *err) {
    int code = MOIRE_OK;
    *space = (struct mo_space){.view = view, .interference = interference};
    sort_tenants(space);
    for (int b = 1; b <= MO_SHARE_BATCH; b++)
        space->mean[b] = mean_of_batch(b, view->burst);
    size_t n = (size_t)view->n_kinds * (size_t)space->n * MO_PLAN_SIZES;
    space->cells = mo_scratch_take(scratch, n, sizeof *space->cells);
    if (!space->cells) code = MOIRE_ENOMEM;
    for (int k = 0; !code && k < view->n_kinds; k++)
        for (int s = 0; !code && s < view->kinds[k].n_sizes; s++)
            for (int t = 0; !code && t < space->n; t++)
                code = fill_cell(space, k, s, t, scratch);
    if (code) return mo_fail(err, code, "planning: %zu bytes of scratch are too few", scratch->bytes);
    return code;
}

double mo_space_slowdown(const struct mo_space *space, int kind, int size, int tenant,
                         const struct mo_share_use *others, int n_others) {
    const struct mo_plan_cell *cell = mo_space_cell(space, kind, size, tenant);
    if (!space->interference || n_others == 0) return 1;
    return mo_interference(&space->view->kinds[kind].interference, &cell->self, others, n_others);
}

double mo_space_rate(const struct mo_space *space, int kind, int size, int tenant, double slowdown) {
    const struct mo_plan_cell *cell = mo_space_cell(space, kind, size, tenant);
    int64_t target = mo_space_target(space, tenant);
    double best = 0;
    for (int b = 1; b <= cell->max_batch; b++) {
        int64_t time = mo_cell_time(cell, b, slowdown);
        if (2 * time > target) break;
        double rate = space->mean[b] * 1e9 / (double)time;
        if (rate > best) best = rate;
    }
    return best;
}

int mo_plan_batch(double rate, double burst, int64_t duty_ns) {
    double mean = rate * (double)duty_ns * 1e-9;
    double queries = (burst > 0 ? mean + burst * sqrt(mean) : mean) - 1e-6;
    if (!(queries > 0)) return 1;
    if (queries >= 2 * MO_SHARE_BATCH) return 2 * MO_SHARE_BATCH;
    int batch = (int)queries; /* rounded up: this is asked very often, and ceil() is a call */
    return batch + (batch < queries);
}

/* One step towards the fixed point: times of the batches that `duty` needs; -1: some tenant cannot. */
static int64_t cycle(const struct mo_space *space, int kind, int size, struct mo_piece *pieces, int n,
                     const double *slowdown, int64_t duty) {
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
        const struct mo_plan_cell *cell = mo_space_cell(space, kind, size, pieces[i].tenant);
        pieces[i].batch = duty ? mo_plan_batch(pieces[i].rate, space->view->burst, duty) : 1;
        if (pieces[i].batch > cell->max_batch) return -1;
        pieces[i].latency_ns = mo_cell_time(cell, pieces[i].batch, slowdown[i]);
        sum += pieces[i].latency_ns;
    }
    for (int i = 0; i < n; i++)
        if (sum + pieces[i].latency_ns > mo_space_target(space, pieces[i].tenant)) return -1;
    return sum;
}

bool mo_let_fits(struct mo_space *space, int kind, int size, struct mo_piece *pieces, int n,
                 const struct mo_share_use *others, int n_others, int64_t *duty_ns) {
    double slowdown[MO_LET_TENANTS];
    if (n > space->view->max_share) return false;
    for (int i = 0; i < n; i++)
        slowdown[i] = mo_space_slowdown(space, kind, size, pieces[i].tenant, others, n_others);
    return mo_let_fits_slowed(space, kind, size, pieces, n, slowdown, duty_ns);
}

bool mo_let_fits_slowed(struct mo_space *space, int kind, int size, struct mo_piece *pieces, int n,
                        const double *slowdown, int64_t *duty_ns) {
    int64_t duty = 0, next;
    space->steps++;
    while ((next = cycle(space, kind, size, pieces, n, slowdown, duty)) > duty)
        duty = next;
    *duty_ns = duty;
    return next == duty;
}
