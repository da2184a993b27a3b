/* SPDX-License-Identifier: Apache-2.0
 * test_lets.c - GPUs in virtual time: which plans and runs the core takes, the way from one plan to the next,
 * what the simulated GPU does to times, and the servers on lets, none of which loses a query. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/policy/gpulet.h"
#include "tests/unit/lets/lets_bed.h"

static const int64_t MS = 1000000, SECOND = 1000000000;
enum { MAX_ANSWERS = 1 << 17, INSTANCES = 256 };

static struct mo_lets_plan in_force; /* too large for a stack */

struct bed {
    struct lets_bed lets;
    int accepted, answered, twice, in_time[MO_PLAN_TENANTS], n[MO_PLAN_TENANTS], last_code;
    int64_t last_end, block_ns;
    bool exact; /* no noise */
    bool by_script;
    unsigned char seen[MAX_ANSWERS];
};

static void answer(void *ctx, int tenant, const struct mo_answer *a) {
    struct bed *b = ctx;
    uintptr_t id = (uintptr_t)a->user;
    b->twice += b->seen[id % MAX_ANSWERS]++;
    b->answered++;
    b->n[tenant]++;
    b->in_time[tenant] += a->code == MOIRE_OK && (!a->deadline || a->end <= a->deadline);
    b->last_code = a->code;
    b->last_end = a->end;
}

/* The paper's GPUs and five tenants. */
static struct bed *lay(int n_gpus, int64_t prepare_ns) {
    struct bed *b = calloc(1, sizeof *b);
    lets_bed_lay(&b->lets, n_gpus, &MS, 1);
    b->lets.gpus.prepare_ns[0] = prepare_ns;
    return b;
}

static void start(struct bed *b, const struct mo_policy *policy, bool shed, const double *declared) {
    b->by_script = !strcmp(policy->name, "script");
    lets_bed_start(&b->lets,
                   (struct mo_sim_config){.policy = policy,
                                          .machine = {.noise = b->exact ? 0 : 0.05, .block_ns = b->block_ns},
                                          .max_queries = 4096,
                                          .max_tenants = 8,
                                          .seed = 3,
                                          .answer = answer,
                                          .ctx = b},
                   1 << 20);
    for (int i = 0; i < b->lets.c.view.n_tenants; i++) {
        struct mo_sched_tenant_config t = {.qos_ns = b->lets.c.tenants[i].target_ns,
                                           .shed_late = shed,
                                           .queue = INSTANCES,
                                           .instances = INSTANCES,
                                           .profile = b->lets.profile,
                                           .share = b->lets.c.tenants[i].profile,
                                           .declared = declared ? declared[i] : 0};
        int index;
        assert_int_equal(mo_sim_open(b->lets.sim, &t, &index, NULL), MOIRE_OK);
        assert_int_equal(index, i);
    }
}

static bool submit(struct bed *b, int tenant, uint64_t *handle) {
    uintptr_t id = (uintptr_t)b->accepted + 1;
    bool ok = mo_sim_submit(b->lets.sim, tenant, (void *)id, handle, NULL) == MOIRE_OK;
    b->accepted += ok;
    return ok;
}

static double uniform(uint64_t *s) {
    return (double)plan_case_next(s) * 0x1p-31;
}

/* Poisson arrivals until `until`; a share of the queries is cancelled at some moment. */
static void load(struct bed *b, const double *rate, int64_t until, double cancel, uint64_t seed) {
    uint64_t rng = seed, handle[64] = {0};
    double all = 0, at = (double)mo_sim_now(b->lets.sim);
    for (int i = 0; i < b->lets.c.view.n_tenants; i++)
        all += rate[i];
    for (;;) {
        at -= log(1 - uniform(&rng)) / all * 1e9;
        if (at >= (double)until) break;
        mo_sim_advance(b->lets.sim, (int64_t)at);
        double pick = uniform(&rng) * all;
        int tenant = 0;
        while (tenant < b->lets.c.view.n_tenants - 1 && (pick -= rate[tenant]) > 0)
            tenant++;
        submit(b, tenant, &handle[plan_case_next(&rng) % 64]);
        if (uniform(&rng) < cancel) mo_sim_cancel(b->lets.sim, handle[plan_case_next(&rng) % 64]);
    }
    mo_sim_advance(b->lets.sim, until);
}

