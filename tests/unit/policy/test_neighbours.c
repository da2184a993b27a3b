/* SPDX-License-Identifier: Apache-2.0
 * test_neighbours.c - `moire` picks versions by the neighbours that a block will have: where these differ
 * from those that were measured so does the version, and where memory is not known the measured pressure
 * stands.  Live, what memory gives is measured. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "runtime/policy/moire_parts.h"
#include "runtime/engine/calibrate.h"
#include "runtime/profile/profile_versions.h"
#include "runtime/serve/runtime.h"
#include "tests/unit/policy/policy_bed.h"

/* Four cores; memory gives 4 bytes a ns, and no cache holds anything. */
enum { CORES = 4, QUERIES = 2, MS = 1000000 };
static const struct mo_memory MEMORY = {4, 0};

/* A model of two layers of a millisecond, on any cores; layers read so many bytes once.  versions: from level
 * 3 on, pressure 0.5, they run in a second version, which is slower alone. */
static struct mo_profile *profile(const struct mo_env *env, int64_t bytes, bool versions) {
    struct mo_profile *p = mo_profile_create(env, 2, CORES);
    assert_non_null(p);
    for (int c = 1; c <= CORES; c++)
        mo_profile_record(p, c, (int64_t[]){MS, MS});
    mo_profile_traffic(p, (int64_t[]){bytes, bytes});
    mo_profile_finish(p);
    if (!versions) return p;
    p->level = mo_alloc(env, (size_t)MO_PROFILE_LEVELS * (CORES + 1) * 3 * sizeof *p->level);
    assert_non_null(p->level);
    for (int level = 0; level < MO_PROFILE_LEVELS; level++)
        for (int c = 1; c <= CORES; c++)
            for (int l = 0; l < 2; l++)
                mo_profile_level(p, level, c)[l + 1].solo = (l + 1) * (MS + (level > 2 ? MS / 10 : 0));
    assert_int_equal(mo_profile_choices(p, (bool[]){true, true}), 0);
    return p;
}

/* Tenant 0 has versions, tenant 1 reads much. */
struct bed {
    struct mo_env env;
    struct mo_profile *profile[2];
    struct mo_view view;
    struct mo_view_tenant tenant[2];
    struct mo_view_query query[QUERIES];
    struct mo_view_run run[CORES];
    short running[CORES];
    int waiting[2];
};

static void set_up(struct bed *b, int64_t bytes) {
    *b = (struct bed){.env = mo_env_default(), .waiting = {0, 1}};
    for (int i = 0; i < 2; i++) {
        b->profile[i] = profile(&b->env, i ? bytes : 0, i == 0);
        b->tenant[i] = policy_bed_waits(b->profile[i], 10 * MS, &b->waiting[i]);
        b->query[i] = (struct mo_view_query){
            .tenant = i, .arrival = 100 * MS, .deadline = 110 * MS, .order = i, .last_core = -1, .run = -1};
    }
    for (int i = 0; i < CORES; i++)
        b->run[i].query = -1;
    b->view = (struct mo_view){.now = 100 * MS,
                               .block_ns = MS,
                               .n_cores = CORES,
                               .n_idle = CORES,
                               .idle = mo_cores_first(CORES),
                               .n_tenants = 2,
                               .min_qos_ns = 10 * MS,
                               .tenants = b->tenant,
                               .queries = b->query,
                               .runs = b->run,
                               .running = b->running,
                               .memory = MEMORY};
}

static void tear_down(struct bed *b) {
    mo_profile_destroy(b->profile[0]);
    mo_profile_destroy(b->profile[1]);
}

/* The other tenant's query has run a layer's block on a core since before, for `rest` ns from now on. */
static void other_runs(struct bed *b, int begin, int64_t rest) {
    b->tenant[1].n_waiting = 0;
    b->tenant[1].n_running = 1;
    b->query[1].run = CORES - 1;
    b->query[1].started = 99 * MS;
    b->run[CORES - 1] = (struct mo_view_run){.query = 1,
                                             .batch = 1,
                                             .begin = begin,
                                             .end = begin + 1,
                                             .n_cores = 1,
                                             .start = b->view.now + rest - MS,
                                             .since = b->view.now + rest - MS,
                                             .at = begin,
                                             .predicted_end = b->view.now + rest};
    mo_cores_add(&b->run[CORES - 1].cores, CORES - 1);
    mo_cores_remove(&b->view.idle, CORES - 1);
    b->view.n_idle--;
    b->view.n_running = 1;
    b->running[0] = CORES - 1;
    b->view.resident = (double)mo_profile_bytes(b->profile[1], 0, 2);
}

/* One dispatch under a policy; the first tenant's block. */
static struct mo_decision block(struct bed *b, const char *policy, double measured) {
    static struct mo_moire_state s;
    struct mo_decision list[2 * CORES];
    struct mo_decisions out = {.cap = 2 * CORES, .list = list};
    const struct mo_event event = {MO_EVENT_TIMER, -1, -1};
    const struct mo_policy *p = mo_policy_find(policy);
    memset(&s, 0, sizeof s);
    b->view.options = p->options;
    b->view.pressure[MO_PRESSURE_CACHE] = measured;
    p->dispatch(&s, &b->view, &event, &out);
    for (int i = 0; i < out.n; i++)
        if (list[i].kind == MO_RUN && list[i].query == 0) return list[i];
    fail_msg("the query was not served");
    return (struct mo_decision){0};
}

/* The pressure that it was given. */
static double pressure(struct bed *b, const char *policy, double measured) {
    return block(b, policy, measured).pressure;
}

