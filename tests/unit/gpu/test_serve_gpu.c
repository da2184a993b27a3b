/* SPDX-License-Identifier: Apache-2.0
 * test_serve_gpu.c - tenants on GPUs behind the public calls, on a toy plugin: queries are answered by the
 * GPU, in batches; what it fails the cores answer rightly; and nothing is left behind. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/sim/replay.h"
#include "bench/data/trace.h"
#include "models/zoo.h"
#include "runtime/engine/device_impl.h"
#include "runtime/serve/gpu.h"
#include "tests/unit/codegen/onnx_build.h"
#include "tests/unit/gpu/toy_gpu.h"
#include "tests/unit/gpu/toy_machine.h"
#include "tests/unit/planner/plan_case.h"

enum { SIDE = 32, PIXELS = SIDE * SIDE, QUERIES = 120, CLASSES = 10 };

static char folder[] = "/tmp/moire-serve-gpu-XXXXXX";
static char model[512];

static int make_model(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    if (!mkdtemp(folder)) return -1;
    return mo_zoo_path(&env, "lenet", folder, model, sizeof model, NULL);
}

static int remove_model(void **state) {
    (void)state;
    unlink(model);
    return rmdir(folder);
}

static moire_runtime *start_with(const char *profiles) {
    moire_runtime *rt = NULL;
    moire_error err = {0};
    moire_config c;
    toy_machine_set_up(&c);
    c.device_profiles = profiles;
    int rc = mo_runtime_create(&c, &toy_machine.env, 1 << 12, &rt, &err);
    if (rc) print_message("%s\n", err.message);
    assert_int_equal(rc, MOIRE_OK);
    return rt;
}

static moire_runtime *start(void) {
    return start_with(NULL);
}

static moire_tenant *load(moire_runtime *rt, int device_only) {
    moire_tenant_config c;
    moire_tenant *t = NULL;
    moire_error err = {0};
    moire_tenant_config_init(&c);
    c.qos_ns = INT64_C(5000000000);
    c.device_only = device_only;
    c.rate = 100;
    int rc = moire_load(rt, model, &c, &t, &err);
    if (rc) print_message("%s\n", err.message);
    assert_int_equal(rc, MOIRE_OK);
    assert_non_null(t->gpu);
    return t;
}

struct record {
    _Atomic int answers, code;
    moire_query handle, answered; /* as submit said, as the answer did */
    float out[CLASSES];
    char message[160];
};

static void note(void *user, const moire_answer *a) {
    struct record *r = user;
    if (a->code == MOIRE_OK) memcpy(r->out, a->outputs[0].data, sizeof r->out);
    snprintf(r->message, sizeof r->message, "%.150s", a->message);
    r->answered = a->query;
    atomic_store(&r->code, a->code);
    atomic_fetch_add(&r->answers, 1);
}

static void ask(moire_tenant *t, int seed, struct record *r) {
    float pixels[PIXELS];
    for (int i = 0; i < PIXELS; i++)
        pixels[i] = (float)((i * 7 + seed * 13) % 97) / 97;
    moire_tensor in = {.dtype = MOIRE_F32, .rank = 4, .shape = {1, 1, SIDE, SIDE}, .data = pixels};
    in.bytes = sizeof pixels;
    moire_error err = {0};
    int rc = moire_submit(t, &in, 1, 0, note, r, &r->handle, &err);
    if (rc) print_message("%s\n", err.message);
    assert_int_equal(rc, MOIRE_OK);
}

static void ask_all(moire_runtime *rt, moire_tenant *t, struct record *r) {
    memset(r, 0, QUERIES * sizeof *r);
    for (int i = 0; i < QUERIES; i++)
        ask(t, i, &r[i]);
    moire_drain(rt);
    for (int i = 0; i < QUERIES; i++)
        assert_int_equal(r[i].answers, 1);
}

static moire_tenant_stats stats_of(moire_tenant *t) {
    moire_tenant_stats s = {.size = sizeof s};
    assert_int_equal(moire_tenant_get_stats(t, &s, NULL), MOIRE_OK);
    return s;
}

static float first_pixel(int seed) {
    return (float)((seed * 13) % 97) / 97;
}

