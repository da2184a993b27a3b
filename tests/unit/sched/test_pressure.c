/* SPDX-License-Identifier: Apache-2.0
 * test_pressure.c - pressure: from slowdown, from a source that may vanish, into decisions, and from there to
 * the version of a layer that runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "runtime/ops/op.h"
#include "runtime/plan/versions.h"
#include "runtime/sched/policy.h"
#include "runtime/sched/sched.h"

static bool near(double a, double b) {
    return fabs(a - b) < 1e-9;
}

static void slowdown_lies_on_the_curve(void **state) {
    (void)state;
    const double curve[MO_PRESSURE_LEVELS] = {1, 1.1, 1.1, 1.3, 1.4, 1.5},
                 flat[MO_PRESSURE_LEVELS] = {1, 1, 1, 1, 1, 1.01};
    assert_true(near(mo_pressure_of(curve, 0.9), 0) && near(mo_pressure_of(curve, 1), 0));
    assert_true(near(mo_pressure_of(curve, 1.05), 0.1));
    assert_true(near(mo_pressure_of(curve, 1.2), 0.5));
    assert_true(near(mo_pressure_of(curve, 9), 1));
    assert_true(near(mo_pressure_of(flat, 9), 0)); /* such a model cannot tell */
}

/* --- the core, driven by hand --- */
struct manual {
    struct mo_run last;
    int starts, n_resolved, resolved[16];
};

static void manual_start(void *engine, const struct mo_run *run) {
    struct manual *h = engine;
    h->last = *run;
    h->starts++;
}
static void manual_timer(void *engine, int64_t when) {
    (void)engine, (void)when;
}
static void manual_resolved(void *engine, int query) {
    struct manual *h = engine;
    h->resolved[h->n_resolved++] = query;
}
static void manual_released(void *engine, int tenant, void *user) {
    (void)engine, (void)tenant, (void)user;
}

/* A recorded trace of a counter's pressure; below 0: the counter is gone. */
struct trace {
    const double *value;
    int at;
};

static bool read_trace(void *self, int64_t now, const struct mo_cores *ending, double *pressure) {
    struct trace *t = self;
    (void)now, (void)ending;
    if (t->value[t->at] < 0) return false;
    *pressure = t->value[t->at++];
    return true;
}

struct fixture {
    struct manual manual; /* first: the engine */
    struct mo_env env;
    struct mo_sched *s;
    struct mo_profile *profile;
    int tenant, warnings;
};

/* The fixture begins with its engine. */
static void count_warning(void *engine, int level, const char *line) {
    struct fixture *f = engine;
    f->warnings += level == MOIRE_LOG_WARN && strstr(line, "observed slowdown takes over") != NULL;
}

enum { LAYER_NS = 1000000 };

static void set_up(struct fixture *f, const char *policy, const struct mo_pressure_source *source,
                   bool tuned) {
    static const struct mo_engine_ops ops = {.start = manual_start,
                                             .set_timer = manual_timer,
                                             .resolved = manual_resolved,
                                             .released = manual_released,
                                             .say = count_warning};
    *f = (struct fixture){.env = mo_env_default()};
    struct mo_sched_config c = {.env = &f->env,
                                .policy = mo_policy_find(policy),
                                .n_cores = 2,
                                .max_queries = 16,
                                .max_tenants = 2,
                                .ops = &ops,
                                .engine = &f->manual};
    if (source) c.source = *source;
    assert_non_null(c.policy);
    assert_int_equal(mo_sched_create(&c, &f->s, NULL), MOIRE_OK);
    f->profile = mo_profile_create(&f->env, 3, 2);
    mo_profile_record(f->profile, 1, (const int64_t[]){LAYER_NS, LAYER_NS, LAYER_NS});
    mo_profile_record(f->profile, 2, (const int64_t[]){LAYER_NS, LAYER_NS, LAYER_NS});
    mo_profile_finish(f->profile);
    struct mo_sched_tenant_config tc = {
        .qos_ns = 100 * LAYER_NS, .queue = 8, .instances = 4, .profile = f->profile};
    const double curve[MO_PRESSURE_LEVELS] = {1, 1.1, 1.2, 1.3, 1.4, 1.5};
    if (tuned) memcpy(tc.slowdown, curve, sizeof curve);
    assert_int_equal(mo_sched_tenant_open(f->s, &tc, 0, &f->tenant, NULL), MOIRE_OK);
}

static void tear_down(struct fixture *f) {
    mo_sched_destroy(f->s);
    mo_profile_destroy(f->profile);
}

