/* SPDX-License-Identifier: Apache-2.0
 * test_budget.c - a search with a time budget, on a clock of its own: it ends in time whatever is in work,
 * stores what it knows and names what it left out; and what it says of the time that is left. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/search/effort.h"
#include "codegen/tune/front.h"
#include "tests/unit/base/fault_sys.h"
#include "tests/unit/generator/toy_family.h"
#include "tools/moire/compile/compile_left.h"
#include "variants/store.h"

enum { LAYERS = 4 };
static const int64_t SECOND = INT64_C(1000000000);

/* A machine on which time passes only where a test says so. */
struct slow {
    struct fault_sys fault; /* first: it is the self of the table */
    struct mo_env env;
    char folder[64];
    _Atomic int64_t clock;
    _Atomic int spawns;
    int64_t compile_ns, trial_ns; /* that a compiler, and the trial of a turn, take */
    double left[64];              /* as progress told, */
    int64_t at[64];               /* when it did */
    int told;
};

static int64_t slow_now(void *self) {
    return atomic_fetch_add(&((struct slow *)self)->clock, 20000);
}

/* Time passes; false: the limit was reached before. */
static bool pass(struct slow *s, int64_t ns, int64_t limit) {
    bool in_time = !limit || ns < limit;
    atomic_fetch_add(&s->clock, in_time ? ns : limit);
    return in_time;
}

static int slow_spawn(void *self, const char *const *argv, const char *log, int64_t limit) {
    struct slow *s = self;
    if (argv[1] && !strcmp(argv[1], "--version"))
        return s->fault.real->spawn(s->fault.real->self, argv, log, 0);
    atomic_fetch_add(&s->spawns, 1);
    if (!pass(s, s->compile_ns, limit)) return -ETIMEDOUT;
    return s->fault.real->spawn(s->fault.real->self, argv, log, 0);
}

static int slow_fork(void *self, void (*fn)(void *ctx, void *shared), void *ctx, void *shared,
                     int64_t limit) {
    struct slow *s = self;
    if (!pass(s, s->trial_ns, limit)) return -ETIMEDOUT;
    return s->fault.real->fork(s->fault.real->self, fn, ctx, shared, 0);
}

static void note_left(void *ctx, const struct mo_search_progress *progress) {
    struct slow *s = ctx;
    if (s->told == 64) return;
    s->at[s->told] = s->clock;
    s->left[s->told++] = progress->left_s;
}

static int set_up(void **state) {
    struct slow *s = calloc(1, sizeof *s);
    fault_sys_init(&s->fault);
    s->fault.table.now = s->fault.table.thread_time = slow_now;
    s->fault.table.spawn = slow_spawn;
    s->fault.table.fork = slow_fork;
    s->env = mo_env_default();
    s->env.sys = &s->fault.table;
    s->clock = SECOND;
    toy_folder(s->folder);
    *state = s;
    return 0;
}

static int tear_down(void **state) {
    struct slow *s = *state;
    assert_int_equal(fault_sys_live(&s->fault), 0);
    toy_remove(s->folder);
    free(s);
    return 0;
}

/* Searches the toy model; how long that took on its clock. */
static double search(struct slow *s, double budget_s, struct mo_search **out) {
    struct mo_search_options options = {.store = s->folder,
                                        .isa = MO_ISA_BASE,
                                        .jobs = 1,
                                        .budget_s = budget_s,
                                        .families = toy_families,
                                        .problem = toy_problem,
                                        .progress = note_left,
                                        .ctx = s};
    moire_error err = {0};
    int64_t began = s->clock;
    struct mo_graph *g = toy_graph(&s->env, LAYERS, "layer");
    assert_int_equal(mo_search_create(&s->env, &options, out, &err), MOIRE_OK);
    assert_int_equal(mo_search_add(*out, g, &err), MOIRE_OK);
    mo_graph_destroy(g);
    assert_int_equal(mo_search_run(*out, &err), MOIRE_OK);
    return (double)(s->clock - began) * 1e-9;
}

static int in_state(const struct mo_search *search, enum mo_layer_state state) {
    int n = 0;
    for (int i = 0; i < mo_search_count(search); i++)
        n += mo_search_result(search, i)->state == state;
    return n;
}

/* A compiler that would take a minute is stopped when the budget ends, and no candidate is blamed for it. */
static void a_slow_compiler_is_stopped(void **state) {
    struct slow *s = *state;
    struct mo_search *found;
    s->compile_ns = 60 * SECOND;
    double took = search(s, 8, &found);
    assert_true(took >= 8 && took < 8.5);
    assert_true(mo_search_ended(found));
    assert_int_equal(in_state(found, MO_LAYER_PENDING), LAYERS);
    for (int i = 0; i < LAYERS; i++)
        assert_int_equal(mo_search_result(found, i)->rejected, 0);
    assert_int_equal(s->spawns, 1);
    mo_search_destroy(found);
}