static void queries_run_in_batches_on_the_gpu(void **state) {
    (void)state;
    static struct record r[QUERIES];
    moire_runtime *rt = start();
    moire_tenant *t = load(rt, 0);
    struct mo_sched_stats stats;
    ask_all(rt, t, r);
    int segments = t->gpu->profile->n_layers;
    for (int i = 0; i < QUERIES; i++) {
        assert_int_equal(r[i].code, MOIRE_OK);
        assert_true(r[i].out[0] == toy_gpu_answer(first_pixel(i), segments));
    }
    mo_runtime_stats(rt, &stats);
    assert_int_equal(stats.ok, QUERIES);
    assert_true(stats.blocks < QUERIES && stats.members == QUERIES);
    const moire_tenant_stats s = stats_of(t);
    assert_true(s.counts.ok == QUERIES && s.counts.submitted == QUERIES && s.times.compute.count == QUERIES);
    assert_true(s.memory.device_weights > 0 && s.memory.device_staging >= t->gpu->staging_bytes);
    assert_int_equal(moire_unload(t, NULL), MOIRE_OK);
    moire_runtime_destroy(rt, 1);
    assert_int_equal(toy_machine.open, 0);
}

/* What the cores say of the same inputs. */
static void reference(struct record *r) {
    moire_config c;
    moire_config_init(&c);
    c.generic_only = 1;
    c.threads = 2;
    moire_runtime *rt;
    moire_tenant *t;
    moire_tenant_config tc;
    moire_tenant_config_init(&tc);
    assert_int_equal(moire_runtime_create(&c, &rt, NULL), MOIRE_OK);
    assert_int_equal(moire_load(rt, model, &tc, &t, NULL), MOIRE_OK);
    ask_all(rt, t, r);
    moire_runtime_destroy(rt, 1);
}

static bool same(const struct record *a, const struct record *b) {
    for (int i = 0; i < CLASSES; i++)
        if (a->out[i] != b->out[i]) return false;
    return true;
}

static void cores_take_over_what_the_gpu_fails(void **state) {
    (void)state;
    static const int codes[] = {MOIRE_EDEVICE, MOIRE_ENOMEM, MOIRE_EFAILED};
    static struct record r[QUERIES], want[QUERIES];
    reference(want);
    for (size_t k = 0; k < sizeof codes / sizeof *codes; k++) {
        moire_runtime *rt = start();
        moire_tenant *t = load(rt, 0);
        struct toy_gpu toy = {&toy_machine.ops, toy_machine.system};
        toy_gpu_fail(&toy, &(struct toy_gpu_faults){.work = 3, .code = codes[k]});
        ask_all(rt, t, r);
        int moved = 0;
        for (int i = 0; i < QUERIES; i++) {
            assert_int_equal(r[i].code, MOIRE_OK);
            moved += same(&r[i], &want[i]);
        }
        assert_true(moved > 0);
        assert_int_equal(atomic_load(&t->gpu->moved), moved);
        const moire_counts c = stats_of(t).counts; /* who has moved counts once, as what he was answered */
        assert_true(c.submitted == QUERIES && c.ok == QUERIES && c.failed == 0);
        moire_runtime_destroy(rt, 1);
        assert_int_equal(toy_machine.open, 0);
    }
}

/* Cores are held, so what the GPU fails waits there; its handle is still the one that its user has. */
static void a_query_that_has_moved_can_be_cancelled(void **state) {
    (void)state;
    enum { MOVED = 10, MS = 1000000 };
    static struct record r[MOVED];
    memset(r, 0, sizeof r);
    moire_runtime *rt = start();
    moire_tenant *t = load(rt, 0);
    struct toy_gpu toy = {&toy_machine.ops, toy_machine.system};
    toy_gpu_fail(&toy, &(struct toy_gpu_faults){.work = 1, .code = MOIRE_EDEVICE});
    mo_device_take(rt->cores);
    mo_sched_hold(rt->cores->sched);
    mo_device_drop(rt->cores);
    for (int i = 0; i < MOVED; i++)
        ask(t, i, &r[i]);
    while (atomic_load(&t->gpu->moved) < MOVED)
        rt->env.sys->sleep_until(NULL, mo_now(&rt->env) + MS);
    for (int i = 0; i < MOVED; i += 2) {
        assert_int_equal(moire_cancel(rt, r[i].handle), MOIRE_OK);
        assert_int_equal(moire_cancel(rt, r[i].handle), MOIRE_ESTALE);
    }
    mo_device_take(rt->cores);
    mo_sched_unhold(rt->cores->sched, mo_now(&rt->env));
    mo_device_drop(rt->cores);
    moire_drain(rt);
    for (int i = 0; i < MOVED; i++) {
        assert_int_equal(r[i].answers, 1);
        assert_int_equal(r[i].code, i % 2 ? MOIRE_OK : MOIRE_ECANCELLED);
        assert_true(r[i].answered == r[i].handle);
        assert_int_equal(moire_cancel(rt, r[i].handle), MOIRE_ESTALE);
    }
    moire_runtime_destroy(rt, 1);
    assert_int_equal(toy_machine.open, 0);
}

