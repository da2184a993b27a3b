/* SPDX-License-Identifier: Apache-2.0
 * test_engine_gpu.c - the live engine on GPUs, on a toy plugin: every query is answered once and rightly
 * while plans change at random, batches are cut into blocks, queries are cancelled and the GPU fails; and
 * nothing that was opened stays open. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/sched/engine_gpu.h"
#include "runtime/sched/engine_impl.h"
#include "tests/history/recorded.h"
#include "tests/unit/child_case.h"
#include "tests/unit/toy_gpu.h"

enum { GPUS = 2, UNITS = 4, TENANTS = 3, SEGMENTS = 4, LARGEST = 8, QUERIES = 400, RUNGS = 4 };
static const int64_t MS = 1000000;

/* --- a policy that makes trouble: random lets, random blocks ----------------------------------------------
 */
struct trouble {
    uint64_t rng;
    bool whole, still; /* never cuts batches; never changes its plan */
    struct mo_lets_plan plan;
};

static uint64_t dice(struct trouble *s, uint64_t n) {
    s->rng = s->rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (s->rng >> 33) % n;
}

static void cut(struct trouble *s, const struct mo_view *view) {
    s->plan.n_lets = 0;
    s->plan.complete = true;
    for (int g = 0; g < view->gpus->n_gpus; g++)
        for (int at = view->gpu_lost[g] ? UNITS : 0; at < UNITS;) {
            int units = 1 + (int)dice(s, (uint64_t)(UNITS - at));
            struct mo_planned_let *l = &s->plan.lets[s->plan.n_lets++];
            *l = (struct mo_planned_let){.gpu = g, .first = at, .units = units};
            for (int t = 0; t < view->n_tenants; t++)
                if (view->tenants[t].open)
                    l->entries[l->n_entries++] = (struct mo_let_entry){.tenant = t, .batch = LARGEST};
            if (!l->n_entries) s->plan.n_lets--;
            at += units;
        }
}

static bool is_on(const struct mo_planned_let *let, int tenant) {
    for (int i = 0; i < let->n_entries; i++)
        if (let->entries[i].tenant == tenant) return true;
    return false;
}

static void fill(struct trouble *s, const struct mo_view *view, const struct mo_planned_let *let, int *taken,
                 bool *goes_on, struct mo_decisions *out) {
    const int layers = SEGMENTS;
    int t = view->n_tenants ? (int)dice(s, (uint64_t)view->n_tenants) : 0;
    for (int i = 0; i < view->n_tenants; i++, t = (t + 1) % view->n_tenants) {
        const struct mo_view_tenant *v = &view->tenants[t];
        struct mo_cores cores = mo_gpus_let(view->gpus, let);
        if (!v->open || !is_on(let, t)) continue;
        if (v->n_paused && v->paused_gpu == let->gpu && !goes_on[t]) {
            int at = view->queries[v->paused[0]].next_layer;
            goes_on[t] = true;
            mo_decide_batch(out, v->paused[0], v->n_paused, at + 1 + (int)dice(s, (uint64_t)(layers - at)),
                            cores);
            return;
        }
        int n = v->n_waiting - taken[t];
        if (n > v->free_instances - taken[t]) n = v->free_instances - taken[t];
        if (n <= 0) continue;
        n = 1 + (int)dice(s, (uint64_t)(n < LARGEST ? n : LARGEST));
        bool may = !s->whole && v->paused_gpu < 0 && !goes_on[t];
        goes_on[t] |= may;
        mo_decide_batch(out, v->waiting[taken[t]], n, may ? 1 + (int)dice(s, (uint64_t)layers) : layers,
                        cores);
        taken[t] += n;
        return;
    }
}

static void dispatch(void *state, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out) {
    struct trouble *s = state;
    const struct trouble *options = view->options;
    int taken[TENANTS] = {0};
    bool goes_on[TENANTS] = {false};
    (void)event;
    s->whole = options->whole;
    if (!view->lets_coming && view->n_tenants && (!view->lets || (!options->still && !dice(s, 12)))) {
        cut(s, view);
        if (s->plan.n_lets) mo_decide_lets(out, &s->plan);
    }
    for (int i = 0; view->lets && i < view->lets->n_lets; i++) {
        struct mo_cores cores = mo_gpus_let(view->gpus, &view->lets->lets[i]);
        if (mo_cores_subset(&cores, &view->idle) && !view->gpu_down[view->lets->lets[i].gpu])
            fill(s, view, &view->lets->lets[i], taken, goes_on, out);
    }
}

