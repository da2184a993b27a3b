/* SPDX-License-Identifier: Apache-2.0
 * released.c - the released scheduler's way through the models, and three planners of it: as it is
 * (`gpulet-released`), on whole GPUs, which is the paper's SBP (`sbp-paper`), and on every choice of one of
 * four cuts for each GPU until one serves all, which is the paper's ideal (`ideal-partitions`).  See
 * released.h. */
#include <math.h>
#include <string.h>
#include "runtime/planner/model.h"
#include "runtime/planner/planners.h"
#include "runtime/planner/released/released.h"

enum { NODES = MO_RELEASED_CUTS * MO_PLAN_GPUS, MOST_CHOICES = 1 << 16 };

const struct mo_released_rules mo_released_neutral = {.interference = true,
                                                      .parts = true,
                                                      .cuts = true,
                                                      .enough = 0.85,
                                                      .late = 0.05,
                                                      .ignored = 15,
                                                      .latency = 1,
                                                      .context_bytes = INT64_C(1230) << 20,
                                                      .memory = 0.9,
                                                      .link_bits = 3.0 * 1024 * 1024 * 1024};

/* Before = smaller rate x target; the program then takes the greater number of a model, here it is the name.
 */
static bool before(const struct mo_released *r, const struct mo_released_task *a,
                   const struct mo_released_task *b) {
    double x = a->rate * a->target, y = b->rate * b->target;
    return x < y ||
           (x == y && strcmp(r->view->tenants[a->tenant].name, r->view->tenants[b->tenant].name) > 0);
}

static void take_tasks(struct mo_released *r) {
    r->n_tasks = 0;
    for (int t = 0; t < r->view->n_tenants; t++) {
        const struct mo_plan_tenant *tenant = &r->view->tenants[t];
        struct mo_released_task task = {
            .tenant = t, .rate = tenant->rate, .target = (double)tenant->target_ns * 1e-6};
        int at = r->n_tasks;
        if (!(tenant->rate > 0) || tenant->best_effort || !tenant->profile[r->view->gpu_kind[0]]) continue;
        for (; at > 0 && before(r, &task, &r->tasks[at - 1]); at--)
            r->tasks[at] = r->tasks[at - 1];
        r->tasks[at] = task;
        r->n_tasks++;
    }
}

static double served(const struct mo_released *r, int tenant) {
    double sum = 0;
    for (int g = 0; g < r->view->n_gpus; g++)
        for (int i = 0; i < r->gpus[g].n; i++)
            for (int p = 0; p < r->gpus[g].nodes[i].n; p++)
                if (r->gpus[g].nodes[i].pieces[p].tenant == tenant)
                    sum += r->gpus[g].nodes[i].pieces[p].served;
    return sum;
}

/* Takes a model off a node; false: it was not there.  Part of the time is counted anew, as interference has
 * it now. */
static bool take_off(const struct mo_released *r, struct mo_released_node *node, int tenant) {
    int n = node->n;
    double busy = 0;
    node->n = 0;
    for (int p = 0; p < n; p++)
        if (node->pieces[p].tenant != tenant) node->pieces[node->n++] = node->pieces[p];
    for (int p = 0; p < node->n; p++)
        busy += mo_released_time(r, node, node->pieces[p].tenant, node->pieces[p].batch);
    if (n > 0) node->busy = busy / node->duty;
    return node->n < n;
}

static bool place(struct mo_released *r, struct mo_released_task *task) {
    struct mo_released_node *given[NODES], *only[NODES];
    int n = 0, n_only = 0;
    bool there = served(r, task->tenant) > 0;
    if (!there && mo_released_fit(r, task)) return true;
    for (int g = 0; g < r->view->n_gpus; g++)
        for (int i = 0; i < r->gpus[g].n; i++) {
            struct mo_released_node *node = &r->gpus[g].nodes[i];
            if (there && take_off(r, node, task->tenant)) only[n_only++] = node;
            if (node->n == 0) given[n++] = node;
        }
    mo_released_readjust(r, task, given, n);
    return mo_released_merge(r, task) || mo_released_turns(r, task, only, n_only);
}

/* Keeps the models that lost too much by interference, to place them once more; false: one has been already.
 */
static bool keep_short(struct mo_released *r) {
    int n = 0;
    for (int i = 0; r->rules.interference && i < r->n_tasks; i++) {
        struct mo_released_task task = r->tasks[i];
        if (served(r, task.tenant) >= task.rate * r->rules.enough) continue;
        if (task.again) return false;
        task.again = true;
        r->tasks[n++] = task;
    }
    r->n_tasks = n;
    return true;
}

static bool place_all(struct mo_released *r) {
    take_tasks(r);
    while (r->n_tasks > 0) {
        for (int i = 0; i < r->n_tasks; i++) {
            struct mo_released_task task = r->tasks[i];
            if (!place(r, &task)) return false;
        }
        if (!keep_short(r)) return false;
    }
    return true;
}

static void clear(struct mo_released *r) {
    for (int g = 0; g < r->view->n_gpus; g++) {
        r->gpus[g] = (struct mo_released_gpu){.n = 1};
        r->gpus[g].nodes[0] = (struct mo_released_node){.gpu = g, .units = r->kind->units};
    }
}