static void many_at_once_come_to_the_gpu(void **state) {
    (void)state;
    enum { AT_ONCE = 8 };
    static struct record r[AT_ONCE];
    float pixels[PIXELS] = {1};
    const moire_tensor in = {MOIRE_F32, 4, {1, 1, SIDE, SIDE}, pixels, sizeof pixels};
    moire_submission list[AT_ONCE];
    memset(r, 0, sizeof r);
    moire_runtime *rt = start();
    moire_tenant *t = load(rt, 1);
    moire_query_options late = {.size = sizeof late, .deadline_ns = 1, .tag = 7};
    for (int i = 0; i < AT_ONCE; i++)
        list[i] = (moire_submission){.inputs = &in, .options = i ? NULL : &late, .user = &r[i]};
    assert_int_equal(moire_submit_many(t, list, AT_ONCE, note, NULL), MOIRE_OK);
    assert_int_equal(moire_tenant_drain(t, NULL), MOIRE_OK);
    for (int i = 0; i < AT_ONCE; i++) {
        assert_true(r[i].answers == 1 && r[i].answered == list[i].handle);
        assert_int_equal(r[i].code, i ? MOIRE_OK : MOIRE_EEXPIRED);
    }
    assert_int_equal(moire_submit_many(t, list, 1, note, NULL), MOIRE_EUNLOADED);
    moire_runtime_destroy(rt, 1);
}

static void without_cores_the_failure_is_the_answer(void **state) {
    (void)state;
    static struct record r[QUERIES];
    moire_runtime *rt = start();
    moire_tenant *t = load(rt, 1);
    struct toy_gpu toy = {&toy_machine.ops, toy_machine.system};
    toy_gpu_fail(&toy, &(struct toy_gpu_faults){.work = 2, .hangs = true, .code = MOIRE_EDEVICE});
    ask_all(rt, t, r);
    int failed = 0;
    for (int i = 0; i < QUERIES; i++) {
        failed += r[i].code == MOIRE_EDEVICE;
        if (r[i].code == MOIRE_EDEVICE) assert_non_null(strstr(r[i].message, "GPU 0: toy: "));
    }
    assert_true(failed > 0);
    moire_runtime_destroy(rt, 1);
}

/* Bytes that loading the model takes. */
static int64_t memory_of_load(int device_only, int64_t *weights) {
    moire_runtime *rt = start();
    int64_t before = atomic_load(&toy_machine.taken);
    const moire_tenant *t = load(rt, device_only);
    int64_t taken = atomic_load(&toy_machine.taken) - before;
    if (t->plan) *weights = t->plan->weight_bytes + t->plan->shared_bytes;
    moire_runtime_destroy(rt, 1);
    return taken;
}

/* Shapes are still known and checked. */
static void ports_are_as_on_cores(moire_tenant *t) {
    float pixels[PIXELS] = {0};
    moire_port port;
    moire_error err;
    assert_true(moire_n_inputs(t) == 1 && moire_n_outputs(t) == 1);
    assert_int_equal(moire_input(t, 0, &port), MOIRE_OK);
    assert_true(port.dtype == MOIRE_F32 && port.rank == 4 && port.shape[0] == 1 && port.shape[2] == SIDE);
    assert_int_equal(moire_output(t, 0, &port), MOIRE_OK);
    assert_true(port.rank == 2 && port.shape[1] == CLASSES);
    moire_tensor in = {.dtype = MOIRE_F32,
                       .rank = 4,
                       .shape = {1, 1, SIDE, SIDE / 2},
                       .data = pixels,
                       .bytes = sizeof pixels / 2};
    assert_int_equal(moire_submit(t, &in, 1, 0, note, NULL, NULL, &err), MOIRE_ESHAPE);
    assert_non_null(strstr(err.message, "the model was loaded for [1,1,32,32]"));
}