/* --- a bed: toy, engine, tenants, queries -----------------------------------------------------------------
 */
struct query {
    float x, y;
    float *in, *out; /* x and y, or the like in staging memory */
    _Atomic int answers, releases;
    int code;
    uint64_t handle;
};

struct bed {
    struct mo_env env;
    struct toy_gpu toy;
    struct child_case child;
    float *staging; /* not NULL: the toy is in a child process */
    struct mo_gpus gpus;
    struct trouble options;
    struct mo_policy policy;
    struct mo_profile *profile;
    struct mo_share_profile *share;
    const struct mo_share_profile *kinds[MO_PLAN_KINDS];
    struct mo_engine *engine;
    int tenant[TENANTS];
    int n, accepted;
    struct query query[QUERIES * 2];
};

static void tensors(void *self, void *user, const void **inputs, void **outputs) {
    struct query *q = user;
    (void)self;
    inputs[0] = q->in;
    outputs[0] = q->out;
}

static void answer(void *self, const struct mo_answer *a) {
    struct query *q = a->user;
    (void)self;
    q->code = a->code;
    atomic_fetch_add(&q->answers, 1);
}

static void release(void *self, void *user) {
    (void)self;
    atomic_fetch_add(&((struct query *)user)->releases, 1);
}

static const struct mo_engine_gpu_model model = {{.answer = answer, .release = release}, tensors};

static void make_profiles(struct bed *b) {
    static const int batch[] = {1, 2, 4, 8}, share[] = {250, 500, 750, 1000};
    int64_t layer[SEGMENTS] = {10000, 20000, 10000, 20000};
    b->profile = mo_profile_create(&b->env, SEGMENTS, UNITS);
    mo_profile_record(b->profile, 1, layer);
    mo_profile_finish(b->profile);
    b->share = mo_share_create(&b->env, 4, batch, 4, share);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            mo_share_record(b->share, i, j,
                            &(struct mo_share_cell){(20000 + 10000 * batch[i]) / (j + 1), {-1, -1, -1}});
    assert_int_equal(mo_share_finish(b->share, NULL), MOIRE_OK);
    b->kinds[0] = b->share;
}

/* The toy in this process, or in a child, where tensors have to be in staging memory. */
static void place_toy(struct bed *b, bool child) {
    void *staging;
    if (!child) {
        toy_gpu_open(&b->toy, &b->env, GPUS, UNITS);
        return;
    }
    child_case_begin(&b->child, "fake/libmoire-toy.so");
    child_case_open(&b->child, &(struct mo_gpu_config){0});
    b->toy = (struct toy_gpu){b->child.ops, b->child.system};
    const size_t bytes = sizeof b->query / sizeof *b->query * 2 * sizeof(float);
    assert_int_equal(b->toy.ops->staging_alloc(b->toy.system, bytes, &staging, NULL), MOIRE_OK);
    b->staging = staging;
}

static struct bed *lay_in(const struct mo_policy *policy, bool whole, bool still, bool child) {
    struct bed *b = calloc(1, sizeof *b);
    b->env = mo_env_default();
    b->options = (struct trouble){.whole = whole, .still = still};
    b->policy = (struct mo_policy){.name = "trouble",
                                   .gpus = true,
                                   .options = &b->options,
                                   .state_bytes = sizeof(struct trouble),
                                   .dispatch = dispatch};
    b->gpus = (struct mo_gpus){.n_kinds = 1, .n_gpus = GPUS};
    b->gpus.kinds[0] = (struct mo_plan_kind){.name = "toy",
                                             .units = UNITS,
                                             .max_lets = UNITS,
                                             .memory_bytes = INT64_C(1) << 30,
                                             .shared_weights = true};
    mo_plan_sizes(&b->gpus.kinds[0], 1, 1);
    assert_int_equal(mo_gpus_finish(&b->gpus, NULL), MOIRE_OK);
    make_profiles(b);
    place_toy(b, child);
    struct mo_engine_gpu_config gpu = {.ops = b->toy.ops,
                                       .system = b->toy.system,
                                       .gpus = &b->gpus,
                                       .max_batch = LARGEST,
                                       .hang_ns = 5 * MS};
    struct mo_engine_config config = {.env = &b->env,
                                      .policy = policy ? policy : &b->policy,
                                      .max_queries = 2 * QUERIES,
                                      .max_tenants = TENANTS,
                                      .events = 1 << 16,
                                      .gpu = &gpu};
    assert_int_equal(mo_engine_create(&config, &b->engine, NULL), MOIRE_OK);
    return b;
}

