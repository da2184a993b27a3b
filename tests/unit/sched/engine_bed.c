/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "tests/unit/sched/engine_bed.h"
#include "tests/history/recorded.h"

static const int64_t MS = 1000000;

/* --- a policy that makes trouble: random lets, random blocks -------------------------------------------- */
uint64_t bed_random(struct bed_trouble *s, uint64_t n) {
    s->rng = s->rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (s->rng >> 33) % n;
}

static void cut(struct bed_trouble *s, const struct mo_view *view) {
    s->plan.n_lets = 0;
    s->plan.complete = true;
    for (int g = 0; g < view->gpus->n_gpus; g++)
        for (int at = view->gpu_lost[g] ? BED_UNITS : 0; at < BED_UNITS;) {
            int units = 1 + (int)bed_random(s, (uint64_t)(BED_UNITS - at));
            struct mo_planned_let *l = &s->plan.lets[s->plan.n_lets++];
            *l = (struct mo_planned_let){.gpu = g, .first = at, .units = units};
            for (int t = 0; t < view->n_tenants; t++)
                if (view->tenants[t].open)
                    l->entries[l->n_entries++] = (struct mo_let_entry){.tenant = t, .batch = BED_LARGEST};
            if (!l->n_entries) s->plan.n_lets--;
            at += units;
        }
}

/* A whole batch behind the one that a let runs, where the core takes that. */
static void queue(struct bed_trouble *s, const struct mo_view *view, const struct mo_planned_let *let,
                  int *taken, struct mo_decisions *out) {
    const int lead = view->gpus->first[let->gpu] + let->first, layers = BED_SEGMENTS;
    const struct mo_view_run *run = &view->runs[lead];
    if (run->query < 0 || run->n_cores != let->units || run->end < layers) return;
    if (view->behind[lead].query >= 0 || bed_random(s, 2)) return;
    for (int i = 0; i < let->n_entries; i++) {
        const int t = let->entries[i].tenant;
        const struct mo_view_tenant *v = &view->tenants[t];
        int n = v->n_waiting - taken[t];
        if (n > v->free_instances - taken[t]) n = v->free_instances - taken[t];
        if (!v->open || n <= 0) continue;
        n = 1 + (int)bed_random(s, (uint64_t)(n < BED_LARGEST ? n : BED_LARGEST));
        mo_decide_batch(out, v->waiting[taken[t]], n, layers, mo_gpus_let(view->gpus, let));
        taken[t] += n;
        return;
    }
}

static bool is_on(const struct mo_planned_let *let, int tenant) {
    for (int i = 0; i < let->n_entries; i++)
        if (let->entries[i].tenant == tenant) return true;
    return false;
}

static void fill(struct bed_trouble *s, const struct mo_view *view, const struct mo_planned_let *let,
                 int *taken, bool *goes_on, struct mo_decisions *out) {
    const int layers = BED_SEGMENTS;
    int t = view->n_tenants ? (int)bed_random(s, (uint64_t)view->n_tenants) : 0;
    for (int i = 0; i < view->n_tenants; i++, t = (t + 1) % view->n_tenants) {
        const struct mo_view_tenant *v = &view->tenants[t];
        struct mo_cores cores = mo_gpus_let(view->gpus, let);
        if (!v->open || !is_on(let, t)) continue;
        if (v->n_paused && v->paused_gpu == let->gpu && !goes_on[t]) {
            int at = view->queries[v->paused[0]].next_layer;
            goes_on[t] = true;
            mo_decide_batch(out, v->paused[0], v->n_paused,
                            at + 1 + (int)bed_random(s, (uint64_t)(layers - at)), cores);
            return;
        }
        int n = v->n_waiting - taken[t];
        if (n > v->free_instances - taken[t]) n = v->free_instances - taken[t];
        if (n <= 0) continue;
        n = 1 + (int)bed_random(s, (uint64_t)(n < BED_LARGEST ? n : BED_LARGEST));
        bool may = !s->whole && v->paused_gpu < 0 && !goes_on[t];
        goes_on[t] |= may;
        mo_decide_batch(out, v->waiting[taken[t]], n, may ? 1 + (int)bed_random(s, (uint64_t)layers) : layers,
                        cores);
        taken[t] += n;
        return;
    }
}