static void device_only_prepares_nothing_for_cores(void **state) {
    (void)state;
    int64_t weights = 0, both = memory_of_load(0, &weights), only = memory_of_load(1, &weights);
    assert_true(weights > 0);
    if (both - only < weights) fail_msg("%lld bytes, %lld with cores", (long long)only, (long long)both);
    moire_runtime *rt = start();
    moire_tenant *t = load(rt, 1);
    struct mo_sched_stats stats;
    assert_true(!t->plan && !t->profile && !t->n_instances && !t->requests);
    ports_are_as_on_cores(t);
    assert_int_equal(moire_unload(t, NULL), MOIRE_OK);
    mo_device_stats(rt->cores, &stats);
    assert_int_equal(stats.accepted, 0);
    moire_runtime_destroy(rt, 1);
    assert_int_equal(toy_machine.open, 0);
}

/* An operator that no GPU takes: its name, or cores. */
/* The zoo's file is lenet-r2.onnx, its profile lenet.csv. */
static void a_profile_in_the_folder_is_taken(void **state) {
    (void)state;
    char path[600];
    snprintf(path, sizeof path, "%s/lenet.csv", folder);
    FILE *f = fopen(path, "wbe");
    assert_true(f &&
                fputs("# moire-profile 1\n# model lenet\n# memory_mib 10\n# copy_bytes 3136 40\n"
                      "batch,what,500,1000\n1,us,1200,700\n8,us,4000,2000\n",
                      f) >= 0 &&
                !fclose(f));
    moire_runtime *rt = start_with(folder);
    moire_tenant *t = load(rt, 1);
    assert_int_equal(mo_share_latency(t->gpu->share[0], 1, MO_SHARE_WHOLE), 700000);
    moire_runtime_destroy(rt, 1);
    f = fopen(path, "wbe");
    assert_true(f && fputs("# moire-profile 1\nno profile\n", f) >= 0 && !fclose(f));
    rt = start_with(folder);
    moire_tenant_config c;
    moire_error err = {0};
    moire_tenant_config_init(&c);
    c.device_only = 1;
    assert_int_equal(moire_load(rt, model, &c, &t, &err), MOIRE_EFORMAT);
    assert_non_null(strstr(err.message, "lenet.csv"));
    moire_runtime_destroy(rt, 1);
    unlink(path);
    assert_int_equal(toy_machine.open, 0);
}

static void what_cannot_be_lowered_is_named(void **state) {
    (void)state;
    char path[600];
    moire_runtime *rt = start();
    moire_tenant_config c;
    moire_tenant *t;
    moire_error err = {0};
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "4,4");
    ob_node(b, "NonZero", "x", "y");
    ob_output(b, "y");
    snprintf(path, sizeof path, "%s/nonzero.onnx", folder);
    assert_true(ob_save(b, path));
    ob_destroy(b);
    moire_tenant_config_init(&c);
    c.device_only = 1;
    assert_int_equal(moire_load(rt, path, &c, &t, &err), MOIRE_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "NonZero"));
    c.device_only = 0;
    assert_int_equal(moire_load(rt, path, &c, &t, &err), MOIRE_OK);
    assert_true(t->plan && !t->gpu);
    unlink(path);
    c.device_only = 1;
    assert_int_equal(moire_load(rt, path, &c, &t, &err), MOIRE_EIO);
    assert_non_null(strstr(err.message, path));
    moire_runtime_destroy(rt, 1);
    assert_int_equal(toy_machine.open, 0);
}

static void a_device_that_is_not_there_is_said(void **state) {
    (void)state;
    moire_config c;
    moire_runtime *rt;
    moire_error err = {0};
    moire_config_init(&c);
    c.threads = 1;
    c.device = "nothere";
    assert_int_equal(moire_runtime_create(&c, &rt, &err), MOIRE_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "libmoire-nothere.so"));
    moire_runtime_destroy(start(), 1);
    c.device = "cuda";
    c.device_policy = "fcfs";
    assert_int_equal(mo_runtime_create(&c, &toy_machine.env, 0, &rt, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "no policy 'fcfs' for GPUs"));
    c.device_policy = NULL;
    c.device_precision = "fp12";
    assert_int_equal(mo_runtime_create(&c, &toy_machine.env, 0, &rt, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "fp12"));
}