static struct bed *lay(const struct mo_policy *policy, bool whole, bool still) {
    return lay_in(policy, whole, still, false);
}

static int open_tenant(struct bed *b, int i, moire_error *err) {
    struct mo_gpu_program program[RUNGS];
    struct mo_gpu_port port[RUNGS];
    struct mo_engine_gpu_tenant t = {.sched = {.qos_ns = 1000 * MS,
                                               .queue = QUERIES,
                                               .instances = 64,
                                               .profile = b->profile,
                                               .share = b->kinds,
                                               .declared = 1000},
                                     .model = &model,
                                     .n_rungs = RUNGS,
                                     .n_inputs = 1,
                                     .n_outputs = 1,
                                     .n_segments = SEGMENTS,
                                     .output_bytes = sizeof(float)};
    for (int r = 0; r < RUNGS; r++) {
        program[r] = toy_gpu_program(1 << r, SEGMENTS);
        port[r] = (struct mo_gpu_port){.name = "x", .bytes = (1 << r) * (int64_t)sizeof(float)};
        program[r].inputs = program[r].outputs = &port[r];
        t.batch[r] = 1 << r;
        t.program[r] = &program[r];
    }
    return mo_engine_gpu_open(b->engine, &t, &b->tenant[i], err);
}

static void open_all(struct bed *b) {
    for (int i = 0; i < TENANTS; i++)
        assert_int_equal(open_tenant(b, i, NULL), MOIRE_OK);
}

static struct query *submit(struct bed *b, int i) {
    struct query *q = &b->query[b->n++];
    q->in = b->staging ? &b->staging[2 * (b->n - 1)] : &q->x;
    q->out = b->staging ? q->in + 1 : &q->y;
    *q->in = (float)(b->n % 97);
    if (mo_engine_submit(b->engine, b->tenant[i], 0, q, &q->handle, NULL)) {
        b->n--;
        return NULL;
    }
    b->accepted++;
    return q;
}

static void wait_for(struct bed *b, struct query *q) {
    while (!atomic_load(&q->answers))
        b->env.sys->sleep_until(NULL, mo_now(&b->env) + MS / 10);
}

static void put_toy_away(struct bed *b) {
    if (b->staging) {
        b->toy.ops->staging_free(b->toy.system, b->staging);
        child_case_end(&b->child);
        return;
    }
    struct toy_gpu_counts counts = toy_gpu_counts(&b->toy);
    toy_gpu_close(&b->toy);
    assert_int_equal(counts.broken, 0);
    assert_int_equal(counts.lets, 0);
    assert_int_equal(counts.programs, 0);
    assert_int_equal(counts.staging, 0);
}

/* Once each, right, and nothing is left behind. */
static void strike(struct bed *b) {
    mo_engine_drain(b->engine);
    for (int i = 0; i < b->n; i++) {
        const struct query *q = &b->query[i];
        assert_int_equal(q->answers, 1);
        assert_int_equal(q->releases, 1);
        if (q->code == MOIRE_OK) assert_true(*q->out == toy_gpu_answer(*q->in, SEGMENTS));
    }
    for (int i = 0; i < TENANTS; i++)
        if (b->tenant[i] >= 0) mo_engine_close(b->engine, b->tenant[i], MOIRE_EUNLOADED);
    struct mo_sched_stats stats;
    mo_engine_stats(b->engine, &stats);
    assert_int_equal(stats.refused, 0);
    history_of_events(mo_engine_events(b->engine), GPUS * UNITS, b->accepted);
    mo_engine_destroy(b->engine);
    put_toy_away(b);
    mo_share_destroy(b->share);
    mo_profile_destroy(b->profile);
    free(b);
}

