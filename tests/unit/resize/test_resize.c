/* SPDX-License-Identifier: Apache-2.0
 * test_resize.c - running blocks that gain and lose cores: what the core accepts, what it tells the engine,
 * what it predicts, and where every core is meanwhile.  The engine is a note of what it was last told; the
 * numbers are worked by hand from the profile below. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include "runtime/sched/sched.h"

enum { CORES = 6, LAYERS = 3 };
static const int64_t ns1[LAYERS] = {1000, 4000, 1000}, ns2[LAYERS] = {500, 2000, 500},
                     ns4[LAYERS] = {250, 1000, 250};

/* What the next dispatch shall decide. */
struct script {
    struct mo_decision list[4];
    int n;
};

struct bed {
    struct mo_env env;
    struct mo_sched *sched;
    struct mo_profile *profile;
    const struct mo_view *view;
    struct script script;
    struct mo_run run;
    struct mo_resize resize;
    int starts, resizes, dispatches, resolved[8], n_resolved;
};

static struct bed *bed_of_policy; /* a policy's options are the process's, and so is this */

static void scripted(void *state, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out) {
    (void)state, (void)event;
    struct script *script = &bed_of_policy->script;
    bed_of_policy->dispatches++;
    for (int i = 0; i < script->n; i++)
        out->list[out->n++] = script->list[i];
    script->n = 0;
    mo_decide_timer(out, view->now + 1000000000); /* or the core would start a block itself */
}
static const struct mo_policy by_script = {
    .name = "script", .description = "", .state_bytes = 8, .dispatch = scripted};

static void start(void *self, const struct mo_run *run) {
    struct bed *b = self;
    b->run = *run;
    b->starts++;
}
static void resize(void *self, const struct mo_resize *resize) {
    struct bed *b = self;
    b->resize = *resize;
    b->resizes++;
}
static void set_timer(void *self, int64_t when) {
    (void)self, (void)when;
}
static void resolved(void *self, int slot) {
    struct bed *b = self;
    b->resolved[b->n_resolved++] = slot;
}
static void released(void *self, int tenant, void *user) {
    (void)self, (void)tenant, (void)user;
}

static const struct mo_engine_ops resizing = {
    .start = start, .resize = resize, .set_timer = set_timer, .resolved = resolved, .released = released};
static const struct mo_engine_ops rigid = {
    .start = start, .set_timer = set_timer, .resolved = resolved, .released = released};

static struct mo_cores range(int from, int n) {
    struct mo_cores set = {0};
    for (int i = 0; i < n; i++)
        mo_cores_add(&set, from + i);
    return set;
}

static void assert_cores(const struct mo_cores *got, const struct mo_cores want) {
    assert_true(mo_cores_subset(got, &want) && mo_cores_subset(&want, got));
}

static struct bed *make(const struct mo_engine_ops *ops) {
    struct bed *b = bed_of_policy = calloc(1, sizeof *b);
    b->env = mo_env_default();
    b->profile = mo_profile_create(&b->env, LAYERS, CORES);
    mo_profile_record(b->profile, 1, ns1);
    mo_profile_record(b->profile, 2, ns2);
    mo_profile_record(b->profile, 4, ns4);
    mo_profile_finish(b->profile);
    struct mo_sched_config c = {.env = &b->env,
                                .policy = &by_script,
                                .n_cores = CORES,
                                .max_queries = 8,
                                .max_tenants = 1,
                                .ops = ops,
                                .engine = b};
    assert_int_equal(mo_sched_create(&c, &b->sched, NULL), MOIRE_OK);
    struct mo_sched_tenant_config tc = {.qos_ns = 100000, .queue = 8, .instances = 4, .profile = b->profile};
    int tenant;
    assert_int_equal(mo_sched_tenant_open(b->sched, &tc, 1, &tenant, NULL), MOIRE_OK);
    b->view = mo_sched_view(b->sched);
    return b;
}

static void destroy(struct bed *b) {
    mo_sched_destroy(b->sched);
    mo_profile_destroy(b->profile);
    free(b);
}

static int submit(struct bed *b, int64_t now) {
    int slot;
    assert_int_equal(mo_sched_arrival(b->sched, 0, now, NULL, now, &slot, NULL), MOIRE_OK);
    return slot;
}

static void dispatch(struct bed *b, int64_t now) {
    mo_sched_cores_back(b->sched, -1, &(struct mo_cores){0}, now);
}

static int64_t decide(struct bed *b, struct mo_decision d, int64_t now) {
    int64_t before = mo_sched_stats(b->sched)->refused;
    b->script = (struct script){{d}, 1};
    dispatch(b, now);
    assert_int_equal(b->script.n, 0);
    return mo_sched_stats(b->sched)->refused - before;
}

static struct mo_decision resize_to(int query, struct mo_cores cores, int wanted) {
    return (struct mo_decision){.kind = MO_RESIZE, .query = query, .cores = cores, .wanted = wanted};
}

