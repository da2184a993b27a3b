/* SPDX-License-Identifier: Apache-2.0
 * settle.c - see settle.h.
 *
 * On each GPU the lets lie by falling size, then by their first tenant's name.  GPUs are matched to those of
 * the plan in force one by one, the pair with most in common first; what two GPUs have in common is lets with
 * the same units, and most of all those with the same tenants as well, which need no reorganisation at all.
 */
#include <string.h>
#include "runtime/planner/settle.h"

/* Lets [begin, end) of one GPU; the plan is sorted by GPU. */
struct range {
    int begin, end;
};

static const char *first_name(const struct mo_plan_view *view, const struct mo_planned_let *let) {
    return view->tenants[let->entries[0].tenant].name;
}

static bool before(const struct mo_plan_view *view, const struct mo_planned_let *a,
                   const struct mo_planned_let *b) {
    if (a->gpu != b->gpu) return a->gpu < b->gpu;
    if (a->units != b->units) return a->units > b->units;
    int names = strcmp(first_name(view, a), first_name(view, b));
    if (names) return names < 0;
    return a->entries[0].rate > b->entries[0].rate;
}

static void sort_lets(const struct mo_plan_view *view, struct mo_lets_plan *plan) {
    for (int i = 1; i < plan->n_lets; i++) {
        struct mo_planned_let let = plan->lets[i];
        int at = i;
        for (; at > 0 && before(view, &let, &plan->lets[at - 1]); at--)
            plan->lets[at] = plan->lets[at - 1];
        plan->lets[at] = let;
    }
    for (int i = 0, next = 0; i < plan->n_lets; i++) {
        if (i && plan->lets[i].gpu != plan->lets[i - 1].gpu) next = 0;
        plan->lets[i].first = next;
        next += plan->lets[i].units;
    }
}

static void find_ranges(const struct mo_lets_plan *plan, struct range *ranges, int n_gpus) {
    for (int g = 0, at = 0; g < n_gpus; g++) {
        ranges[g].begin = at;
        while (at < plan->n_lets && plan->lets[at].gpu == g)
            at++;
        ranges[g].end = at;
    }
}

static bool same_tenants(const struct mo_planned_let *a, const struct mo_planned_let *b) {
    int found = 0;
    for (int i = 0; i < a->n_entries; i++)
        for (int j = 0; j < b->n_entries; j++)
            found += a->entries[i].tenant == b->entries[j].tenant;
    return found == a->n_entries && found == b->n_entries;
}

static int common(const struct mo_lets_plan *now, struct range a, const struct mo_lets_plan *old,
                  struct range b) {
    int score = a.end - a.begin == b.end - b.begin;
    for (int i = a.begin; i < a.end; i++)
        for (int j = b.begin; j < b.end; j++) {
            const struct mo_planned_let *x = &now->lets[i], *y = &old->lets[j];
            if (x->first == y->first && x->units == y->units) score += same_tenants(x, y) ? 8 : 2;
        }
    return score;
}

/* number[g] = what GPU g of the new plan becomes: best pairs first, ties by number. */
static void match(const struct mo_plan_view *view, const struct mo_lets_plan *plan, int *number) {
    struct range now[MO_PLAN_GPUS], old[MO_PLAN_GPUS];
    int score[MO_PLAN_GPUS][MO_PLAN_GPUS], n = view->n_gpus; /* negative: given away, or not of a kind */
    find_ranges(plan, now, n);
    find_ranges(view->in_force, old, n);
    for (int g = 0; g < n; g++)
        for (int h = 0; h < n; h++) {
            bool alike = view->gpu_kind[g] == view->gpu_kind[h];
            score[g][h] = alike ? 2 * common(plan, now[g], view->in_force, old[h]) + (g == h) : -1;
        }
    for (int round = 0; round < n; round++) {
        int from = 0, to = 0, best = -1;
        for (int g = 0; g < n; g++)
            for (int h = 0; h < n; h++)
                if (score[g][h] > best) {
                    best = score[g][h];
                    from = g;
                    to = h;
                }
        for (int i = 0; i < n; i++)
            score[from][i] = score[i][to] = -1;
        number[from] = to;
    }
}

void mo_plan_settle(const struct mo_plan_view *view, struct mo_lets_plan *plan) {
    int number[MO_PLAN_GPUS];
    sort_lets(view, plan);
    if (!view->in_force || view->in_force->n_tenants != view->n_tenants) return;
    match(view, plan, number);
    for (int l = 0; l < plan->n_lets; l++)
        plan->lets[l].gpu = number[plan->lets[l].gpu];
    sort_lets(view, plan);
}
