/* SPDX-License-Identifier: Apache-2.0
 * plan_case.c - see plan_case.h. */
#include "tests/unit/planner/plan_case.h"
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

uint64_t plan_case_next(uint64_t *s) {
    *s = *s * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *s >> 33;
}
static double uniform(uint64_t *s, double from, double to) {
    return from + (to - from) * (double)(plan_case_next(s) % 100000) / 1e5;
}

struct mo_share_profile *plan_case_profile(struct plan_case *c, double fixed, double each, double width,
                                           double l2, double dram) {
    static const int batches[] = {1, 2, 4, 8, 16, 24, 32}, shares[] = {100, 200, 400, 500, 600, 800, 1000};
    struct mo_share_profile *p = mo_share_create(&c->env, 7, batches, 7, shares);
    assert_non_null(p);
    p->memory_bytes = 500 << 20;
    for (int b = 0; b < 7; b++)
        for (int s = 0; s < 7; s++) {
            double wide = fmin(shares[s] / 1000.0, width * sqrt(batches[b])), busy = wide / (wide + 0.2);
            struct mo_share_cell cell = {.ns = (int64_t)(fixed + batches[b] * each / wide),
                                         .use = {wide, l2 * busy, dram * busy}};
            mo_share_record(p, b, s, &cell);
        }
    assert_int_equal(mo_share_finish(p, NULL), MOIRE_OK);
    c->profiles[c->n_profiles++] = p;
    return p;
}

static void finish(struct plan_case *c) {
    c->view.tenants = c->tenants;
    c->view.kinds = c->kinds;
    c->view.gpu_kind = c->gpu_kind;
    c->scratch_bytes = mo_plan_scratch_bytes(c->view.n_tenants, c->view.n_kinds, c->view.n_gpus);
    c->scratch = mo_alloc(&c->env, c->scratch_bytes);
    assert_non_null(c->scratch);
}

void plan_case_paper(struct plan_case *c, int n_gpus) {
    static const struct {
        const char *name;
        double target, fixed, each, width, l2, dram;
    } models[] = {{"lenet", 5e6, 0.9e6, 0.02e6, 0.15, 0.07, 0.2},
                  {"googlenet", 44e6, 5e6, 0.45e6, 0.3, 0.25, 0.5},
                  {"resnet50", 95e6, 4e6, 0.8e6, 0.35, 0.3, 0.6},
                  {"ssd", 136e6, 7e6, 1.2e6, 0.35, 0.25, 0.55},
                  {"vgg16", 130e6, 3e6, 1.5e6, 0.5, 0.4, 0.6}};
    *c = (struct plan_case){.env = mo_env_default()};
    c->kinds[0] = (struct mo_plan_kind){.name = "gpu",
                                        .units = 10,
                                        .n_sizes = 6,
                                        .sizes = {2, 4, 5, 6, 8, 10},
                                        .max_lets = 2,
                                        .memory_bytes = INT64_C(11) << 30,
                                        .interference = {0.11, 0.3, 0.15, 0.2, 0.9}};
    c->view = (struct mo_plan_view){.n_tenants = 5, .n_kinds = 1, .n_gpus = n_gpus, .max_share = 3};
    for (int i = 0; i < 5; i++)
        c->tenants[i] = (struct mo_plan_tenant){
            .name = models[i].name,
            .target_ns = (int64_t)models[i].target,
            .profile = {plan_case_profile(c, models[i].fixed, models[i].each, models[i].width, models[i].l2,
                                          models[i].dram)}};
    finish(c);
}

static void random_kind(struct mo_plan_kind *k, uint64_t *seed) {
    *k = (struct mo_plan_kind){.name = "gpu",
                               .units = 4 + (int)(plan_case_next(seed) % 13),
                               .max_lets = 1 + (int)(plan_case_next(seed) % 5),
                               .memory_bytes = (1 + (int64_t)(plan_case_next(seed) % 8)) << 30,
                               .shared_weights = plan_case_next(seed) % 2,
                               .interference = {uniform(seed, 0, 0.3), uniform(seed, 0, 0.7),
                                                uniform(seed, 0, 0.3), uniform(seed, 0, 0.5), 0.9}};
    mo_plan_sizes(k, 1 + (int)(plan_case_next(seed) % 3), 1 + (int)(plan_case_next(seed) % 2));
}