static void a_slow_trial_is_stopped(void **state) {
    struct slow *s = *state;
    struct mo_search *found;
    s->trial_ns = 30 * SECOND;
    double took = search(s, 8, &found);
    assert_true(took >= 8 && took < 8.5);
    assert_int_equal(in_state(found, MO_LAYER_PENDING), LAYERS);
    assert_int_equal(mo_search_result(found, 0)->rejected, 0);
    mo_search_destroy(found);
}

/* What was measured in time is stored; the next run goes on where this one ended. */
static void what_is_known_is_kept(void **state) {
    struct slow *s = *state;
    struct mo_search *found;
    s->compile_ns = SECOND;
    double took = search(s, 5, &found);
    int done = LAYERS - in_state(found, MO_LAYER_PENDING);
    assert_true(took < 5.5);
    assert_true(done > 0 && done < LAYERS);
    assert_true(mo_search_ended(found));
    mo_search_destroy(found);
    search(s, 0, &found);
    assert_int_equal(in_state(found, MO_LAYER_PENDING), 0);
    assert_int_equal(in_state(found, MO_LAYER_REUSED), done);
    assert_false(mo_search_ended(found));
    mo_search_destroy(found);
}

/* Half the budget at most is kept for what comes after the search. */
static void time_is_kept_for_the_rest(void **state) {
    struct slow *s = *state;
    struct mo_search_options options = {.store = s->folder,
                                        .isa = MO_ISA_BASE,
                                        .jobs = 1,
                                        .budget_s = 10,
                                        .families = toy_families,
                                        .problem = toy_problem};
    moire_error err = {0};
    s->compile_ns = 60 * SECOND;
    for (int i = 0; i < 2; i++) {
        struct mo_search *found;
        int64_t began = s->clock;
        struct mo_graph *g = toy_graph(&s->env, 1, "layer");
        assert_int_equal(mo_search_create(&s->env, &options, &found, &err), MOIRE_OK);
        assert_int_equal(mo_search_add(found, g, &err), MOIRE_OK);
        mo_search_reserve(found, i ? 60 : 3, 0);
        assert_int_equal(mo_search_run(found, &err), MOIRE_OK);
        double took = (double)(s->clock - began) * 1e-9, want = i ? 5 : 7;
        assert_true(took >= want && took < want + 0.5);
        mo_graph_destroy(g);
        mo_search_destroy(found);
    }
}

/* With compilers that all take the same time, what is said to be left is what it takes then. */
static void the_rest_is_foretold(void **state) {
    struct slow *s = *state;
    struct mo_search *found;
    s->compile_ns = 2 * SECOND;
    search(s, 0, &found);
    assert_int_equal(s->told, LAYERS);
    for (int i = 0; i < s->told; i++) {
        double left = (double)(s->clock - s->at[i]) * 1e-9;
        assert_true(s->left[i] < 1.5 * left + 0.5 && s->left[i] > left / 1.5 - 0.5);
    }
    mo_search_destroy(found);
}

static void effort_goes_by_work_not_by_number(void **state) {
    (void)state;
    struct mo_effort e = {0};
    assert_true(mo_effort_left(&e, 3, 1) < 0); /* who knows */
    assert_true(mo_effort_left(&e, 0, 0) == 0);
    double large = mo_effort_work(100e6), small = mo_effort_work(1e3);
    assert_true(large > 20 * small);
    assert_true(mo_effort_work(1e6) < 2 * small); /* a slice of timing is what short ones take */
    mo_effort_compiled(&e, 4, 8);
    mo_effort_timed(&e, 10, 8 * large);
    assert_float_equal(mo_effort_left(&e, 8, 8 * large), 14, 1e-9);
    assert_true(mo_effort_left(&e, 8, 8 * small) < 5);
    assert_float_equal(mo_effort_each(&e), 14.0 / 8, 1e-9);
}