static void fail_with(const moire_config *c, const char *part, int code) {
    moire_runtime *rt = NULL;
    moire_error err = {0};
    assert_int_equal(mo_runtime_create(c, &toy_machine.env, 0, &rt, &err), code);
    if (!strstr(err.message, part)) fail_msg("\"%s\" lacks \"%s\"", err.message, part);
    assert_int_equal(toy_machine.open, 0);
}

/* A trained policy plans the lets of a live runtime; one that is missing, of other GPUs or no file is said.
 */
static void what_was_trained_serves(void **state) {
    (void)state;
    static struct record r[QUERIES];
    char path[600], other[600];
    moire_config c;
    moire_runtime *rt = NULL;
    moire_error err = {0};
    toy_machine_set_up(&c);
    struct mo_plan_kind kind = {.name = "toy", .units = TOY_UNITS, .max_lets = TOY_UNITS};
    struct mo_region *region = mo_region_create(&toy_machine.env);
    mo_plan_sizes(&kind, 1, 1);
    struct mo_policy_file policy = plan_case_policy(region, &kind, 1, 1);
    snprintf(path, sizeof path, "%s/toy.mo", folder);
    snprintf(other, sizeof other, "%s/other.mo", folder);
    assert_int_equal(mo_policy_write(&toy_machine.env, path, &policy, &err), MOIRE_OK);
    snprintf(policy.gpus, sizeof policy.gpus, "another");
    assert_int_equal(mo_policy_write(&toy_machine.env, other, &policy, &err), MOIRE_OK);
    mo_region_destroy(region);

    c.device_policy = "inss";
    fail_with(&c, "device_weights must name it", MOIRE_EINVAL);
    c.device_weights = other;
    fail_with(&c, "was trained for 'another', and here is 'toy of 4 units", MOIRE_EINVAL);
    c.device_weights = model;
    fail_with(&c, "lenet", MOIRE_EFORMAT);
    c.device_weights = "/nowhere.mo";
    fail_with(&c, "/nowhere.mo", MOIRE_EIO);
    c.device_weights = path;
    c.device_policy = NULL;
    fail_with(&c, "go with a policy that learned, and 'moire-gpu' did not", MOIRE_EINVAL);

    c.device_policy = "inss";
    if (mo_runtime_create(&c, &toy_machine.env, 1 << 12, &rt, &err)) fail_msg("%s", err.message);
    moire_tenant *t[] = {load(rt, 1), load(rt, 1)};
    for (int i = 0; i < 2; i++) {
        ask_all(rt, t[i], r);
        for (int k = 0; k < QUERIES; k++) {
            assert_int_equal(r[k].code, MOIRE_OK);
            assert_true(r[k].out[0] == toy_gpu_answer(first_pixel(k), t[i]->gpu->profile->n_layers));
        }
    }
    moire_runtime_destroy(rt, 1);
    assert_int_equal(toy_machine.open, 0);
    unlink(path);
    unlink(other);
}

/* The plan in force knows nothing of it, and nothing else happens that would make a new one. */
static void a_tenant_that_comes_later_is_served(void **state) {
    (void)state;
    static struct record r[QUERIES];
    moire_runtime *rt = start();
    ask_all(rt, load(rt, 1), r);
    moire_tenant *late = load(rt, 1);
    memset(r, 0, sizeof r);
    ask(late, 1, &r[0]);
    moire_drain(rt);
    assert_int_equal(r[0].answers, 1);
    assert_int_equal(r[0].code, MOIRE_OK);
    moire_runtime_destroy(rt, 1);
    assert_int_equal(toy_machine.open, 0);
}

static void a_destroyed_runtime_answers_all(void **state) {
    (void)state;
    static struct record r[QUERIES];
    moire_runtime *rt = start();
    moire_tenant *t = load(rt, 0);
    struct toy_gpu toy = {&toy_machine.ops, toy_machine.system};
    toy_gpu_stretch(&toy, 50);
    memset(r, 0, sizeof r);
    for (int i = 0; i < QUERIES; i++)
        ask(t, i, &r[i]);
    moire_runtime_destroy(rt, 0);
    for (int i = 0; i < QUERIES; i++)
        assert_int_equal(r[i].answers, 1);
    assert_int_equal(toy_machine.open, 0);
}