static int take_rules(struct mo_released *r, const struct mo_plan_view *view,
                      const struct mo_released_rules *rules, moire_error *err) {
    const struct mo_plan_kind *kind = &view->kinds[view->gpu_kind[0]];
    *r = (struct mo_released){.view = view, .kind = kind, .rules = *rules};
    for (int g = 1; g < view->n_gpus; g++)
        if (view->gpu_kind[g] != view->gpu_kind[0])
            return mo_fail(err, MOIRE_ELIMIT, "the released scheduler: GPUs of more than one kind");
    for (int s = kind->n_sizes - 1; s >= 0; s--) {
        int units = kind->sizes[s], rest = mo_kind_size(kind, kind->units - units);
        bool cut = rules->parts && kind->max_lets > 1 && kind->sizes[rest] == kind->units - units;
        if (units == kind->units || cut) r->sizes[r->n_sizes++] = units;
    }
    return MOIRE_OK;
}

/* What it calls served is the rate asked for; else what it found, up to that. */
static void write(const struct mo_released *r, bool all, struct mo_lets_plan *out) {
    for (int g = 0; g < r->view->n_gpus; g++)
        for (int i = 0, first = 0; i < r->gpus[g].n; first += r->gpus[g].nodes[i++].units) {
            const struct mo_released_node *node = &r->gpus[g].nodes[i];
            struct mo_planned_let *let = &out->lets[out->n_lets];
            if (node->n == 0) continue;
            *let = (struct mo_planned_let){.gpu = g, .first = first, .units = node->units};
            let->duty_ns = (int64_t)(node->duty * 1e6);
            for (int p = 0; p < node->n; p++) {
                const struct mo_released_piece *piece = &node->pieces[p];
                double rate = r->view->tenants[piece->tenant].rate, sum = served(r, piece->tenant);
                double time = mo_released_time(r, node, piece->tenant, piece->batch);
                let->entries[let->n_entries++] = (struct mo_let_entry){
                    piece->tenant, piece->batch, piece->served * (all || sum > rate ? rate / sum : 1),
                    (int64_t)(time * 1e6)};
            }
            out->n_lets++;
        }
}

int mo_released_plan(const struct mo_plan_view *view, const struct mo_released_rules *rules,
                     struct mo_plan_scratch *scratch, struct mo_lets_plan *out, moire_error *err) {
    struct mo_released *r = mo_scratch_raw(scratch, 1, sizeof *r);
    if (!r) return mo_fail(err, MOIRE_ENOMEM, "planning: %zu bytes of scratch are too few", scratch->bytes);
    int code = take_rules(r, view, rules, err);
    if (code) return code;
    clear(r);
    write(r, place_all(r), out);
    return MOIRE_OK;
}

static int released(const struct mo_plan_view *view, struct mo_plan_scratch *scratch,
                    struct mo_lets_plan *out, moire_error *err) {
    return mo_released_plan(view, &mo_released_neutral, scratch, out, err);
}

static int whole_gpus(const struct mo_plan_view *view, struct mo_plan_scratch *scratch,
                      struct mo_lets_plan *out, moire_error *err) {
    struct mo_released_rules rules = mo_released_neutral;
    rules.interference = rules.parts = false;
    return mo_released_plan(view, &rules, scratch, out, err);
}

/* Cuts every GPU as the digits of `choice` to base n_cuts say, the first GPU by the lowest; cuts[i] is the
 * larger let. */
static void cut_all(struct mo_released *r, const int *cuts, int n_cuts, int choice) {
    clear(r);
    for (int g = 0; g < r->view->n_gpus; g++, choice /= n_cuts)
        mo_released_cut(r, &r->gpus[g].nodes[0], cuts[choice % n_cuts]);
}

/* Where no choice serves all, the last one tells how far it gets. */
static int partitions(const struct mo_plan_view *view, struct mo_plan_scratch *scratch,
                      struct mo_lets_plan *out, moire_error *err) {
    struct mo_released_rules rules = mo_released_neutral;
    struct mo_released *r = mo_scratch_raw(scratch, 1, sizeof *r);
    int cuts[MO_PLAN_SIZES], n_cuts = 0, choices = 1;
    if (!r) return mo_fail(err, MOIRE_ENOMEM, "planning: %zu bytes of scratch are too few", scratch->bytes);
    rules.cuts = false;
    int code = take_rules(r, view, &rules, err);
    if (code) return code;
    for (int s = r->n_sizes - 1; s >= 0; s--)
        if (2 * r->sizes[s] >= r->kind->units) cuts[n_cuts++] = r->sizes[s];
    for (int g = 0; g < view->n_gpus && choices <= MOST_CHOICES; g++)
        choices *= n_cuts;
    if (n_cuts == 0 || choices > MOST_CHOICES)
        return mo_fail(err, MOIRE_ELIMIT, "ideal-partitions: over %d ways to cut all GPUs", MOST_CHOICES);
    bool all = false;
    for (int c = 0; c < choices && !all; c++) {
        cut_all(r, cuts, n_cuts, c);
        all = place_all(r);
    }
    write(r, all, out);
    return MOIRE_OK;
}

const struct mo_planner mo_planner_released = {.name = "gpulet-released",
                                               .description =
                                                   "gpu-let's program as released, its tolerances included",
                                               .plan = released};
const struct mo_planner mo_planner_sbp_paper = {
    .name = "sbp-paper", .description = "gpu-let's own SBP: its program on whole GPUs", .plan = whole_gpus};
const struct mo_planner mo_planner_partitions = {
    .name = "ideal-partitions",
    .description = "gpu-let's own ideal: its program on every choice of cuts, until one serves all",
    .plan = partitions};