static void submit(struct fixture *f, int64_t now) {
    int slot;
    assert_int_equal(mo_sched_arrival(f->s, f->tenant, now, NULL, now, &slot, NULL), MOIRE_OK);
}

/* A block ends, and the answers that follow are delivered. */
static void finish(struct fixture *f, int lead, int64_t start, int64_t end, int64_t now) {
    mo_sched_block_done(f->s, lead, true, MOIRE_OK, start, end, NULL, now);
    while (f->manual.n_resolved)
        mo_sched_answered(f->s, f->manual.resolved[--f->manual.n_resolved], now);
}

/* Every policy gets the trace's values; only adaptive compilation acts on them. */
static void decisions_carry_the_pressure(void **state) {
    (void)state;
    static const struct {
        const char *policy;
        bool adapts;
    } rows[] = {{"veltair", true}, {"veltair-ac", true}, {"veltair-as", false}, {"layerwise", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double values[] = {0.6, 7, -1};
        struct trace trace = {values, 0};
        struct mo_pressure_source source = {"trace", read_trace, &trace};
        struct fixture f;
        set_up(&f, rows[i].policy, &source, false);
        submit(&f, 1);
        assert_int_equal(f.manual.starts, 1);
        assert_true(near(f.manual.last.pressure, rows[i].adapts ? 0.6 : 0));
        assert_true(near(mo_sched_view(f.s)->pressure[MO_PRESSURE_CACHE], 0.6));
        submit(&f, 2);
        assert_true(near(f.manual.last.pressure, rows[i].adapts ? 1 : 0)); /* cut to the range */
        tear_down(&f);
    }
}

/* A counter that vanishes while blocks run: one line, slowdown from there on, every query answered. */
static void a_vanished_source_loses_nothing(void **state) {
    (void)state;
    const double values[] = {0.6, -1};
    struct trace trace = {values, 0};
    struct mo_pressure_source source = {"trace", read_trace, &trace};
    struct fixture f;
    set_up(&f, "veltair-ac", &source, true);
    int64_t now = 1;
    submit(&f, now);
    submit(&f, now);
    assert_int_equal(f.warnings, 1);
    for (int i = 0; i < 200 && mo_sched_view(f.s)->n_in_system; i++) {
        const struct mo_view *v = mo_sched_view(f.s);
        int lead = v->runs[0].query >= 0 ? 0 : 1;
        assert_true(v->runs[lead].query >= 0);
        int64_t start = v->runs[lead].start;
        now += LAYER_NS / 2;
        finish(&f, lead, start, start + LAYER_NS, now);
    }
    assert_int_equal(mo_sched_stats(f.s)->ok, 2);
    assert_int_equal(f.warnings, 1);
    tear_down(&f);
}

/* Rounds of so many queries at once; blocks take `together` times their profile while others run, and `alone`
 * times by themselves. */
static int64_t serve_rounds(struct fixture *f, int at_once, double together, double alone) {
    int64_t now = 1;
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < at_once; i++)
            submit(f, now);
        while (mo_sched_view(f->s)->n_in_system) {
            const struct mo_view_run *runs = mo_sched_view(f->s)->runs;
            const int lead = runs[0].query >= 0 ? 0 : 1;
            const int64_t end = now + (int64_t)((runs[lead].alone ? alone : together) * LAYER_NS);
            finish(f, lead, now, end, end);
            now = end;
        }
    }
    return now;
}

/* Pressure after such rounds: first for a block that begins alone, then for one that begins when that has
 * `rest` to go. */
static void pressures_at(int at_once, double together, double alone, bool tuned, int64_t rest,
                         double seen[2]) {
    struct fixture f;
    set_up(&f, "veltair-ac", NULL, tuned);
    const int64_t now = serve_rounds(&f, at_once, together, alone);
    submit(&f, now);
    seen[0] = f.manual.last.pressure;
    submit(&f, mo_sched_view(f.s)->runs[f.manual.last.lead].predicted_end - rest);
    seen[1] = f.manual.last.pressure;
    tear_down(&f);
}

static void slowdown_makes_pressure(void **state) {
    (void)state;
    double seen[2];
    pressures_at(2, 1.25, 1, true, LAYER_NS, seen);
    assert_true(near(seen[0], 0) && seen[1] > 0.1); /* alone there is none */
    pressures_at(2, 1.25, 1, true, LAYER_NS / 100, seen);
    assert_true(near(seen[1], 0)); /* about to end: left out */
    pressures_at(2, 1.25, 1, false, LAYER_NS, seen);
    assert_true(near(seen[1], 0)); /* not tuned: nothing to compare with */
}

