/* SPDX-License-Identifier: Apache-2.0
 * inss_plan.c - see inss_plan.h. */
#include "runtime/planner/inss/inss_plan.h"

#include <stdio.h>
#include <string.h>
#include "runtime/learn/masked.h"
#include "runtime/learn/td3.h"
#include "runtime/planner/placement.h"

void mo_inss_gpus(const struct mo_plan_kind *kind, char *text) {
    size_t n = (size_t)snprintf(text, MO_POLICY_GPUS, "%.64s of %d units, lets of", kind->name, kind->units);
    for (int i = 0; i < kind->n_sizes; i++)
        n += (size_t)snprintf(text + n, MO_POLICY_GPUS - n, " %d", kind->sizes[i]);
    snprintf(text + n, MO_POLICY_GPUS - n, ", %d at a time", kind->max_lets);
}

int mo_inss_policy_fits(const struct mo_policy_file *policy, const char *path,
                        const struct mo_plan_kind *kind, moire_error *err) {
    char here[MO_POLICY_GPUS];
    mo_inss_gpus(kind, here);
    if (strcmp(policy->gpus, here) != 0)
        return mo_fail(err, MOIRE_EINVAL, "'%.200s' was trained for '%s', and here is '%s'",
                       path ? path : "the policy", policy->gpus, here);
    if (policy->n_slots != mo_inss_slots(kind) || policy->n_gpus > MO_INSS_GROUP ||
        policy->place.size[0] != mo_inss_place_state_size(policy->n_gpus) ||
        policy->divide.size[0] != mo_inss_divide_state_size(policy->n_slots))
        return mo_fail(err, MOIRE_EINVAL,
                       "'%.200s': its nets see other things than this moire shows: train again",
                       path ? path : "the policy");
    return MOIRE_OK;
}

int mo_inss_policy_open(const struct mo_env *env, const char *path, const struct mo_plan_kind *kind,
                        struct mo_policy_file *out, moire_error *err) {
    memset(out, 0, sizeof *out);
    int code = mo_policy_read(env, path, out, err);
    if (!code) code = mo_inss_policy_fits(out, path, kind, err);
    if (!code) return MOIRE_OK;
    mo_policy_close(out);
    memset(out, 0, sizeof *out);
    return code;
}

static const float *answer(const struct mo_net *net, const float *state, struct mo_inss_work *work) {
    const struct mo_sgemm plain = {0};
    struct mo_pass pass = {.out = {work->layer[0], work->layer[1], work->layer[2]}};
    return mo_net_forward(&plain, net, state, net->size[0], 1, &pass);
}

void mo_inss_decide(const struct mo_policy_file *policy, struct mo_inss_scene *scene,
                    struct mo_inss_work *work) {
    float state[MO_INSS_DIVIDE_STATE > MO_INSS_PLACE_STATE ? MO_INSS_DIVIDE_STATE : MO_INSS_PLACE_STATE];
    float mask[MO_INSS_SLOTS], action[2 * MO_INSS_SLOTS];
    int member[MO_INSS_SLOTS];
    for (int i = 0; i < scene->n; i++)
        if (mo_inss_place_state(scene, i, state, mask))
            scene->party[i].gpu = mo_masked_best(scene->n_gpus, answer(&policy->place, state, work), mask);
    for (int g = 0; g < scene->n_there; g++) {
        const int n = mo_inss_divide_state(scene, g, state, mask, member);
        if (!n) continue;
        mo_td3_head(scene->n_slots, answer(&policy->divide, state, work), mask, action);
        mo_inss_divide(scene, member, n, action);
    }
}

/* --- the planner ---------------------------------------------------------------------------------------- */
static struct mo_inss_party party_of(const struct mo_space *space, int tenant) {
    const struct mo_plan_tenant *t = &space->view->tenants[space->index[tenant]];
    struct mo_inss_party p = {.profile = t->profile[0],
                              .rate = t->rate,
                              .target_ns = t->target_ns ? t->target_ns : MO_PLAN_TARGET_NS,
                              .at = tenant};
    mo_inss_party_look(&p, &space->view->kinds[0]);
    return p;
}

/* Puts a party into the group with least demand a GPU that has room; without room it is not placed. */
static void deal(struct mo_inss_scene *groups, double *demand, int n_groups,
                 const struct mo_inss_party *party) {
    int best = -1;
    for (int g = 0; g < n_groups; g++)
        if (groups[g].n < groups[g].n_there * groups[g].n_slots &&
            (best < 0 || demand[g] * groups[best].n_there < demand[best] * groups[g].n_there))
            best = g;
    if (best < 0) return;
    groups[best].party[groups[best].n++] = *party;
    demand[best] += party->rate * party->cost;
}