static const struct mo_sched_stats *stats(struct bed *b) {
    return mo_sched_stats(mo_sim_sched(b->lets.sim));
}

/* Everything that is still open is resolved; then nothing may be missing.  A script leaves GPUs idle beside
 * work, which the checker of histories would not forgive. */
static void finish(struct bed *b) {
    mo_sched_abort(mo_sim_sched(b->lets.sim), MOIRE_ESHUTDOWN, mo_sim_now(b->lets.sim));
    mo_sim_advance(b->lets.sim, mo_sim_now(b->lets.sim) + 10 * SECOND);
    uint64_t none = 0;
    mo_sim_cancel(b->lets.sim, none); /* delivers what the abort decided */
    assert_int_equal(b->twice, 0);
    assert_int_equal(b->answered, b->accepted);
    assert_int_equal(mo_sim_broken(b->lets.sim), 0);
    lets_bed_strike(&b->lets, b->by_script ? -1 : b->accepted);
    free(b);
}

/* --- a policy that does what the test says -------------------------------------------------------------- */
static struct mo_decision script[1];
static int n_script;

static void scripted(void *state, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out) {
    (void)state, (void)view, (void)event;
    for (int i = 0; i < n_script; i++)
        out->list[out->n++] = script[i];
    n_script = 0;
    mo_decide_timer(out, INT64_MAX - 1);
}
static const struct mo_policy by_script = {
    .name = "script", .description = "", .gpus = true, .state_bytes = 8, .dispatch = scripted};

/* One dispatch with that decision, at the arrival of a query of tenant 0; whether it was refused. */
static int64_t refused(struct bed *b, struct mo_decision d) {
    int64_t before = stats(b)->refused;
    script[0] = d;
    n_script = 1;
    assert_true(submit(b, 0, NULL));
    return stats(b)->refused - before;
}

static struct mo_decision ask(const struct mo_lets_plan *plan) {
    return (struct mo_decision){.kind = MO_LETS, .plan = plan};
}

static struct mo_decision run(struct bed *b, int tenant, int batch, int first, int units) {
    const struct mo_view_tenant *t = &mo_sched_view(mo_sim_sched(b->lets.sim))->tenants[tenant];
    struct mo_decision d = {
        .kind = MO_RUN, .query = t->waiting[0], .batch = batch, .end = 1, .when = MO_NEVER};
    for (int i = 0; i < units; i++)
        mo_cores_add(&d.cores, first + i);
    return d;
}

static struct mo_lets_plan *two_lets(void) {
    struct mo_lets_plan *p = calloc(1, sizeof *p);
    p->n_tenants = 5;
    p->n_lets = 2;
    p->lets[0] = (struct mo_planned_let){
        .gpu = 0, .first = 0, .units = 6, .n_entries = 1, .entries = {{.tenant = 1, .batch = 8}}};
    p->lets[1] = (struct mo_planned_let){
        .gpu = 0, .first = 6, .units = 4, .n_entries = 1, .entries = {{.tenant = 2, .batch = 8}}};
    return p;
}

static void bad_plans_are_refused(void **state) {
    (void)state;
    struct bed *b = lay(1, 0);
    start(b, &by_script, true, NULL);
    struct mo_lets_plan *good = two_lets(), *p = two_lets();
#define REFUSED(change)                                                                                      \
    *p = *good;                                                                                              \
    change;                                                                                                  \
    assert_int_equal(refused(b, ask(p)), 1)
    REFUSED(p->lets[1].first = 5);             /* overlaps */
    REFUSED(p->lets[1].first = 8);             /* beyond the GPU */
    REFUSED(p->lets[0].units = 3);             /* no such size */
    REFUSED(p->lets[0].gpu = 1);               /* no such GPU */
    REFUSED(p->lets[0].entries[0].tenant = 7); /* no such tenant */
    REFUSED(p->lets[0].entries[0].batch = 0);  /* nothing to run */
    REFUSED(p->lets[0].n_entries = 0);         /* a let for nobody */
    REFUSED(p->n_lets = MO_PLAN_LETS + 1);     /* more than there is room for */
    REFUSED(p->lets[1].units = 2; p->n_lets = 3; p->lets[2] = p->lets[1];
            p->lets[2].first = 8); /* max_lets */
#undef REFUSED
    assert_int_equal(refused(b, (struct mo_decision){.kind = MO_LETS}), 1);
    b->lets.gpus.kinds[0].memory_bytes = 1;
    for (int i = 0; i < 5; i++)
        ((struct mo_share_profile *)b->lets.c.tenants[i].profile[0])->memory_bytes = 1;
    assert_int_equal(refused(b, ask(good)), 1); /* two models, room for one */
    b->lets.gpus.kinds[0].memory_bytes = 2;
    assert_int_equal(refused(b, ask(good)), 0);
    assert_int_equal(refused(b, ask(good)), 1); /* one is on its way */
    free(good);
    free(p);
    finish(b);
}