/* Bursts, with some cancelled on the way. */
static void load(struct bed *b, int n, int cancel_one_in) {
    struct trouble draw = {.rng = 7};
    for (int i = 0; i < n; i++) {
        struct query *q = submit(b, (int)dice(&draw, TENANTS));
        if (q && cancel_one_in && !dice(&draw, (uint64_t)cancel_one_in))
            mo_engine_cancel(b->engine, b->query[dice(&draw, (uint64_t)b->n)].handle);
        if (!dice(&draw, 4))
            b->env.sys->sleep_until(NULL, mo_now(&b->env) + (int64_t)dice(&draw, 300) * 1000);
    }
}

/* --- tests ------------------------------------------------------------------------------------------------
 */
static void queries_survive_random_plans_and_blocks(void **state) {
    (void)state;
    struct bed *b = lay(NULL, false, false);
    open_all(b);
    load(b, QUERIES, 10);
    mo_engine_drain(b->engine);
    struct mo_engine_gpu_stats stats;
    mo_engine_gpu_stats(b->engine, &stats);
    assert_true(stats.changes > 3 && stats.opened > 3 && stats.closed > 0);
    struct mo_sched_stats sched;
    mo_engine_stats(b->engine, &sched);
    assert_true(sched.members > sched.ok / 2 && sched.blocks < 4 * QUERIES);
    strike(b);
}

static void a_server_of_the_simulator_serves_live(void **state) {
    (void)state;
    static const char *const names[] = {"moire-gpu", "gpulet-int", "sbp"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct bed *b = lay(mo_policy_find(names[i]), false, false);
        open_all(b);
        load(b, QUERIES, 0);
        mo_engine_drain(b->engine);
        for (int k = 0; k < b->n; k++)
            assert_int_equal(b->query[k].code, MOIRE_OK);
        strike(b);
    }
}

/* The n-th call fails, or the n-th run: its queries say so, once, and those after it are served. */
static void failures_are_answered(void **state) {
    (void)state;
    static const struct {
        struct toy_gpu_faults faults;
        int code; /* of some queries */
    } rows[] = {
        {{.run = 5, .code = MOIRE_ENOMEM}, MOIRE_ENOMEM},
        {{.run = 5, .code = MOIRE_EBUSY}, MOIRE_EFAILED},
        {{.work = 5, .code = MOIRE_EFAILED}, MOIRE_EFAILED},
        {{.work = 5, .code = MOIRE_EDEVICE}, MOIRE_EDEVICE},
        {{.work = 5, .hangs = true, .code = MOIRE_EDEVICE}, MOIRE_EDEVICE},
        {{.prepare = 3, .code = MOIRE_ENOMEM}, MOIRE_OK},
        {{.open_let = 1, .code = MOIRE_ENOMEM}, MOIRE_ENOMEM},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bed *b = lay(NULL, false, true);
        int found = 0;
        toy_gpu_fail(&b->toy, &rows[i].faults);
        open_all(b);
        load(b, QUERIES / 4, 0);
        mo_engine_drain(b->engine);
        for (int k = 0; k < b->n; k++)
            found += b->query[k].code == rows[i].code;
        assert_true(found > 0);
        if (rows[i].code) {
            char why[MO_ENGINE_WHY];
            bool said = false;
            for (int k = 0; k < TENANTS; k++) {
                mo_engine_gpu_why(b->engine, b->tenant[k], why);
                said |= strstr(why, "toy: ") != NULL;
            }
            assert_true(said);
        }
        toy_gpu_revive(&b->toy);
        for (int k = 0; k < TENANTS && !rows[i].faults.open_let; k++) {
            struct query *q = submit(b, k);
            assert_non_null(q);
            wait_for(b, q);
            assert_int_equal(q->code, MOIRE_OK);
        }
        strike(b);
    }
}

static void a_lost_gpu_answers_everything(void **state) {
    (void)state;
    struct bed *b = lay(NULL, true, true);
    open_all(b);
    toy_gpu_fail(&b->toy, &(struct toy_gpu_faults){.work = 1, .code = MOIRE_EDEVICE});
    int lost = 0;
    for (int i = 0; i < 100; i++) {
        struct query *q = submit(b, i % TENANTS);
        wait_for(b, q);
        lost += q->code == MOIRE_EDEVICE;
        assert_true(q->code == MOIRE_EDEVICE || q->code == MOIRE_OK); /* the other GPU is fine */
    }
    assert_true(lost > 0);
    strike(b);
}