/* A let for a party where the policy wants it, at the most that it can have there; one that fits nowhere
 * beside the others is left out. */
static void put(struct mo_placement *placement, const struct mo_inss_party *party, int gpu) {
    const struct mo_plan_kind *kind = &placement->space->view->kinds[0];
    const int size = mo_kind_size(kind, party->units), t = party->at;
    const struct mo_placement_gpu before = placement->gpus[gpu];
    double left[MO_PLAN_TENANTS];
    const double most = mo_placement_alone(placement, gpu, size, t);
    const double rate = most < placement->left[t] ? most : placement->left[t];
    if (!(rate > 0)) return;
    memcpy(left, placement->left, (size_t)placement->space->n * sizeof *left);
    if (mo_placement_displace(placement, gpu, size, t, rate)) return;
    placement->gpus[gpu] = before;
    memcpy(placement->left, left, (size_t)placement->space->n * sizeof *left);
}

static int check(const struct mo_plan_view *view, moire_error *err) {
    if (!view->learned)
        return mo_fail(err, MOIRE_EINVAL, "inss plans with a trained policy, and none was given");
    if (view->n_kinds > 1)
        return mo_fail(err, MOIRE_ELIMIT, "inss plans for GPUs of one kind, and here are %d", view->n_kinds);
    return mo_inss_policy_fits(view->learned, NULL, &view->kinds[0], err);
}

static int plan_with(const struct mo_plan_view *view, struct mo_plan_scratch *scratch, bool interference,
                     struct mo_lets_plan *out, moire_error *err) {
    struct mo_space space;
    struct mo_placement placement;
    double demand[MO_PLAN_GPUS] = {0};
    int code = check(view, err);
    if (!code) code = mo_space_open(&space, view, scratch, interference, err);
    if (!code) code = mo_placement_open(&placement, &space, scratch, err);
    if (code) return code;
    const int per = view->learned->n_gpus, n_groups = (view->n_gpus + per - 1) / per;
    struct mo_inss_party *all = mo_scratch_take(scratch, (size_t)space.n + 1, sizeof *all);
    struct mo_inss_scene *groups = mo_scratch_take(scratch, (size_t)n_groups, sizeof *groups);
    struct mo_inss_work *work = mo_scratch_raw(scratch, 1, sizeof *work);
    if (!all || !groups || !work) return mo_fail(err, MOIRE_ENOMEM, "inss: out of scratch");
    int n = 0;
    for (int t = 0; t < space.n; t++)
        if (view->tenants[space.index[t]].profile[0]) all[n++] = party_of(&space, t);
    mo_inss_sort(all, n);
    for (int g = 0; g < n_groups; g++) {
        const int there = g < n_groups - 1 ? per : view->n_gpus - g * per;
        groups[g] = (struct mo_inss_scene){
            .kind = &view->kinds[0], .n_gpus = per, .n_there = there, .n_slots = view->learned->n_slots};
    }
    for (int i = 0; i < n; i++)
        deal(groups, demand, n_groups, &all[i]);
    for (int g = 0; g < n_groups; g++) {
        mo_inss_decide(view->learned, &groups[g], work);
        for (int i = 0; i < groups[g].n; i++)
            if (groups[g].party[i].gpu >= 0)
                put(&placement, &groups[g].party[i], g * per + groups[g].party[i].gpu);
    }
    mo_placement_write(&placement, out);
    return MOIRE_OK;
}

static int plan(const struct mo_plan_view *view, struct mo_plan_scratch *scratch, struct mo_lets_plan *out,
                moire_error *err) {
    return plan_with(view, scratch, true, out, err);
}

static int plan_alone(const struct mo_plan_view *view, struct mo_plan_scratch *scratch,
                      struct mo_lets_plan *out, moire_error *err) {
    return plan_with(view, scratch, false, out, err);
}

const struct mo_planner mo_planner_inss = {
    .name = "inss", .description = "InSS: a trained policy places and divides", .plan = plan};
static const struct mo_planner alone = {
    .name = "inss-ni", .description = "inss, as if neighbours did no harm", .plan = plan_alone};

const struct mo_planner *mo_inss_planner(const char *name) {
    const struct mo_planner *const rows[] = {&mo_planner_inss, &alone};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i]->name, name)) return rows[i];
    return NULL;
}