static void runs_take_a_let_of_their_tenant(void **state) {
    (void)state;
    struct bed *b = lay(1, 0);
    start(b, &by_script, true, NULL);
    struct mo_lets_plan *plan = two_lets();
    for (int i = 0; i < 4; i++)
        for (int t = 0; t < 3; t++)
            submit(b, t, NULL);
    assert_int_equal(refused(b, run(b, 1, 1, 0, 6)), 1); /* no plan yet */
    assert_int_equal(refused(b, ask(plan)), 0);
    mo_sim_advance(b->lets.sim, mo_sim_now(b->lets.sim) + 1);
    assert_int_equal(stats(b)->reorganised, 1);
    assert_int_equal(refused(b, run(b, 1, 1, 0, 4)), 1);  /* a part of a let */
    assert_int_equal(refused(b, run(b, 1, 1, 0, 10)), 1); /* two lets */
    assert_int_equal(refused(b, run(b, 2, 1, 0, 6)), 1);  /* another tenant's */
    assert_int_equal(refused(b, run(b, 0, 1, 0, 6)), 1);  /* a tenant that is not on the GPU */
    b->lets.gpus.kinds[0].shared_weights = true;
    assert_int_equal(refused(b, run(b, 0, 1, 0, 6)), 1);
    assert_int_equal(refused(b, run(b, 2, 2, 0, 6)), 0); /* lent */
    assert_int_equal(refused(b, run(b, 2, 1, 0, 6)), 1); /* busy */
    free(plan);
    finish(b);
}

/* When the first query of a batch that begins now is answered, after its start. */
static int64_t takes(struct bed *b, int tenant, int batch, int first, int units, int beside) {
    struct mo_lets_plan *plan = two_lets();
    submit(b, tenant, NULL);
    for (int i = 1; i < batch; i++)
        submit(b, tenant, NULL);
    for (int i = 0; i < 8; i++)
        submit(b, 2, NULL);
    if (!mo_sched_view(mo_sim_sched(b->lets.sim))->lets) {
        assert_int_equal(refused(b, ask(plan)), 0);
        mo_sim_advance(b->lets.sim, mo_sim_now(b->lets.sim) + 1);
    }
    free(plan);
    if (beside) assert_int_equal(refused(b, run(b, 2, beside, 6, 4)), 0);
    int64_t began = mo_sim_now(b->lets.sim);
    int before = b->n[tenant];
    assert_int_equal(refused(b, run(b, tenant, batch, first, units)), 0);
    while (b->n[tenant] == before && mo_sim_next(b->lets.sim) != MO_NEVER)
        mo_sim_advance(b->lets.sim, mo_sim_next(b->lets.sim));
    return b->last_end - began;
}

static void a_batch_takes_what_its_profile_and_neighbours_say(void **state) {
    (void)state;
    struct bed *b = lay(1, 0);
    start(b, &by_script, true, NULL);
    const struct mo_share_profile *p = b->lets.c.tenants[1].profile[0];
    double alone = (double)takes(b, 1, 8, 0, 6, 0), solo = (double)mo_share_latency(p, 8, 600);
    assert_true(fabs(alone - solo) <= 0.026 * solo); /* the noise */
    /* vgg16 in batches of 8 lasts longer than googlenet's */
    struct mo_share_use self = mo_share_use_at(p, 8, 600);
    struct mo_share_use other = mo_share_use_at(b->lets.c.tenants[2].profile[0], 8, 400);
    double slow = mo_interference(&b->lets.gpus.kinds[0].interference, &self, &other, 1);
    double beside = (double)takes(b, 1, 8, 0, 6, 8);
    print_message("%.2f ms alone, %.2f beside, model %.3f\n", alone * 1e-6, beside * 1e-6, slow);
    assert_true(slow > 1.05 && fabs(beside - slow * solo) <= 0.026 * slow * solo);
    finish(b);
}