/* What slows blocks that run alone is outside, and stays when nothing runs. */
static void a_neighbour_outside_is_seen_alone(void **state) {
    (void)state;
    double seen[2];
    pressures_at(1, 1, 1.25, true, LAYER_NS, seen);
    assert_true(fabs(seen[0] - 0.5) < 0.02 && fabs(seen[1] - 0.5) < 0.02);
    pressures_at(1, 1, 1, true, LAYER_NS, seen);
    assert_true(near(seen[0], 0) && near(seen[1], 0));
}

static bool read_ending(void *self, int64_t now, const struct mo_cores *ending, double *pressure) {
    (void)now;
    *(struct mo_cores *)self = *ending;
    *pressure = 0;
    return true;
}

/* A source is told the cores of the blocks with a tenth of their time left, so that it can leave them out. */
static void sources_know_what_ends_soon(void **state) {
    (void)state;
    struct mo_cores ending;
    struct mo_pressure_source source = {"ending", read_ending, &ending};
    struct fixture f;
    set_up(&f, "veltair-ac", &source, false);
    submit(&f, 1);
    const struct mo_view_run *run = &mo_sched_view(f.s)->runs[f.manual.last.lead];
    int64_t whole = run->predicted_end - run->start;
    submit(&f, run->predicted_end - whole / 10 - 1);
    assert_int_equal(mo_cores_count(&ending), 0);
    submit(&f, run->predicted_end - whole / 10);
    assert_int_equal(mo_cores_count(&ending), run->n_cores);
    assert_true(mo_cores_subset(&run->cores, &ending));
    tear_down(&f);
}

/* Blocks scatter around what a curve with a step calls the border between none and nearly all: the pressure
 * stays where it is; a lasting change moves it. */
static void scatter_does_not_move_the_pressure(void **state) {
    (void)state;
    static const double step[MO_PRESSURE_LEVELS] = {1, 1, 1, 1, 1, 1.03};
    static const double scatter[] = {0.8, 1.2, 0.9, 1.15, 0.95};
    struct fixture f;
    set_up(&f, "veltair-ac", NULL, false);
    struct mo_sched_tenant_config tc = {
        .qos_ns = 1000 * LAYER_NS, .queue = 8, .instances = 4, .profile = f.profile};
    memcpy(tc.slowdown, step, sizeof step);
    assert_int_equal(mo_sched_tenant_open(f.s, &tc, 0, &f.tenant, NULL), MOIRE_OK);
    int64_t now = 1;
    int moves = 0, block = 0;
    double last = 0;
    for (int i = 0; i < 120; i++) {
        submit(&f, now);
        submit(&f, now); /* sees the first one's block */
        double seen = mo_sched_view(f.s)->pressure[MO_PRESSURE_CACHE];
        if (i >= 12 && i < 100) moves += !near(seen, last);
        last = seen;
        while (mo_sched_view(f.s)->n_in_system) {
            int lead = mo_sched_view(f.s)->runs[0].query >= 0 ? 0 : 1;
            int64_t end = now + (int64_t)((i < 100 ? scatter[block++ % 5] : 1.5) * LAYER_NS);
            finish(&f, lead, now, end, end);
            now = end;
        }
    }
    assert_int_equal(moves, 0);
    assert_true(near(last, 1));
    tear_down(&f);
}

/* --- versions of a layer --- */
static void fake_kernel(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    assert_ptr_equal(args->weights, args->bias); /* the version's own */
    for (int64_t i = begin; i < end; i++)
        ((float *)args->out[0])[i] = 7;
}

/* One Relu of 64 elements. */
static struct mo_plan *relu_plan(const struct mo_env *env) {
    struct mo_graph *g = mo_graph_create(env);
    struct mo_shape shape = {.rank = 2, .d = {1, 64}};
    struct mo_tensor *x = mo_graph_add_tensor(g, "x", MOIRE_F32, &shape),
                     *y = mo_graph_add_tensor(g, "y", MOIRE_F32, &shape);
    struct mo_node *node = mo_graph_add_node(g, "n", "Relu", "", 1, 1);
    struct mo_plan *plan;
    moire_error err;
    node->op = mo_op_find("Relu", "");
    node->opset = 13;
    node->in[0] = x->id;
    node->out[0] = y->id;
    x->is_input = y->is_output = true;
    g->inputs = mo_region_array(g->region, 1, sizeof(int));
    g->outputs = mo_region_array(g->region, 1, sizeof(int));
    g->inputs[g->n_inputs++] = x->id;
    g->outputs[g->n_outputs++] = y->id;
    mo_graph_index(g);
    assert_int_equal(mo_plan_build(g, &(struct mo_plan_options){.isa = MO_ISA_BASE}, &plan, &err), MOIRE_OK);
    assert_non_null(plan->steps[0].run);
    return plan;
}