/* Every query with what became of it, every block with its GPU, let and times, and the tenant's profile. */
static void what_happened_is_in_the_trace(const moire_runtime *rt, const moire_tenant *t, const char *path,
                                          const struct mo_sched_stats *stats) {
    struct mo_trace trace;
    moire_error err;
    const struct mo_gpus *gpus = &rt->device->gpus;
    if (mo_trace_read(&rt->env, path, &trace, &err)) fail_msg("%s", err.message);
    assert_string_equal(trace.policy, "moire-gpu");
    assert_int_equal(trace.gpus.n_units, gpus->n_units);
    assert_int_equal(trace.gpus.kinds[0].memory_bytes, gpus->kinds[0].memory_bytes);
    assert_int_equal(trace.n_queries, QUERIES);
    for (int i = 0; i < QUERIES; i++) {
        const struct mo_trace_query *q = &trace.queries[i];
        assert_true(q->code == MOIRE_OK && q->arrival > 0 && q->start >= q->arrival && q->end > q->start);
    }
    assert_int_equal(trace.n_blocks + trace.n_stalls, stats->blocks);
    for (int i = 0; i < trace.n_blocks; i++) {
        const struct mo_trace_block *b = &trace.blocks[i];
        assert_true(b->observed > 0 && b->predicted > 0 && b->cores >= 1 && b->lead + b->cores <= TOY_UNITS);
    }
    const struct mo_trace_tenant *of = &trace.tenants[mo_tenant_index(t, t->gpu)];
    assert_string_equal(of->name, t->name);
    assert_int_equal(of->n_layers, t->gpu->profile->n_layers);
    assert_true(of->declared > 99.9 && of->declared < 100.1);
    for (int batch = 1; batch <= 8; batch++)
        for (int share = 100; share <= MO_SHARE_WHOLE; share += 100)
            assert_int_equal(mo_share_latency(of->share[0], batch, share),
                             mo_share_latency(t->gpu->share[0], batch, share));
    mo_trace_free(&trace);
}

/* With seconds to answer in, everything is in time, in the recording as in every replay. */
static void it_is_predicted(const struct mo_env *env, const char *path) {
    static const unsigned pieces[] = {0, MO_REPLAY_MEASURED, MO_REPLAY_MEASURED | MO_REPLAY_LATE};
    for (size_t k = 0; k < sizeof pieces / sizeof *pieces; k++) {
        struct mo_bench_replay_options o = {.trace = path, .pieces = pieces[k]};
        json_t *doc, *row;
        moire_error err;
        size_t i;
        if (mo_bench_replay(env, &o, &doc, &err)) fail_msg("%s", err.message);
        assert_int_equal(json_array_size(json_object_get(doc, "results")), 2);
        json_array_foreach(json_object_get(doc, "results"), i, row) {
            const json_t *tenant = json_array_get(json_object_get(row, "tenants"), 0);
            assert_true(json_number_value(json_object_get(tenant, "within_qos")) == 1);
            assert_true(json_number_value(json_object_get(tenant, "p95_ms")) > 0);
        }
        json_decref(doc);
    }
}

static void a_run_is_recorded_and_played_again(void **state) {
    (void)state;
    static struct record r[QUERIES];
    char path[600];
    struct mo_env env = mo_env_default();
    struct mo_sched_stats stats;
    moire_error err;
    snprintf(path, sizeof path, "%s/trace", folder);
    moire_runtime *rt = start();
    moire_tenant *t = load(rt, 1);
    ask_all(rt, t, r);
    mo_runtime_stats(rt, &stats);
    if (moire_record(rt, path, &err)) fail_msg("%s", err.message);
    what_happened_is_in_the_trace(rt, t, path, &stats);
    moire_runtime_destroy(rt, 1);
    it_is_predicted(&env, path);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries_run_in_batches_on_the_gpu),
        cmocka_unit_test(cores_take_over_what_the_gpu_fails),
        cmocka_unit_test(a_query_that_has_moved_can_be_cancelled),
        cmocka_unit_test(many_at_once_come_to_the_gpu),
        cmocka_unit_test(without_cores_the_failure_is_the_answer),
        cmocka_unit_test(a_tenant_that_comes_later_is_served),
        cmocka_unit_test(device_only_prepares_nothing_for_cores),
        cmocka_unit_test(a_profile_in_the_folder_is_taken),
        cmocka_unit_test(what_cannot_be_lowered_is_named),
        cmocka_unit_test(a_run_is_recorded_and_played_again),
        cmocka_unit_test(a_destroyed_runtime_answers_all),
        cmocka_unit_test(a_device_that_is_not_there_is_said),
        cmocka_unit_test(what_was_trained_serves),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
