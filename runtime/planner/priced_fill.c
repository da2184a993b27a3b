/* SPDX-License-Identifier: Apache-2.0
 * priced_fill.c - see priced_fill.h. */
#include <math.h>
#include <string.h>
#include "runtime/planner/priced_fill.h"

enum { LEADS = 6, FEW_LEADS = 3, SHARERS = 16, FEW_SHARERS = 8, MANY_TENANTS = 16 };

struct lead {
    int size, tenant;
    double worth; /* estimate for the whole GPU */
};

struct filling {
    struct mo_placement *placement;
    const double *price;
    int begin, end;
    int leads, sharers;                                /* how many are tried */
    double best[MO_PLAN_SIZES];                        /* worth of the best let of that size now */
    double rest[MO_PLAN_UNITS + 1][MO_PLAN_UNITS + 1]; /* [units][lets]: worth of the best cut */
};

void mo_greedy_prices(const struct mo_space *space, double *price) {
    const struct mo_plan_view *view = space->view;
    for (int t = 0; t < space->n; t++) {
        price[t] = INFINITY;
        for (int k = 0; k < view->n_kinds; k++)
            for (int s = 0; s < view->kinds[k].n_sizes; s++) {
                double rate = mo_space_cell(space, k, s, t)->rate;
                double share = (double)view->kinds[k].sizes[s] / view->kinds[k].units;
                if (rate > 0) price[t] = fmin(price[t], share / rate);
            }
        if (price[t] == INFINITY) price[t] = 0;
    }
}

static bool wants(const struct filling *f, int tenant) {
    return f->placement->left[tenant] > 1e-7 * f->placement->space->rate[tenant];
}

/* Worth of a let of that size for its best tenant, and of the best cut of so many units. */
static void estimate(struct filling *f, int kind) {
    const struct mo_plan_kind *k = &f->placement->space->view->kinds[kind];
    memset(f->rest, 0, sizeof f->rest);
    for (int s = 0; s < k->n_sizes; s++) {
        f->best[s] = 0;
        for (int t = f->begin; t < f->end; t++) {
            double rate = fmin(mo_space_cell(f->placement->space, kind, s, t)->rate, f->placement->left[t]);
            f->best[s] = fmax(f->best[s], f->price[t] * rate);
        }
    }
    for (int l = 1; l <= k->max_lets && l <= k->units; l++)
        for (int u = 1; u <= k->units; u++) {
            f->rest[u][l] = f->rest[u - 1][l];
            for (int s = 0; s < k->n_sizes && k->sizes[s] <= u; s++)
                f->rest[u][l] = fmax(f->rest[u][l], f->best[s] + f->rest[u - k->sizes[s]][l - 1]);
        }
}

static void keep_best(struct lead *leads, int *n, int most, struct lead lead) {
    int at = *n < most ? (*n)++ : most;
    if (at == most && leads[most - 1].worth >= lead.worth) return;
    if (at == most) at--;
    for (; at > 0 && leads[at - 1].worth < lead.worth; at--)
        leads[at] = leads[at - 1];
    leads[at] = lead;
}

/* Candidates for the next let of a GPU. */
static int find_leads(struct filling *f, int g, struct lead *leads) {
    const struct mo_placement_gpu *gpu = &f->placement->gpus[g];
    const struct mo_plan_kind *k = &f->placement->space->view->kinds[gpu->kind];
    int n = 0, lets = k->max_lets - gpu->n - 1;
    if (lets > k->units) lets = k->units;
    for (int s = 0; lets >= 0 && s < k->n_sizes && k->sizes[s] <= gpu->free_units; s++)
        for (int t = f->begin; t < f->end; t++) {
            double rate = mo_space_cell(f->placement->space, gpu->kind, s, t)->rate,
                   left = f->placement->left[t];
            if (!(rate > 0) || !wants(f, t)) continue;
            double worth = f->price[t] * fmin(rate, left);
            /* the time that is left over may be filled by turns, if not as well */
            if (left < rate) worth += 0.7 * (1 - left / rate) * f->best[s];
            worth += f->rest[gpu->free_units - k->sizes[s]][lets];
            keep_best(leads, &n, f->leads, (struct lead){s, t, worth});
        }
    return n;
}