static void dispatch(void *state, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out) {
    struct bed_trouble *s = state;
    const struct bed_trouble *options = view->options;
    int taken[BED_TENANTS] = {0};
    bool goes_on[BED_TENANTS] = {false};
    (void)event;
    s->whole = options->whole;
    if (!view->lets_coming && view->n_tenants && (!view->lets || (!options->still && !bed_random(s, 12)))) {
        cut(s, view);
        if (s->plan.n_lets) mo_decide_lets(out, &s->plan);
    }
    for (int i = 0; view->lets && i < view->lets->n_lets; i++) {
        struct mo_cores cores = mo_gpus_let(view->gpus, &view->lets->lets[i]);
        if (view->gpu_down[view->lets->lets[i].gpu]) continue;
        if (mo_cores_subset(&cores, &view->idle))
            fill(s, view, &view->lets->lets[i], taken, goes_on, out);
        else if (view->gpus->ahead_ns)
            queue(s, view, &view->lets->lets[i], taken, out);
    }
}

/* --- a bed: toy, engine, tenants, queries --------------------------------------------------------------- */
static void tensors(void *self, void *user, const void **inputs, void **outputs) {
    struct bed_query *q = user;
    (void)self;
    inputs[0] = q->in;
    outputs[0] = q->out;
}

static void answer(void *self, const struct mo_answer *a) {
    struct bed_query *q = a->user;
    (void)self;
    q->code = a->code;
    q->arrival = a->arrival;
    q->start = a->start;
    atomic_fetch_add(&q->answers, 1);
}

static void release(void *self, void *user) {
    (void)self;
    atomic_fetch_add(&((struct bed_query *)user)->releases, 1);
}

static const struct mo_model_ops model = {.answer = answer, .release = release};

static void make_profiles(struct bed *b, int stretch) {
    static const int batch[] = {1, 2, 4, 8}, share[] = {250, 500, 750, 1000};
    int64_t layer[BED_SEGMENTS] = {10000, 20000, 10000, 20000};
    b->profile = mo_profile_create(&b->env, BED_SEGMENTS, BED_UNITS);
    mo_profile_record(b->profile, 1, layer);
    mo_profile_finish(b->profile);
    b->share = mo_share_create(&b->env, 4, batch, 4, share);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            mo_share_record(
                b->share, i, j,
                &(struct mo_share_cell){stretch * (20000 + 10000 * batch[i]) / (j + 1), {-1, -1, -1}});
    assert_int_equal(mo_share_finish(b->share, NULL), MOIRE_OK);
    b->kinds[0] = b->share;
}