static void copies_pass_the_link_one_after_the_other(void **state) {
    (void)state;
    struct bed *b = lay(1, 0);
    for (int i = 0; i < 5; i++) {
        struct mo_share_profile *p = (struct mo_share_profile *)b->lets.c.tenants[i].profile[0];
        p->in_bytes = 1000000;
        p->copy_bytes_ns = 1; /* 1 ms a query */
    }
    start(b, &by_script, true, NULL);
    const struct mo_share_profile *p = b->lets.c.tenants[1].profile[0];
    assert_int_equal(mo_share_copy(p, 4), 4 * MS);
    double alone = (double)takes(b, 1, 4, 0, 6, 0), solo = (double)mo_share_latency(p, 4, 600);
    assert_true(fabs(alone - solo - 4e6) <= 0.026 * solo);
    double beside = (double)takes(b, 1, 4, 0, 6, 8); /* eight copies before it */
    assert_true(beside >= 12e6 + 0.97 * solo);
    finish(b);
}

/* Of a whole batch, behind the block that exactly its let runs, one at most; it begins when that ends, and
 * what the host takes has passed by then. */
static void a_batch_is_queued_behind_another(void **state) {
    (void)state;
    int64_t second[2];
    for (int ahead = 0; ahead < 2; ahead++) {
        struct bed *b = lay(1, 0);
        b->lets.gpus.kinds[0].shared_weights = true;
        b->lets.gpus.ahead_ns = ahead;
        b->block_ns = MS;
        b->exact = true;
        start(b, &by_script, true, NULL);
        struct mo_lets_plan *plan = two_lets();
        for (int i = 0; i < 8; i++)
            submit(b, 1, NULL), submit(b, 2, NULL);
        assert_int_equal(refused(b, ask(plan)), 0);
        mo_sim_advance(b->lets.sim, mo_sim_now(b->lets.sim) + 1);
        assert_int_equal(refused(b, run(b, 1, 2, 0, 6)), 0);
        const struct mo_view *v = mo_sched_view(mo_sim_sched(b->lets.sim));
        int64_t end = v->runs[0].predicted_end;
        assert_int_equal(refused(b, run(b, 1, 2, 0, 4)), 1); /* a part of a let */
        assert_int_equal(refused(b, run(b, 1, 2, 0, 6)), !ahead);
        assert_int_equal(refused(b, run(b, 2, 2, 0, 6)), 1); /* it has one, or may have none */
        assert_int_equal(v->behind[0].query >= 0, ahead);
        if (ahead) assert_int_equal(v->behind[0].start, end);
        assert_int_equal(v->n_idle, 4);
        while (b->n[1] < 2)
            mo_sim_advance(b->lets.sim, mo_sim_next(b->lets.sim));
        int64_t first = b->last_end;
        if (!ahead) assert_int_equal(refused(b, run(b, 1, 2, 0, 6)), 0);
        assert_int_equal(v->behind[0].query, -1);
        assert_int_equal(v->queries[v->runs[0].query].started, first);
        while (b->n[1] < 4)
            mo_sim_advance(b->lets.sim, mo_sim_next(b->lets.sim));
        second[ahead] = b->last_end - first;
        assert_int_equal(v->n_idle, v->n_cores);
        free(plan);
        finish(b);
    }
    assert_int_equal(second[0] - second[1], MS);
}

/* Both are lost with their GPU, and answered once. */
static void what_is_queued_is_lost_with_its_gpu(void **state) {
    (void)state;
    struct bed *b = lay(2, 0);
    b->lets.gpus.ahead_ns = 1;
    start(b, &by_script, true, NULL);
    struct mo_lets_plan *plan = two_lets();
    plan->lets[1].gpu = 1;
    for (int i = 0; i < 8; i++)
        submit(b, 1, NULL);
    assert_int_equal(refused(b, ask(plan)), 0);
    mo_sim_advance(b->lets.sim, mo_sim_now(b->lets.sim) + 1);
    assert_int_equal(refused(b, run(b, 1, 2, 0, 6)), 0);
    assert_int_equal(refused(b, run(b, 1, 3, 0, 6)), 0);
    mo_sim_gpu_lost(b->lets.sim, 0, true);
    assert_int_equal(stats(b)->failed, 5);
    assert_int_equal(b->n[1], 5);
    assert_int_equal(mo_sched_view(mo_sim_sched(b->lets.sim))->n_idle, 20);
    free(plan);
    finish(b);
}