/* Gives what is left of a let's time to others, the most valuable rest first. */
static void fill_up(struct filling *f, int g, int l) {
    struct mo_placement *placement = f->placement;
    bool tried[MO_PLAN_TENANTS] = {false};
    for (int i = 0; i < f->sharers && placement->gpus[g].lets[l].n < placement->space->view->max_share; i++) {
        int best = -1;
        for (int t = f->begin; t < f->end; t++)
            if (!tried[t] && wants(f, t) &&
                (best < 0 || f->price[t] * placement->left[t] > f->price[best] * placement->left[best]))
                best = t;
        if (best < 0) break;
        tried[best] = true;
        mo_placement_share(placement, g, l, best, placement->left[best]);
    }
}

/* Adds a lead and those who share with it; false: does not fit, and the GPU and what is left are spoilt. */
static bool place(struct filling *f, int g, const struct lead *lead) {
    struct mo_placement *placement = f->placement;
    /* best effort takes nothing from its neighbours */
    double room = lead->tenant < placement->space->n_critical
                      ? mo_placement_alone(placement, g, lead->size, lead->tenant)
                      : mo_placement_room(placement, g, lead->size, lead->tenant);
    double rate = fmin(room, placement->left[lead->tenant]);
    if (!(rate > 0) || !mo_placement_displace(placement, g, lead->size, lead->tenant, rate)) return false;
    if (rate < room) fill_up(f, g, placement->gpus[g].n - 1);
    return true;
}

/* What went from `before` to now, priced. */
static double worth_since(const struct filling *f, const double *before) {
    double worth = 0;
    for (int t = f->begin; t < f->end; t++)
        worth += f->price[t] * (before[t] - f->placement->left[t]);
    return worth;
}

/* One more let on the GPU: the candidates are tried out, the best stays. */
static bool next_let(struct filling *f, int g) {
    struct lead leads[LEADS];
    struct mo_placement *placement = f->placement;
    struct mo_placement_gpu old = placement->gpus[g];
    const struct mo_plan_kind *k = &placement->space->view->kinds[old.kind];
    const size_t bytes = (size_t)placement->space->n * sizeof(double);
    double left[MO_PLAN_TENANTS], best_worth = 0;
    int best = -1;
    estimate(f, old.kind);
    int n = find_leads(f, g, leads), lets = k->max_lets - old.n - 1;
    if (lets > k->units) lets = k->units;
    memcpy(left, placement->left, bytes);
    for (int i = 0; i < n; i++) {
        double worth = place(f, g, &leads[i]) ? worth_since(f, left) : 0;
        if (worth > 0) worth += f->rest[old.free_units - k->sizes[leads[i].size]][lets];
        if (worth > best_worth) {
            best_worth = worth;
            best = i;
        }
        placement->gpus[g] = old;
        memcpy(placement->left, left, bytes);
    }
    return best >= 0 && place(f, g, &leads[best]);
}

/* What found no let is cut into parts for whatever has time left. */
static void scatter(struct filling *f) {
    struct mo_placement *placement = f->placement;
    for (int t = f->begin; t < f->end; t++)
        for (int g = 0; g < placement->n_gpus; g++)
            for (int l = 0; l < placement->gpus[g].n && wants(f, t); l++)
                mo_placement_share_part(placement, g, l, t, placement->left[t]);
}

void mo_greedy(struct mo_placement *placement, const double *price, int begin, int end) {
    bool many = end - begin > MANY_TENANTS;
    struct filling f = {.placement = placement,
                        .price = price,
                        .begin = begin,
                        .end = end,
                        .leads = many ? FEW_LEADS : LEADS,
                        .sharers = many ? FEW_SHARERS : SHARERS};
    for (int g = 0; g < placement->n_gpus; g++)
        while (next_let(&f, g)) {
        }
    scatter(&f);
}