/* A query whose block of the whole model began at `now` on n cores from `first` on. */
static int running(struct bed *b, int first, int n, int64_t now) {
    int query = submit(b, now - 1);
    struct mo_decision d = {
        .kind = MO_RUN, .query = query, .end = LAYERS, .cores = range(first, n), .when = MO_NEVER};
    assert_int_equal(decide(b, d, now), 0);
    assert_int_equal(b->run.lead, first);
    return query;
}

static void a_block_grows(void **state) {
    (void)state;
    struct bed *b = make(&resizing);
    assert_true(b->view->resizes);
    int query = running(b, 1, 1, 1000);
    const struct mo_view_run *run = &b->view->runs[1];
    assert_int_equal(run->predicted_end, 7000);
    dispatch(b, 4000);
    assert_int_equal(mo_view_layer(b->view, run), 1); /* half of it: 2000 of 4000 ns on one core */
    assert_int_equal(mo_view_rest(b->view, run, 1), 3000);
    assert_int_equal(mo_view_rest(b->view, run, 4), 750);
    assert_int_equal(decide(b, resize_to(query, range(0, 4), 5), 4000), 0);
    assert_int_equal(b->resizes, 1);
    assert_int_equal(b->resize.lead, 1); /* a lower core joins, the lead stays */
    assert_int_equal(b->resize.n_cores, 4);
    struct mo_cores joined = range(0, 4);
    mo_cores_remove(&joined, 1);
    assert_cores(&b->resize.join, joined);
    assert_cores(&b->resize.leave, range(0, 0));
    assert_int_equal(run->n_cores, 4);
    assert_int_equal(run->wanted, 5);
    assert_int_equal(run->resized, 1);
    assert_int_equal(run->predicted_end, 4750);
    assert_cores(&b->view->idle, range(4, 2));
    assert_int_equal(b->view->n_idle, 2);
    assert_int_equal(b->view->queries[query].last_cores, 4);
    dispatch(b, 4600); /* 500 of what was left of layer 1, and 100 of 250 of layer 2 */
    assert_int_equal(mo_view_layer(b->view, run), 2);
    assert_int_equal(mo_view_rest(b->view, run, 2), 300);
    mo_sched_block_done(b->sched, 1, true, MOIRE_OK, 1000, 9000, NULL, 9000);
    assert_cores(&b->view->idle, range(0, CORES));
    assert_int_equal(b->view->n_idle, CORES);
    assert_true(b->view->tenants[0].residual == 1); /* its prediction was no profile's */
    assert_int_equal(mo_sched_stats(b->sched)->ok, 1);
    destroy(b);
}

static void a_block_shrinks(void **state) {
    (void)state;
    struct bed *b = make(&resizing);
    int query = running(b, 0, 4, 1000);
    const struct mo_view_run *run = &b->view->runs[0];
    assert_int_equal(run->predicted_end, 2500);
    assert_int_equal(decide(b, resize_to(query, range(0, 2), 0), 1500), 0); /* a quarter of layer 1 is done */
    assert_cores(&b->resize.leave, range(2, 2));
    assert_int_equal(b->resize.n_cores, 2);
    assert_int_equal(run->n_cores, 4); /* until they are out */
    assert_int_equal(run->n_leaving, 2);
    assert_cores(&run->leaving, range(2, 2));
    assert_int_equal(run->predicted_end, 1500 + 750 + 500);
    assert_int_equal(b->view->n_idle, 2);
    struct mo_cores out = range(3, 1);
    int before = b->dispatches;
    mo_sched_cores_back(b->sched, 0, &out, 1500);
    assert_int_equal(b->dispatches, before + 1);
    assert_int_equal(run->n_cores, 3);
    assert_int_equal(run->n_leaving, 1);
    assert_cores(&b->view->idle, range(3, 3));
    assert_int_equal(b->view->n_idle, 3);
    out = range(2, 1);
    mo_sched_cores_back(b->sched, 0, &out, 1500);
    assert_int_equal(run->n_cores, 2);
    assert_int_equal(run->n_leaving, 0);
    assert_int_equal(run->predicted_end, 1500 + 1500 + 500); /* all of it on two cores */
    dispatch(b, 3250);
    assert_int_equal(mo_view_layer(b->view, run), 2);
    dispatch(b, 4000); /* overdue: in its last layer, and nothing is left by what is known */
    assert_int_equal(mo_view_layer(b->view, run), 2);
    assert_int_equal(mo_view_rest(b->view, run, 1), 0);
    mo_sched_block_done(b->sched, 0, true, MOIRE_OK, 1000, 4000, NULL, 4000);
    assert_int_equal(b->view->n_idle, CORES);
    destroy(b);
}

static void predictions_carry_the_residual(void **state) {
    (void)state;
    struct bed *b = make(&resizing);
    for (int64_t t = 1000; t < 400000; t += 10000) { /* blocks that take twice their profile */
        running(b, 0, 1, t);
        mo_sched_block_done(b->sched, 0, true, MOIRE_OK, t, t + 12000, NULL, t + 9000);
        mo_sched_answered(b->sched, b->resolved[--b->n_resolved], t + 9000);
    }
    double residual = b->view->tenants[0].residual;
    assert_true(residual > 1);
    int query = running(b, 0, 1, 1000000);
    const struct mo_view_run *run = &b->view->runs[0];
    int64_t whole = run->predicted_end - 1000000;
    assert_in_range(whole, (int64_t)(6000 * residual) - 1, (int64_t)(6000 * residual) + 1);
    assert_int_equal(decide(b, resize_to(query, range(0, 2), 0), 1000000 + whole / 2), 0);
    int64_t rest = run->predicted_end - (1000000 + whole / 2);
    assert_in_range(rest, (int64_t)(1500 * residual) - 2, (int64_t)(1500 * residual) + 2);
    mo_sched_block_done(b->sched, 0, true, MOIRE_OK, 1000000, 1010000, NULL, 1010000);
    destroy(b);
}