/* --- from one plan to the next -------------------------------------------------------------------------- */
static void old_lets_serve_while_new_ones_are_prepared(void **state) {
    (void)state;
    struct bed *b = lay(1, 12 * SECOND);
    start(b, &by_script, true, NULL);
    struct mo_lets_plan *plan = two_lets();
    for (int i = 0; i < 8; i++)
        submit(b, 1, NULL);
    assert_int_equal(refused(b, ask(plan)), 0);
    mo_sim_advance(b->lets.sim, mo_sim_now(b->lets.sim) + 1); /* the first plan is there at once */
    const struct mo_view *v = mo_sched_view(mo_sim_sched(b->lets.sim));
    assert_non_null(v->lets);
    plan->lets[0].units = 4;
    assert_int_equal(refused(b, ask(plan)), 0);
    assert_true(v->lets_coming);
    mo_sim_advance(b->lets.sim, mo_sim_now(b->lets.sim) + 11 * SECOND);
    assert_int_equal(refused(b, run(b, 1, 2, 0, 4)), 1);
    assert_int_equal(refused(b, run(b, 1, 2, 0, 6)), 0);
    mo_sim_advance(b->lets.sim, mo_sim_now(b->lets.sim) + 2 * SECOND);
    assert_false(v->lets_coming);
    assert_int_equal(v->lets->lets[0].units, 4);
    assert_int_equal(refused(b, run(b, 1, 2, 0, 6)), 1);
    assert_int_equal(refused(b, run(b, 1, 2, 0, 4)), 0);
    assert_int_equal(stats(b)->reorganised, 2);
    free(plan);
    finish(b);
}

/* Its profile is gone when the plan that has it on a let takes effect. */
static void a_tenant_leaves_while_its_lets_are_prepared(void **state) {
    (void)state;
    static const char *const names[] = {"gpulet", "moire-gpu"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        struct bed *b = lay(2, 12 * SECOND);
        start(b, mo_policy_find(names[k]), true, (double[]){20, 20, 20, 20, 20});
        struct mo_sched *sched = mo_sim_sched(b->lets.sim);
        const struct mo_view *v = mo_sched_view(sched);
        for (int i = 0; i < 5; i++)
            submit(b, i, NULL);
        mo_sim_advance(b->lets.sim, 30 * SECOND);
        assert_int_equal(b->answered, 5);
        for (int i = 1; i < 5; i++) { /* much more than the plan in force is for: another one */
            const double rate[] = {0, 90, 90, 90, 90};
            if (!v->lets_coming) load(b, rate, mo_sim_now(b->lets.sim) + 21 * SECOND, 0, 7);
        }
        assert_true(v->lets_coming);
        for (int t = 4; t >= 3; t--) { /* the last ones: the view ends before them */
            mo_sched_tenant_close(sched, t, MOIRE_EUNLOADED, mo_sim_now(b->lets.sim));
            while (mo_sched_tenant_pending(sched, t) > 0)
                mo_sim_advance(b->lets.sim, mo_sim_now(b->lets.sim) + MS);
            mo_sched_tenant_free(sched, t);
        }
        assert_true(v->lets_coming);
        mo_sim_advance(b->lets.sim, mo_sim_now(b->lets.sim) + 13 * SECOND);
        for (int i = 0; i < v->lets->n_lets; i++)
            for (int e = 0; e < v->lets->lets[i].n_entries; e++)
                assert_true(v->lets->lets[i].entries[e].tenant < 3);
        b->lets.c.view.n_tenants = 3;
        finish(b);
    }
}