/* The toy in this process, or in a child, where tensors have to be in staging memory. */
static void place_toy(struct bed *b, bool child) {
    void *staging;
    if (!child) {
        toy_gpu_open(&b->toy, &b->env, BED_GPUS, BED_UNITS);
        return;
    }
    child_case_begin(&b->child, "fake/libmoire-toy.so");
    child_case_open(&b->child, &(struct mo_gpu_config){0});
    b->toy = (struct toy_gpu){b->child.ops, b->child.system};
    const size_t bytes = sizeof b->query / sizeof *b->query * 2 * sizeof(float);
    assert_int_equal(b->toy.ops->staging_alloc(b->toy.system, bytes, &staging, NULL), MOIRE_OK);
    b->staging = staging;
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

static struct bed *lay(const struct mo_policy *policy, bool whole, bool still, int stretch, bool child) {
    struct bed *b = calloc(1, sizeof *b);
    b->env = mo_env_default();
    b->options = (struct bed_trouble){.whole = whole, .still = still};
    b->policy = (struct mo_policy){.name = "trouble",
                                   .gpus = true,
                                   .options = &b->options,
                                   .state_bytes = sizeof(struct bed_trouble),
                                   .dispatch = dispatch};
    b->gpus = (struct mo_gpus){.n_kinds = 1, .n_gpus = BED_GPUS, .ahead_ns = BED_AHEAD_NS};
    b->gpus.kinds[0] = (struct mo_plan_kind){.name = "toy",
                                             .units = BED_UNITS,
                                             .max_lets = BED_UNITS,
                                             .memory_bytes = INT64_C(1) << 30,
                                             .shared_weights = true};
    mo_plan_sizes(&b->gpus.kinds[0], 1, 1);
    assert_int_equal(mo_gpus_finish(&b->gpus, NULL), MOIRE_OK);
    make_profiles(b, stretch);
    place_toy(b, child);
    if (!child) toy_gpu_stretch(&b->toy, stretch);
    b->declared = 1000;
    for (int i = 0; i < BED_TENANTS; i++)
        b->qos_ns[i] = 1000 * MS;
    struct mo_engine_gpu_options gpu = {.ops = b->toy.ops,
                                        .system = b->toy.system,
                                        .gpus = &b->gpus,
                                        .max_batch = BED_LARGEST,
                                        .hang_ns = 5 * MS};
    struct mo_engine_config config = {.env = &b->env, .n_devices = 1};
    config.device[0] = (struct mo_device_config){.env = &b->env,
                                                 .calls = &mo_engine_gpus,
                                                 .options = &gpu,
                                                 .policy = policy ? policy : &b->policy,
                                                 .max_queries = 2 * BED_QUERIES,
                                                 .max_tenants = BED_TENANTS,
                                                 .events = 1 << 16};
    assert_int_equal(mo_engine_create(&config, &b->engine, NULL), MOIRE_OK);
    b->device = mo_engine_device(b->engine, 0);
    return b;
}

struct bed *bed_create(const struct mo_policy *policy, bool whole, bool still, int stretch) {
    return lay(policy, whole, still, stretch, false);
}

struct bed *bed_create_in_child(void) {
    return lay(NULL, false, false, 1, true);
}

int bed_open(struct bed *b, int i, moire_error *err) {
    struct mo_gpu_program program[BED_BUCKETS];
    struct mo_gpu_port port[BED_BUCKETS];
    struct mo_engine_gpu_programs p = {.tensors = tensors,
                                       .n_buckets = BED_BUCKETS,
                                       .n_inputs = 1,
                                       .n_outputs = 1,
                                       .n_segments = BED_SEGMENTS,
                                       .output_bytes = sizeof(float)};
    struct mo_device_tenant t = {.sched = {.qos_ns = b->qos_ns[i],
                                           .priority = b->priority[i],
                                           .queue = BED_QUERIES,
                                           .instances = 64,
                                           .profile = b->profile,
                                           .share = b->kinds,
                                           .declared = b->declared},
                                 .ops = &model,
                                 .programs = &p};
    for (int r = 0; r < BED_BUCKETS; r++) {
        program[r] = toy_gpu_program(1 << r, BED_SEGMENTS);
        port[r] = (struct mo_gpu_port){.name = "x", .bytes = (1 << r) * (int64_t)sizeof(float)};
        program[r].inputs = program[r].outputs = &port[r];
        p.batch[r] = 1 << r;
        p.program[r] = &program[r];
    }
    return mo_engine_open(b->engine, 0, &t, &b->tenant[i], err);
}

void bed_open_all(struct bed *b) {
    for (int i = 0; i < BED_TENANTS; i++)
        assert_int_equal(bed_open(b, i, NULL), MOIRE_OK);
}

struct bed_query *bed_submit(struct bed *b, int i) {
    struct bed_query *q = &b->query[b->n++];
    q->in = b->staging ? &b->staging[2 * (b->n - 1)] : &q->x;
    q->out = b->staging ? q->in + 1 : &q->y;
    *q->in = (float)(b->n % 97);
    q->tenant = i;
    if (mo_engine_submit(b->engine, b->tenant[i], 0, q, &q->handle, NULL)) {
        b->n--;
        return NULL;
    }
    b->accepted++;
    return q;
}

void bed_wait(struct bed *b, struct bed_query *q) {
    while (!atomic_load(&q->answers))
        b->env.sys->sleep_until(NULL, mo_now(&b->env) + MS / 10);
}

/* Once each, right, and nothing is left behind. */
void bed_close(struct bed *b) {
    mo_engine_drain(b->engine);
    for (int i = 0; i < b->n; i++) {
        const struct bed_query *q = &b->query[i];
        assert_int_equal(q->answers, 1);
        assert_int_equal(q->releases, 1);
        if (q->code == MOIRE_OK) assert_true(*q->out == toy_gpu_answer(*q->in, BED_SEGMENTS));
    }
    for (int i = 0; i < BED_TENANTS; i++)
        if (b->tenant[i] >= 0) mo_engine_close(b->engine, b->tenant[i], MOIRE_EUNLOADED);
    struct mo_sched_stats stats;
    mo_engine_stats(b->engine, &stats);
    assert_int_equal(stats.refused, 0);
    history_of_device(b->device, b->accepted);
    mo_engine_destroy(b->engine);
    put_toy_away(b);
    mo_share_destroy(b->share);
    mo_profile_destroy(b->profile);
    free(b);
}

/* Bursts, with some cancelled on the way. */
void bed_load(struct bed *b, int n, int cancel_one_in) {
    struct bed_trouble draw = {.rng = 7};
    for (int i = 0; i < n; i++) {
        struct bed_query *q = bed_submit(b, (int)bed_random(&draw, BED_TENANTS));
        if (q && cancel_one_in && !bed_random(&draw, (uint64_t)cancel_one_in))
            mo_engine_cancel(b->engine, b->query[bed_random(&draw, (uint64_t)b->n)].handle);
        if (!bed_random(&draw, 4))
            b->env.sys->sleep_until(NULL, mo_now(&b->env) + (int64_t)bed_random(&draw, 300) * 1000);
    }
}