static void tenants_that_do_not_fit_are_refused(void **state) {
    (void)state;
    for (int nth = 1; nth <= GPUS * RUNGS; nth++) {
        struct bed *b = lay(NULL, true, true);
        moire_error err = {0};
        toy_gpu_fail(&b->toy, &(struct toy_gpu_faults){.load = nth, .code = MOIRE_ENOMEM});
        for (int i = 0; i < TENANTS; i++)
            b->tenant[i] = -1;
        assert_int_equal(open_tenant(b, 0, &err), MOIRE_ENOMEM);
        assert_non_null(strstr(err.message, "toy: program_load"));
        b->tenant[0] = -1;
        strike(b);
    }
}

/* Tenants come and go while the others are served. */
static void tenants_leave_under_load(void **state) {
    (void)state;
    struct bed *b = lay(NULL, false, false);
    open_all(b);
    for (int round = 0; round < 6; round++) {
        load(b, QUERIES / 8, 8);
        mo_engine_close(b->engine, b->tenant[round % TENANTS], MOIRE_EUNLOADED);
        assert_int_equal(open_tenant(b, round % TENANTS, NULL), MOIRE_OK);
    }
    strike(b);
}

static void an_abort_answers_what_is_open(void **state) {
    (void)state;
    struct bed *b = lay(NULL, false, false);
    open_all(b);
    toy_gpu_stretch(&b->toy, 20);
    load(b, QUERIES / 4, 0);
    mo_engine_abort(b->engine, MOIRE_ESHUTDOWN);
    strike(b);
}

/* Blocks that take longer than alone are what the policies hear of. */
static void slowdown_is_observed(void **state) {
    (void)state;
    struct bed *b = lay(NULL, true, true);
    open_all(b);
    toy_gpu_stretch(&b->toy, 200);
    load(b, QUERIES / 8, 0);
    mo_engine_drain(b->engine);
    for (int i = 0; i < TENANTS; i++)
        assert_true(mo_sched_view(b->engine->sched)->tenants[b->tenant[i]].residual > 1.003);
    strike(b);
}

/* The process of the GPUs is killed in any moment, under random plans and cut batches: what was in flight or
 * between two segments says that the device was lost, and all else is answered. */
static void a_child_is_killed_under_load(void **state) {
    (void)state;
    struct bed *b = lay_in(NULL, false, false, true);
    struct mo_gpu_child_stats stats;
    int ok = 0;
    open_all(b);
    for (int round = 1; round <= 5; round++) {
        load(b, QUERIES / 8, 10);
        child_case_wait_started(&b->child, round);
        mo_gpu_child_stats(b->toy.system, &stats);
        load(b, QUERIES / 16, 0);
        kill(stats.pid, SIGKILL);
        load(b, QUERIES / 16, 10);
    }
    child_case_wait_started(&b->child, 6);
    for (int i = 0; i < TENANTS; i++) {
        struct query *q = submit(b, i);
        assert_non_null(q);
        wait_for(b, q);
        assert_int_equal(q->code, MOIRE_OK);
    }
    mo_engine_drain(b->engine);
    for (int i = 0; i < b->n; i++) {
        const int code = b->query[i].code;
        ok += code == MOIRE_OK;
        if (code && code != MOIRE_ECANCELLED) assert_int_equal(code, MOIRE_EDEVICE);
    }
    assert_true(ok > TENANTS);
    strike(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries_survive_random_plans_and_blocks),
        cmocka_unit_test(a_server_of_the_simulator_serves_live),
        cmocka_unit_test(failures_are_answered),
        cmocka_unit_test(a_lost_gpu_answers_everything),
        cmocka_unit_test(tenants_that_do_not_fit_are_refused),
        cmocka_unit_test(tenants_leave_under_load),
        cmocka_unit_test(an_abort_answers_what_is_open),
        cmocka_unit_test(slowdown_is_observed),
        cmocka_unit_test(a_child_is_killed_under_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