static void a_gpu_without_room_for_both_plans_goes_down_meanwhile(void **state) {
    (void)state;
    struct bed *b = lay(1, 12 * SECOND);
    for (int i = 0; i < 5; i++)
        ((struct mo_share_profile *)b->lets.c.tenants[i].profile[0])->memory_bytes = 1;
    b->lets.gpus.kinds[0].memory_bytes = 2;
    start(b, &by_script, true, NULL);
    struct mo_lets_plan *plan = two_lets();
    for (int i = 0; i < 4; i++)
        submit(b, 1, NULL), submit(b, 3, NULL);
    assert_int_equal(refused(b, ask(plan)), 0);
    mo_sim_advance(b->lets.sim, mo_sim_now(b->lets.sim) + 1);
    plan->lets[1].entries[0].tenant = 3;
    assert_int_equal(refused(b, ask(plan)), 0);
    const struct mo_view *v = mo_sched_view(mo_sim_sched(b->lets.sim));
    assert_true(v->gpu_down[0]);
    assert_int_equal(refused(b, run(b, 1, 1, 0, 6)), 1);
    mo_sim_advance(b->lets.sim, mo_sim_now(b->lets.sim) + 13 * SECOND);
    assert_false(v->gpu_down[0]);
    assert_int_equal(refused(b, run(b, 1, 1, 0, 6)), 0);
    assert_int_equal(refused(b, run(b, 3, 1, 6, 4)), 0);
    free(plan);
    finish(b);
}

static void policies_and_machines_must_match(void **state) {
    (void)state;
    struct bed *b = lay(1, 0);
    assert_int_equal(mo_gpus_finish(&b->lets.gpus, NULL), MOIRE_OK);
    moire_error err = {0};
    struct mo_sim *sim;
    struct mo_sim_config c = {.env = &b->lets.c.env,
                              .policy = mo_policy_find("fcfs"),
                              .machine = {.n_cores = 10, .gpus = &b->lets.gpus},
                              .max_queries = 8,
                              .max_tenants = 2};
    assert_int_equal(mo_sim_create(&c, &sim, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "'fcfs' is for machines of cores"));
    c.policy = mo_policy_find("moire-gpu");
    c.machine.gpus = NULL;
    assert_int_equal(mo_sim_create(&c, &sim, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "'moire-gpu' is for machines of GPUs"));
    b->lets.gpus.kinds[0].units = 17;
    assert_int_equal(mo_gpus_finish(&b->lets.gpus, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "kind 'gpu': 17 units"));
    b->lets.gpus.kinds[0].units = 10;
    b->lets.gpus.kind[0] = 3;
    assert_int_equal(mo_gpus_finish(&b->lets.gpus, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "GPU 0 is of kind 3"));
    mo_profile_destroy(b->lets.profile);
    plan_case_close(&b->lets.c);
    free(b);
}

/* --- the servers ---------------------------------------------------------------------------------------- */
static const double even[] = {60, 60, 40, 20, 20}, other[] = {20, 120, 20, 40, 10};

static void no_server_loses_a_query(void **state) {
    (void)state;
    for (const struct mo_policy *const *p = mo_policy_servers(); *p; p++) {
        if ((*p)->learned) continue; /* test_inss_bench.c */
        struct bed *b = lay(2, 3 * SECOND);
        b->lets.gpus.kinds[0].shared_weights = true;
        b->lets.gpus.ahead_ns = 300000;
        b->block_ns = 200000;
        start(b, *p, true, even);
        load(b, even, 25 * SECOND, 0.1, 7);
        load(b, other, 50 * SECOND, 0.1, 8);
        const struct mo_sched_stats *s = stats(b);
        print_message("%-24s %lld plans, %.2f queries a batch, %lld in time of %lld\n", (*p)->name,
                      (long long)s->reorganised, (double)s->members / (double)s->blocks,
                      (long long)s->in_time, (long long)s->accepted);
        assert_int_equal(s->refused, 0);
        assert_int_equal(s->forced_runs, 0);
        assert_true(s->reorganised >= 2);
        assert_true(s->in_time > s->accepted / 2);
        finish(b);
    }
}

/* Lets of the plan in force on a GPU. */
static int lets_on(struct bed *b, int gpu) {
    const struct mo_lets_plan *plan = mo_sched_view(mo_sim_sched(b->lets.sim))->lets;
    int n = 0;
    for (int i = 0; plan && i < plan->n_lets; i++)
        n += plan->lets[i].gpu == gpu;
    return n;
}

/* One GPU of two is lost and comes back, under every server: what runs there fails, what waits is served by
 * the other, whose queries are not disturbed, and with the GPU its lets return. */