static void what_is_left_out_is_named(void **state) {
    struct slow *s = *state;
    struct mo_search *found;
    char *text = NULL;
    size_t n = 0;
    s->compile_ns = 60 * SECOND;
    search(s, 2, &found);
    FILE *to = open_memstream(&text, &n);
    mo_left_print(to, found, false);
    fclose(to);
    assert_non_null(
        strstr(text, "left out: 4 of 4 layers (100 % of the work), the budget ended before them: layer"));
    assert_non_null(strstr(text, "run the command again"));
    free(text);
    json_t *left = mo_left_json(found);
    assert_int_equal(json_array_size(left), 1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(left, 0), "reason")), "budget");
    assert_int_equal(json_array_size(json_object_get(json_array_get(left, 0), "layers")), 4);
    json_decref(left);
    double work;
    assert_int_equal(mo_left_tuned(found, &work), 0);
    assert_true(work == 0);
    mo_search_destroy(found);
}

static bool takes_all(const struct mo_problem *p) {
    (void)p;
    return true;
}

static int lists_nothing(const struct mo_problem *p, struct mo_point *out, int cap) {
    (void)p, (void)out, (void)cap;
    return 0;
}

/* A shape that no family has a kernel for is not a matter of the budget: there is nothing to go on with. */
static void a_layer_without_candidates_is_done(void **state) {
    static const struct mo_emit_family idle = {.name = "idle", .takes = takes_all, .points = lists_nothing};
    static const struct mo_emit_family *const families[] = {&idle, NULL};
    struct slow *s = *state;
    struct mo_search_options options = {
        .store = s->folder, .isa = MO_ISA_BASE, .jobs = 1, .families = families, .problem = toy_problem};
    struct mo_search *found;
    moire_error err = {0};
    char *text = NULL;
    size_t n = 0;
    double work;
    struct mo_graph *g = toy_graph(&s->env, LAYERS, "layer");
    assert_int_equal(mo_search_create(&s->env, &options, &found, &err), MOIRE_OK);
    assert_int_equal(mo_search_add(found, g, &err), MOIRE_OK);
    mo_graph_destroy(g);
    assert_int_equal(mo_search_run(found, &err), MOIRE_OK);
    assert_int_equal(in_state(found, MO_LAYER_GENERIC), LAYERS);
    FILE *to = open_memstream(&text, &n);
    mo_left_print(to, found, false);
    fclose(to);
    assert_non_null(strstr(text, "no family of kernels has one of their shape: layer"));
    assert_null(strstr(text, "again"));
    free(text);
    assert_int_equal(mo_left_tuned(found, &work), LAYERS);
    mo_search_destroy(found);
}

static void reasons_follow_from_states(void **state) {
    (void)state;
    struct mo_layer_result r = {.state = MO_LAYER_FAILED};
    assert_int_equal(mo_left_reason(&r), MO_LEFT_FAILED);
    r.state = MO_LAYER_GENERIC;
    assert_int_equal(mo_left_reason(&r), MO_LEFT_NONE);
    r.tried = 2;
    assert_int_equal(mo_left_reason(&r), MO_LEFT_BUILT_IN);
    r.state = MO_LAYER_COMPILED;
    assert_int_equal(mo_left_reason(&r), MO_LEFT_REASONS);
    strcpy(r.refused, "odd");
    assert_int_equal(mo_left_reason(&r), MO_LEFT_VERSIONS);
}

/* --- fronts that no pressure explains --- */

static void pressure_makes_nothing_faster(void **state) {
    (void)state;
    struct mo_store_front f = {.n = 2};
    struct mo_front_odd odd;
    const double rising[MO_STORE_LEVELS] = {100e3, 110e3, 120e3, 120e3, 119e3, 140e3};
    for (int i = 0; i < 2; i++)
        memcpy(f.point[i].ns, rising, sizeof rising);
    assert_false(mo_front_is_odd(&f, &odd)); /* one per cent is noise */
    f.point[1].ns[3] = 80e3;
    assert_true(mo_front_is_odd(&f, &odd));
    assert_int_equal(odd.point, 1);
    assert_int_equal(odd.less, 2);
    assert_int_equal(odd.more, 3);
    assert_true(odd.less_ns == 120e3 && odd.more_ns == 80e3);
    f.point[1].state = MO_POINT_SPARE; /* nobody runs that */
    assert_false(mo_front_is_odd(&f, &odd));
    for (int i = 0; i < MO_STORE_LEVELS; i++)
        f.point[0].ns[i] = i ? 500 : 1000; /* too short to tell */
    assert_false(mo_front_is_odd(&f, &odd));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_slow_compiler_is_stopped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_slow_trial_is_stopped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_known_is_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(time_is_kept_for_the_rest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_rest_is_foretold, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_left_out_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_layer_without_candidates_is_done, set_up, tear_down),
        cmocka_unit_test(effort_goes_by_work_not_by_number),
        cmocka_unit_test(reasons_follow_from_states),
        cmocka_unit_test(pressure_makes_nothing_faster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