void plan_case_random(struct plan_case *c, uint64_t seed, bool small) {
    uint64_t s = seed * 2654435761u + 1;
    *c = (struct plan_case){.env = mo_env_default()};
    c->view = (struct mo_plan_view){.n_tenants = 1 + (int)(plan_case_next(&s) % (small ? 5 : 20)),
                                    .n_kinds = 1 + (int)(plan_case_next(&s) % 2),
                                    .n_gpus = 1 + (int)(plan_case_next(&s) % (small ? 3 : 8)),
                                    .max_share = 1 + (int)(plan_case_next(&s) % 4)};
    if (plan_case_next(&s) % 3 == 0) c->view.burst = uniform(&s, 0, 2);
    for (int k = 0; k < c->view.n_kinds; k++) {
        random_kind(&c->kinds[k], &s);
        if (small && c->kinds[k].max_lets > 2) c->kinds[k].max_lets = 2;
    }
    for (int g = 0; g < c->view.n_gpus; g++)
        c->gpu_kind[g] = (int)(plan_case_next(&s) % (uint64_t)c->view.n_kinds);
    for (int i = 0; i < c->view.n_tenants; i++) {
        struct mo_plan_tenant *t = &c->tenants[i];
        double each = exp(uniform(&s, log(0.02e6), log(2e6))), fixed = each * uniform(&s, 1, 8);
        snprintf(c->names[i], sizeof c->names[i], "t%d", i);
        *t = (struct mo_plan_tenant){.name = c->names[i],
                                     .best_effort = plan_case_next(&s) % 6 == 0,
                                     .target_ns = (int64_t)((fixed + each) * uniform(&s, 1.5, 60)),
                                     .rate = plan_case_next(&s) % 8 ? uniform(&s, 1, 4e8 / each) : 0};
        for (int k = 0; k < c->view.n_kinds; k++) {
            if (plan_case_next(&s) % 10 == 0) continue;
            struct mo_share_profile *p = plan_case_profile(c, fixed, each, uniform(&s, 0.1, 1),
                                                           uniform(&s, 0, 0.6), uniform(&s, 0, 0.8));
            p->memory_bytes = (int64_t)exp(uniform(&s, log(50), log(3000))) << 20;
            t->profile[k] = p;
        }
    }
    finish(c);
}

int plan_case_make(const struct mo_planner *p, struct plan_case *c, struct mo_lets_plan *out,
                   moire_error *err) {
    memset(c->scratch, 0x5a, c->scratch_bytes < 65536 ? c->scratch_bytes : 65536);
    return mo_plan_make(p, &c->view, c->scratch, c->scratch_bytes, out, err);
}

struct mo_policy_file plan_case_policy(struct mo_region *region, const struct mo_plan_kind *kind, int n_gpus,
                                       uint64_t seed) {
    const int n_slots = mo_inss_slots(kind);
    struct mo_policy_file p = {.n_models = 1, .model = {"any"}, .n_gpus = n_gpus, .n_slots = n_slots};
    mo_inss_gpus(kind, p.gpus);
    assert_true(
        mo_net_make(region, (const int[]){mo_inss_place_state_size(n_gpus), 16, 16, n_gpus}, &p.place));
    assert_true(mo_net_make(region, (const int[]){mo_inss_divide_state_size(n_slots), 16, 16, 2 * n_slots},
                            &p.divide));
    mo_net_draw(&p.place, &seed);
    mo_net_draw(&p.divide, &seed);
    for (size_t i = 0; i < p.place.n; i++)
        p.place.values[i] *= 3;
    for (size_t i = 0; i < p.divide.n; i++)
        p.divide.values[i] *= 3;
    return p;
}

void plan_case_close(struct plan_case *c) {
    for (int i = 0; i < c->n_profiles; i++)
        mo_share_destroy(c->profiles[i]);
    mo_free(&c->env, c->scratch);
}