static void a_lost_gpu_leaves_the_plan_until_it_is_back(void **state) {
    (void)state;
    for (const struct mo_policy *const *p = mo_policy_servers(); *p; p++) {
        if ((*p)->learned) continue; /* test_inss_bench.c */
        struct bed *b = lay(2, 10 * MS);
        b->lets.gpus.kinds[0].shared_weights = true;
        start(b, *p, true, even);
        load(b, even, 5 * SECOND, 0.1, 7);
        int gpu = lets_on(b, 1) ? 1 : 0;
        bool both = lets_on(b, 0) && lets_on(b, 1);
        int64_t failed = stats(b)->failed;
        mo_sim_gpu_lost(b->lets.sim, gpu, true);
        mo_sim_gpu_lost(b->lets.sim, 1 - gpu, true); /* the last one stays */
        assert_false(mo_sched_view(mo_sim_sched(b->lets.sim))->gpu_lost[1 - gpu]);
        mo_sim_advance(b->lets.sim, mo_sim_now(b->lets.sim) + 20 * MS);
        assert_int_equal(lets_on(b, gpu), 0);
        assert_true(lets_on(b, 1 - gpu) > 0);
        int64_t more = stats(b)->failed, served = stats(b)->ok;
        assert_true(more - failed <= 64); /* two batches at most */
        load(b, even, 8 * SECOND, 0.1, 8);
        assert_int_equal(stats(b)->failed, more);
        assert_true(stats(b)->ok > served + 100);
        mo_sim_gpu_lost(b->lets.sim, gpu, false);
        load(b, even, 11 * SECOND, 0.1, 9);
        if (both) assert_true(lets_on(b, gpu) > 0);
        assert_int_equal(stats(b)->refused, 0);
        finish(b);
    }
}

static void servers_are_reproducible(void **state) {
    (void)state;
    struct mo_sched_stats seen[2];
    for (int i = 0; i < 2; i++) {
        struct bed *b = lay(2, SECOND);
        start(b, mo_policy_find("moire-gpu-1s"), true, even);
        load(b, other, 20 * SECOND, 0.05, 5);
        seen[i] = *stats(b);
        finish(b);
    }
    assert_memory_equal(&seen[0], &seen[1], sizeof seen[0]);
}

static void what_waits_longer_comes_in_larger_batches(void **state) {
    (void)state;
    double size[2], in_time[2];
    for (int i = 0; i < 2; i++) {
        struct bed *b = lay(2, SECOND);
        start(b, mo_policy_find(i ? "moire-gpu-deferred" : "moire-gpu"), true, even);
        load(b, even, 20 * SECOND, 0, 5);
        const struct mo_sched_stats *s = stats(b);
        size[i] = (double)s->members / (double)s->blocks;
        in_time[i] = (double)s->in_time / (double)s->accepted;
        print_message("%s: %.2f queries a batch, %.4f in time\n", i ? "deferred" : "eager", size[i],
                      in_time[i]);
        finish(b);
    }
    assert_true(size[1] > 1.5 * size[0]);
    assert_true(in_time[0] > 0.98 && in_time[1] > 0.98);
}

/* Far more than the GPUs serve: those that cannot be in time go at once, the others still are. */
static void infeasible_queries_make_room(void **state) {
    (void)state;
    const double flood[] = {10, 10, 10, 1500, 10};
    double in_time[2];
    for (int shed = 0; shed < 2; shed++) {
        struct bed *b = lay(1, SECOND);
        start(b, mo_policy_find("moire-gpu"), shed, even);
        load(b, flood, 10 * SECOND, 0, 5);
        in_time[shed] = (double)b->in_time[3] / 15000;
        assert_true((stats(b)->shed + stats(b)->expired > 0) == shed);
        finish(b);
    }
    print_message("%.3f in time of an overloaded tenant, %.3f with shedding\n", in_time[0], in_time[1]);
    assert_true(in_time[1] > 0.05);
}

/* --- best effort ---------------------------------------------------------------------------------------- */
static const struct mo_share_profile *profile_using(struct plan_case *c, double sm, double dram) {
    static const int batches[] = {1, 8}, shares[] = {200, 1000};
    struct mo_share_profile *p = mo_share_create(&c->env, 2, batches, 2, shares);
    assert_non_null(p);
    for (int b = 0; b < 2; b++)
        for (int s = 0; s < 2; s++) {
            struct mo_share_cell cell = {.ns = MS * batches[b] * (2 - s), .use = {sm, 0.1, dram}};
            mo_share_record(p, b, s, &cell);
        }
    assert_int_equal(mo_share_finish(p, NULL), MOIRE_OK);
    c->profiles[c->n_profiles++] = p;
    return p;
}