static int64_t solo(const struct bed *b, double pressure) {
    return mo_profile_at(b->profile[0], pressure, 1, 0, 1).solo;
}

/* Nothing ran, so nothing is measured; what begins beside it will ask for three quarters of memory. */
static void what_begins_beside_it_presses(void **state) {
    (void)state;
    struct bed b;
    set_up(&b, 3 * MS);
    double foreseen = pressure(&b, "moire", 0), measured = pressure(&b, "moire-no-neighbours", 0);
    assert_true(fabs(foreseen - 0.75) < 1e-6);
    assert_true(measured == 0);
    assert_true(solo(&b, foreseen) == MS + MS / 10 && solo(&b, measured) == MS);
    tear_down(&b);
}

/* A block that interferes much is in its last twentieth, and its query ends with it: the measured pressure
 * leaves it out, and what it still asks for is foreseen. */
static void what_is_about_to_end_does_not(void **state) {
    (void)state;
    struct bed b;
    set_up(&b, 4 * MS);
    other_runs(&b, 1, MS / 20);
    double foreseen = pressure(&b, "moire", 0), measured = pressure(&b, "moire-no-neighbours", 0);
    assert_true(fabs(foreseen - 0.05) < 1e-6);
    assert_true(measured == 0);
    assert_true(solo(&b, foreseen) == MS && solo(&b, measured) == MS);
    tear_down(&b);
}

/* The same block, but its query goes on with a layer like it. */
static void what_follows_it_does(void **state) {
    (void)state;
    struct bed b;
    set_up(&b, 4 * MS);
    other_runs(&b, 0, MS / 20);
    assert_true(fabs(pressure(&b, "moire", 1) - 1) < 1e-6);
    tear_down(&b);
}

/* What the blocks that run do not explain is somebody else's, and stays. */
static void what_comes_from_outside_is_added(void **state) {
    (void)state;
    struct bed b;
    set_up(&b, MS);
    other_runs(&b, 1, MS / 2); /* asks for a quarter, in half of the time */
    assert_true(fabs(pressure(&b, "moire", 0.25 + 0.5) - (0.125 + 0.5)) < 1e-6);
    tear_down(&b);
}

/* The same block reads nothing once, and 2 bytes a ns again when all other cores are busy.  It has run alone,
 * so all that was measured is from outside; beside one of three it will read a third, for half of the time.
 */
static void what_is_read_again_goes_by_the_other_cores(void **state) {
    (void)state;
    struct bed b;
    set_up(&b, 0);
    struct mo_profile *p = b.profile[1];
    p->level = mo_alloc(&b.env, (size_t)MO_PROFILE_LEVELS * (CORES + 1) * 3 * sizeof *p->level);
    assert_non_null(p->level);
    for (int level = 0; level < MO_PROFILE_LEVELS; level++)
        for (int c = 1; c <= CORES; c++)
            for (int l = 1; l <= 2; l++)
                mo_profile_level(p, level, c)[l] =
                    (struct mo_profile_does){.solo = l * MS, .under = l * MS, .shared = 2 * l * MS};
    other_runs(&b, 1, MS / 2);
    assert_true(fabs(pressure(&b, "moire", 0.5) - (0.5 + 2.0 / 3 / 4 / 2)) < 1e-6);
    tear_down(&b);
}

/* A layer takes 1 ms on any cores alone, 40 ms core time when memory is full: in the mean, on one core, 8.8
 * ms, and both layers are late at 10.  That counts only where the shared cache holds less than half of the
 * models. */
static void plans_count_with_full_memory_where_caches_hold_little(void **state) {
    (void)state;
    struct bed b;
    set_up(&b, MS);
    for (int c = 1; c <= CORES; c++)
        for (int l = 0; l < 2; l++)
            mo_profile_level(b.profile[0], MO_PROFILE_LEVELS - 1, c)[l + 1].under = (l + 1) * 40 * MS / c;
    assert_true(mo_ladder_crowd(b.profile[0]));
    b.view.memory.cache_bytes = MS; /* half of what both read */
    assert_int_equal(block(&b, "moire", 0).wanted, 1);
    b.view.memory.cache_bytes -= 1;
    assert_true(block(&b, "moire", 0).wanted > 1);
    tear_down(&b);
}

static void measured_pressure_stands_where_memory_is_unknown(void **state) {
    (void)state;
    struct bed b;
    set_up(&b, 3 * MS);
    b.view.memory = (struct mo_memory){0};
    assert_true(pressure(&b, "moire", 0.3) == 0.3);
    tear_down(&b);
}

/* Live, the ceiling is a walk by all cores; without bytes to walk over it is not known. */
static void the_ceiling_is_measured(void **state) {
    (void)state;
    const moire_config config = {.size = sizeof config, .threads = 2, .no_pin = 1};
    moire_runtime *rt;
    assert_int_equal(moire_runtime_create(&config, &rt, NULL), MOIRE_OK);
    assert_true(mo_calibrate_memory(rt->cores, &rt->env, 16 << 20) > 0);
    assert_true(mo_calibrate_memory(rt->cores, &rt->env, 0) == 0);
    moire_runtime_destroy(rt, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_begins_beside_it_presses),
        cmocka_unit_test(what_is_about_to_end_does_not),
        cmocka_unit_test(what_follows_it_does),
        cmocka_unit_test(what_comes_from_outside_is_added),
        cmocka_unit_test(what_is_read_again_goes_by_the_other_cores),
        cmocka_unit_test(plans_count_with_full_memory_where_caches_hold_little),
        cmocka_unit_test(measured_pressure_stands_where_memory_is_unknown),
        cmocka_unit_test(the_ceiling_is_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