/* Who is asked to leave, and who joins, may be late for the end of the block. */
static void cores_come_back_after_the_end(void **state) {
    (void)state;
    struct bed *b = make(&resizing);
    int query = running(b, 0, 3, 1000);
    assert_int_equal(decide(b, resize_to(query, range(0, 2), 0), 1100), 0);
    struct mo_cores inside = range(1, 2);
    mo_sched_block_done(b->sched, 0, true, MOIRE_OK, 1000, 2000, &inside, 2000);
    assert_int_equal(mo_sched_stats(b->sched)->ok, 1);
    assert_int_equal(b->view->n_idle, CORES - 2);
    assert_int_equal(b->view->n_running, 0);
    int second = submit(b, 2001);
    struct mo_decision d = {
        .kind = MO_RUN, .query = second, .end = LAYERS, .cores = range(1, 1), .when = MO_NEVER};
    assert_int_equal(decide(b, d, 2010), 1); /* it is in no block, and not idle */
    struct mo_cores back = range(1, 1);
    int before = b->dispatches;
    mo_sched_cores_back(b->sched, -1, &back, 2020);
    assert_int_equal(b->dispatches, before + 1);
    assert_int_equal(decide(b, d, 2030), 0);
    back = range(2, 1);
    mo_sched_cores_back(b->sched, -1, &back, 2040);
    assert_int_equal(b->view->n_idle, CORES - 1);
    mo_sched_block_done(b->sched, 1, true, MOIRE_OK, 2030, 9000, NULL, 9000);
    assert_cores(&b->view->idle, range(0, CORES));
    destroy(b);
}

static void what_breaks_a_rule_is_refused(void **state) {
    (void)state;
    struct bed *b = make(&resizing);
    int query = running(b, 0, 3, 1000), other = running(b, 4, 1, 1000), waiting = submit(b, 1000);
    const struct {
        const char *why;
        int query, from, n;
    } bad[] = {
        {"without its lead", query, 1, 2},
        {"no core", query, 0, 0},
        {"a core of another block", query, 0, 5},
        {"a query that waits", waiting, 5, 1},
        {"no query", -1, 0, 2},
        {"beyond the last query", 8, 0, 2},
        {"a free slot", 7, 0, 2},
        {"beyond the last core", query, 0, CORES + 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t refused = decide(b, resize_to(bad[i].query, range(bad[i].from, bad[i].n), 0), 1010);
        if (refused != 1) print_message("taken: %s\n", bad[i].why);
        assert_int_equal(refused, 1);
    }
    assert_int_equal(b->resizes, 0);
    assert_int_equal(decide(b, resize_to(query, range(0, 3), 6), 1020), 0); /* only a wish */
    assert_int_equal(b->view->runs[0].wanted, 6);
    assert_int_equal(b->view->runs[0].resized, 0);
    assert_int_equal(b->resizes, 0);
    assert_int_equal(decide(b, resize_to(query, range(0, 2), 0), 1030), 0);
    assert_int_equal(decide(b, resize_to(query, range(0, 3), 0), 1040), 1); /* it leaves already */
    assert_int_equal(decide(b, resize_to(query, range(0, 1), 0), 1050), 0); /* and one more */
    assert_cores(&b->resize.leave, range(1, 1));
    assert_int_equal(b->view->runs[0].n_leaving, 2);
    uint64_t handle = mo_query_handle(mo_sched_queries(b->sched), other);
    assert_int_equal(mo_sched_cancel(b->sched, handle, MOIRE_ECANCELLED, 1060), MOIRE_OK);
    assert_int_equal(decide(b, resize_to(other, range(4, 2), 0), 1070), 0); /* its block runs on */
    assert_int_equal(b->resizes, 3);
    destroy(b);
}

static void an_engine_that_cannot_keeps_its_blocks(void **state) {
    (void)state;
    struct bed *b = make(&rigid);
    assert_false(b->view->resizes);
    int query = running(b, 0, 3, 1000);
    assert_int_equal(decide(b, resize_to(query, range(0, 4), 0), 1010), 1);
    assert_int_equal(b->view->runs[0].n_cores, 3);
    assert_int_equal(b->view->n_idle, 3);
    destroy(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_grows),
        cmocka_unit_test(a_block_shrinks),
        cmocka_unit_test(predictions_carry_the_residual),
        cmocka_unit_test(cores_come_back_after_the_end),
        cmocka_unit_test(what_breaks_a_rule_is_refused),
        cmocka_unit_test(an_engine_that_cannot_keeps_its_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