/* Orion's rule: beside what wants something else, or nothing much, or is best-effort itself. */
static void best_effort_waits_for_its_like(void **state) {
    (void)state;
    enum { COMPUTE, MEMORY, NEITHER, KINDS };
    static const double use[KINDS][2] = {{0.9, 0.2}, {0.3, 0.8}, {0.5, 0.5}};
    struct plan_case c;
    plan_case_paper(&c, 1);
    struct mo_gpus gpus = {.n_kinds = 1, .n_gpus = 1, .kinds = {c.kinds[0]}};
    assert_int_equal(mo_gpus_finish(&gpus, NULL), MOIRE_OK);
    struct mo_view_tenant tenants[2 * KINDS] = {0};
    const struct mo_share_profile *share[2 * KINDS][MO_PLAN_KINDS] = {{0}};
    for (int t = 0; t < 2 * KINDS; t++) {
        share[t][0] = profile_using(&c, use[t % KINDS][0], use[t % KINDS][1]);
        tenants[t] = (struct mo_view_tenant){
            .open = true, .best_effort = t >= KINDS, .qos_ns = (t + 1) * 10 * MS, .share = share[t]};
    }
    struct mo_view_query query = {0};
    struct mo_view_run runs[MO_MAX_CORES];
    for (int i = 0; i < MO_MAX_CORES; i++)
        runs[i] = (struct mo_view_run){.query = -1};
    in_force = (struct mo_lets_plan){0};
    in_force.n_lets = 2;
    in_force.lets[0] = (struct mo_planned_let){.units = 6, .n_entries = 1, .entries = {{.tenant = KINDS}}};
    in_force.lets[1] =
        (struct mo_planned_let){.first = 6, .units = 4, .n_entries = 1, .entries = {{.tenant = MEMORY}}};
    struct mo_view view = {.n_tenants = 2 * KINDS,
                           .tenants = tenants,
                           .queries = &query,
                           .runs = runs,
                           .gpus = &gpus,
                           .lets = &in_force};
    for (int mine = 0; mine < KINDS; mine++) {
        assert_true(mo_gpulet_orion_allows(&view, &in_force.lets[0], KINDS + mine, 1)); /* nothing runs */
        runs[6] = (struct mo_view_run){.query = 0, .batch = 1, .n_cores = 4};
        for (query.tenant = 0; query.tenant < 2 * KINDS; query.tenant++)
            assert_int_equal(mo_gpulet_orion_allows(&view, &in_force.lets[0], KINDS + mine, 1),
                             mine == NEITHER || mine != query.tenant);
        runs[6].query = -1;
    }
    assert_int_equal(mo_gpulet_budget(&view, 0), 5 * MS); /* a quarter of MEMORY's target */
    in_force.n_lets = 1;
    assert_true(mo_gpulet_budget(&view, 0) == MO_NEVER);
    plan_case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_plans_are_refused),
        cmocka_unit_test(runs_take_a_let_of_their_tenant),
        cmocka_unit_test(a_batch_takes_what_its_profile_and_neighbours_say),
        cmocka_unit_test(copies_pass_the_link_one_after_the_other),
        cmocka_unit_test(a_batch_is_queued_behind_another),
        cmocka_unit_test(what_is_queued_is_lost_with_its_gpu),
        cmocka_unit_test(old_lets_serve_while_new_ones_are_prepared),
        cmocka_unit_test(a_tenant_leaves_while_its_lets_are_prepared),
        cmocka_unit_test(a_gpu_without_room_for_both_plans_goes_down_meanwhile),
        cmocka_unit_test(policies_and_machines_must_match),
        cmocka_unit_test(no_server_loses_a_query),
        cmocka_unit_test(a_lost_gpu_leaves_the_plan_until_it_is_back),
        cmocka_unit_test(servers_are_reproducible),
        cmocka_unit_test(what_waits_longer_comes_in_larger_batches),
        cmocka_unit_test(infeasible_queries_make_room),
        cmocka_unit_test(best_effort_waits_for_its_like),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