static float run_once(struct mo_instance *instance, double pressure, char *scratch) {
    float x[64];
    moire_tensor in = {.dtype = MOIRE_F32, .rank = 2, .shape = {1, 64}, .data = x, .bytes = sizeof x}, out;
    for (int i = 0; i < 64; i++)
        x[i] = 3;
    assert_int_equal(mo_instance_set_input(instance, 0, &in, NULL), MOIRE_OK);
    mo_instance_select_versions(instance, 0, 1, pressure, 1);
    assert_int_equal(mo_instance_run(instance, 0, 1, scratch), MOIRE_OK);
    assert_int_equal(mo_instance_output(instance, 0, &out), MOIRE_OK);
    assert_true(((const float *)out.data)[0] == ((const float *)out.data)[63]);
    return ((const float *)out.data)[63];
}

static void the_version_of_the_pressure_runs(void **state) {
    (void)state;
    static _Alignas(64) char scratch[1 << 16];
    struct mo_env env = mo_env_default();
    struct mo_plan *plan = relu_plan(&env);
    struct mo_step *step = &plan->steps[0];
    struct mo_instance *instance;
    struct mo_version v[2] = {{.run = step->run,
                               .packing = step->packing,
                               .weights = step->weights,
                               .bias = step->bias,
                               .units = step->units,
                               .ns = {100, 120, 140, 160, 180, 200}},
                              {.run = fake_kernel,
                               .weights = scratch,
                               .bias = (const float *)(const void *)scratch,
                               .units = 64,
                               .ns = {130, 130, 130, 130, 130, 130}}};
    double slowdown[MO_STORE_LEVELS];
    assert_false(mo_plan_slowdown(plan, slowdown));
    assert_int_equal(mo_instance_create(plan, &instance, NULL), MOIRE_OK);
    assert_true(run_once(instance, 1, scratch) == 3); /* one version only */
    step->version = v;
    step->n_versions = 2;
    assert_true(run_once(instance, 0, scratch) == 3);
    assert_true(run_once(instance, 1, scratch) == 7);
    assert_true(run_once(instance, 0.2, scratch) == 3);
    assert_true(mo_plan_slowdown(plan, slowdown));
    assert_true(near(slowdown[0], 1) && near(slowdown[1], 1.2) && near(slowdown[5], 1.3));
    v[1].ns[5] = 198; /* not worth the change */
    assert_int_equal(mo_version_choose(step, 1, 1), 0);
    mo_instance_destroy(instance);
    mo_plan_destroy(plan);
}

/* By whole units, and what a split was measured to cost; the second has a unit for every core. */
static void the_version_of_the_cores_runs(void **state) {
    (void)state;
    const struct mo_version v[2] = {{.units = 8, .ns = {800, 800, 800, 800, 800, 1600}},
                                    {.units = 64,
                                     .cores = 64,
                                     .part_ns = 30, /* twice a sixty-fourth */
                                     .ns = {960, 960, 960, 960, 960, 960}}};
    const struct mo_step step = {.n_versions = 2, .version = v, .units = 8};
    assert_true(near(mo_version_time(&v[0], 0, 1), 800) && near(mo_version_time(&v[0], 1, 4), 400));
    assert_true(near(mo_version_time(&v[0], 0, 3), 300) && near(mo_version_time(&v[0], 0, 100), 100));
    assert_true(near(mo_version_time(&v[1], 0, 1), 960) && near(mo_version_time(&v[1], 0, 64), 30));
    assert_true(mo_version_time(&v[1], 0, 32) > 30 && mo_version_time(&v[1], 0, 32) < 60);
    assert_int_equal(mo_version_choose(&step, 0, 1), 0);
    assert_int_equal(mo_version_choose(&step, 0, 8), 0);
    assert_int_equal(mo_version_choose(&step, 0, 32), 1);
    assert_int_equal(mo_version_choose(&step, 1, 1), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_version_of_the_cores_runs),
        cmocka_unit_test(slowdown_lies_on_the_curve),
        cmocka_unit_test(decisions_carry_the_pressure),
        cmocka_unit_test(a_vanished_source_loses_nothing),
        cmocka_unit_test(slowdown_makes_pressure),
        cmocka_unit_test(a_neighbour_outside_is_seen_alone),
        cmocka_unit_test(sources_know_what_ends_soon),
        cmocka_unit_test(scatter_does_not_move_the_pressure),
        cmocka_unit_test(the_version_of_the_pressure_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
