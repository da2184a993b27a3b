/* SPDX-License-Identifier: Apache-2.0
 * test_history.c - the checker's own canaries: a good history passes, each of its spoilt copies is refused
 * for the right reason; and histories of virtual and live runs pass. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "models/zoo.h"
#include "runtime/serve/runtime.h"
#include "tests/history/check.h"
#include "tests/history/spoilt.h"
#include "tests/unit/sched/sim_engine.h"

/* Two tenants, two cores: query 11 runs on both cores and then on one; query 12 is cancelled while it runs.
 */
static const char *const good[] = {
    /* 0 */ "# moire-history 1",
    /* 1 */ "# cores 2",
    /* 2 */ "# dropped 0",
    /* 3 */ "0 100 2 OPEN 0 0 2 2 1",
    /* 4 */ "10 100 2 OPEN 0 1 1 1 1",
    /* 5 */ "20 200 2 SUBMIT 0 0 200 0 0",
    /* 6 */ "30 200 2 ACCEPT 11 0 200 1200 0",
    /* 7 */ "40 201 2 DISPATCH 11 0 0 1 2",
    /* 8 */ "50 210 0 BLOCK_START 11 0 0 1 0",
    /* 9 */ "60 211 1 BLOCK_START 11 0 0 1 1",
    /* 10 */ "70 220 2 SUBMIT 0 1 220 0 0",
    /* 11 */ "80 220 2 ACCEPT 12 1 220 420 0",
    /* 12 */ "90 300 0 BLOCK_END 11 0 0 1 0",
    /* 13 */ "100 301 1 BLOCK_END 11 0 0 1 1",
    /* 14 */
    "105 305 2 PRESSURE 0 -1 25000 1 0\n107 306 4 COUNTERS 0 -1 7 0 0\n110 310 2 DISPATCH 11 0 1 2 1",
    /* 15 */ "120 311 2 DISPATCH 12 1 0 1 1\n121 311 2 BASIS 12 1 250000 1 8000",
    /* 16 */ "125 311 0 VERSIONS 11 0 1 3 1\n130 312 0 BLOCK_START 11 0 1 2 0",
    /* 17 */ "140 313 1 BLOCK_START 12 1 0 1 1",
    /* 18 */ "150 350 2 RESOLVE 12 1 -11 420 0",
    /* 19 */ "160 350 2 CANCEL 12 1 1 0 0",
    /* 20 */ "170 351 3 CALLBACK_IN 12 1 -11 0 0",
    /* 21 */ "180 352 3 CALLBACK_OUT 12 1 -11 0 0",
    /* 22 */ "190 400 0 BLOCK_END 11 0 1 2 0",
    /* 23 */ "200 401 2 RESOLVE 11 0 0 1200 0",
    /* 24 */ "210 402 0 CALLBACK_IN 11 0 0 0 0",
    /* 25 */ "220 403 0 CALLBACK_OUT 11 0 0 0 0",
    /* 26 */ "230 404 2 RELEASE 11 0 0 0 0",
    /* 27 */ "240 500 1 BLOCK_END 12 1 0 1 1",
    /* 28 */ "250 501 2 RELEASE 12 1 0 0 0",
    /* 29 */ "260 510 2 SUBMIT 0 1 510 0 0",
    /* 30 */ "270 510 2 REJECT 0 1 -8 0 0",
    /* 31 */ "280 520 2 SAMPLE 0 -1 2 2 0",
    /* 32 */ "290 600 2 DRAINED 0 -1 0 0 0",
    /* 33 */ "300 700 2 CLOSE 0 0 0 0 0",
};
enum { GOOD = sizeof good / sizeof *good };

static const struct spoilt bad[] = {
    {"FORM", "no number of cores", 1, 1, NULL},
    {"FORM", "events were dropped", 2, 2, "# dropped 3"},
    {"FORM", "a line that is no event", 5, 5, "hello"},
    {"FORM", "a field too many", 5, 5, "20 200 2 SUBMIT 0 0 200 0 0 7"},
    {"FORM", "an unknown kind", 31, 31, "280 520 2 TEA 0 0 2 2 0"},
    {"FORM", "sequence goes back", 31, 31, "28 520 2 SAMPLE 0 -1 2 2 0"},
    {"FORM", "time of a thread goes back", 31, 31, "280 90 2 SAMPLE 0 -1 2 2 0"},
    {"FORM", "the deadline changes", 23, 23, "200 401 2 RESOLVE 11 0 0 1300 0"},
    {"H3", "the basis of no decision", 18, 17, "145 330 2 BASIS 11 0 0 1 80"},
    {"H3", "a cut that is not the model's end", 16, 15, "122 311 2 BASIS 12 1 0 2 80"},
    {"FORM", "a cut that there is not", 16, 15, "122 311 2 BASIS 12 1 0 9 80"},
    {"FORM", "a decision for a pressure over one", 16, 15, "122 311 2 BASIS 12 1 1000001 1 80"},
    {"H3", "versions of no block", 14, 13, "101 301 0 VERSIONS 11 0 1 3 1"},
    {"H3", "versions beyond their block", 16, 15, "122 311 0 VERSIONS 11 0 1 3 2"},
    {"FORM", "negative times of a block", 16, 15, "122 311 0 TIMES 11 0 1 -3 2"},
    {"H3", "times of no block", 14, 13, "101 301 0 TIMES 11 0 1 3 1"},
    {"FORM", "a pressure over one", 32, 31, "288 530 2 PRESSURE 0 -1 1000001 0 0"},
    {"H1", "accepted, never answered", 18, 32, NULL},
    {"H1", "resolved, callback never ran", 20, 21, NULL},
    {"H1", "callback ran twice", 22, 21, "185 353 3 CALLBACK_IN 12 1 -11 0 0"},
    {"H1", "callback began, never returned", 25, 32, NULL},
    {"H1", "resolved twice", 24, 23, "205 401 2 RESOLVE 11 0 -11 1200 0"},
    {"H1", "callback before the outcome", 18, 19, NULL},
    {"H1", "callback with another code", 20, 20, "170 351 3 CALLBACK_IN 12 1 0 0 0"},
    {"H1", "callback of a rejected query", 31, 30, "275 511 3 CALLBACK_IN 13 1 -8 0 0"},
    {"H1", "accepted twice", 12, 11, "81 220 2 SUBMIT 0 1 220 0 0\n82 220 2 ACCEPT 12 1 220 420 0"},
    {"H1", "submit without an answer", 30, 30, NULL},
    {"H1", "accepted out of the blue", 10, 10, NULL},
    {"H1", "released before the callback returned", 21, 21, "180 352 2 RELEASE 12 1 0 0 0"},
    {"H1", "released twice", 27, 26, "235 405 2 RELEASE 11 0 0 0 0"},
    {"H2", "expired early", 18, 18, "150 350 2 RESOLVE 12 1 -9 420 0"},
    {"H3", "OK without its last block", 14, 14, NULL},
    {"H3", "OK with a layer run twice", 14, 14, "110 310 2 DISPATCH 11 0 0 2 1"},
    {"H3", "a layer skipped", 7, 7, "40 201 2 DISPATCH 11 0 1 2 2"},
    {"H3", "more layers than the model has", 14, 14, "110 310 2 DISPATCH 11 0 1 3 1"},
    {"H3", "an empty block", 14, 14, "110 310 2 DISPATCH 11 0 1 1 1"},
    {"H3", "OK while the block still runs", 22, 22, NULL},
    {"H3", "a block nobody dispatched", 15, 15, NULL},
    {"H3", "dispatched after its outcome", 24, 23, "205 401 2 DISPATCH 11 0 1 2 1"},
    {"H3", "two blocks of a query at once", 8, 7, "45 202 2 DISPATCH 11 0 0 1 1"},
    {"H4", "a core runs two blocks", 17, 17, "140 313 1 BLOCK_START 12 1 0 1 0"},
    {"H4", "a core ends what another began", 27, 27, "240 500 1 BLOCK_END 12 1 0 1 0"},
    {"H4", "a core that does not exist", 9, 9, "60 211 1 BLOCK_START 11 0 0 1 2"},
    {"H4", "more members than the let has", 7, 7, "40 201 2 DISPATCH 11 0 0 1 1"},
    {"H4", "a let of no cores", 7, 7, "40 201 2 DISPATCH 11 0 0 1 0"},
    {"H4", "released while its block runs", 27, 26, "235 499 2 RELEASE 12 1 0 0 0"},
    {"H5", "drained with a query open", 28, 28, NULL},
    {"H5", "a sample that lies", 31, 31, "280 520 2 SAMPLE 0 -1 3 2 1"},
    {"H7", "more waiting than the bound", 12, 11,
     "81 221 2 SUBMIT 0 1 221 0 0\n82 221 2 ACCEPT 14 1 221 421 0"},
    {"H7", "more instances than there are", 12, 13,
     "81 221 2 SUBMIT 0 0 221 0 0\n82 221 2 ACCEPT 15 0 221 1221 0\n83 222 2 DISPATCH 15 0 0 1 1"},
    {"H9", "idle for ever beside work", 7, 7, "40 2000000201 2 DISPATCH 11 0 0 1 2"},
    {"H10", "an event under another tenant", 18, 18, "150 350 2 RESOLVE 12 0 -11 420 0"},
    {"H10", "a tenant that was never opened", 10, 11,
     "70 220 2 SUBMIT 0 5 220 0 0\n80 220 2 ACCEPT 12 5 220 420 0"},
    {"H10", "accepted after CLOSE", 10, 9, "65 219 2 CLOSE 0 1 0 0 0"},
    {"H10", "closed twice", 34, 33, "310 700 2 CLOSE 0 0 0 0 0"},
};

/* A block of two queries, 11 and 12. */
static const char *const good_batch[] = {
    /* 0 */ "# moire-history 1",
    /* 1 */ "# cores 2",
    /* 2 */ "0 100 2 OPEN 0 0 1 3 2",
    /* 3 */ "1 100 2 SUBMIT 0 0 100 0 0\n2 100 2 ACCEPT 11 0 100 900 0",
    /* 4 */ "3 100 2 SUBMIT 0 0 100 0 0\n4 100 2 ACCEPT 12 0 100 900 0",
    /* 5 */ "10 110 2 DISPATCH 11 0 0 1 1",
    /* 6 */ "20 110 2 MEMBER 12 0 0 1 11",
    /* 7 */ "30 111 0 BLOCK_START 11 0 0 1 0",
    /* 8 */ "40 120 0 BLOCK_END 11 0 0 1 0",
    /* 9 */ "50 121 2 RESOLVE 11 0 0 900 0\n51 121 2 RESOLVE 12 0 0 900 0",
    /* 10 */ "60 122 0 CALLBACK_IN 11 0 0 0 0\n61 122 0 CALLBACK_OUT 11 0 0 0 0",
    /* 11 */ "62 122 0 CALLBACK_IN 12 0 0 0 0\n63 122 0 CALLBACK_OUT 12 0 0 0 0",
    /* 12 */ "70 123 2 RELEASE 11 0 0 0 0\n71 123 2 RELEASE 12 0 0 0 0",
};
enum { GOOD_BATCH = sizeof good_batch / sizeof *good_batch };

static const struct spoilt bad_batch[] = {
    {"H3", "a member that never joined", 6, 6, NULL},
    {"H3", "joins a block that runs already", 6, 7,
     "20 110 0 BLOCK_START 11 0 0 1 0\n30 111 2 MEMBER 12 0 0 1 11"},
    {"H3", "joins itself", 6, 6, "20 110 2 MEMBER 12 0 0 1 12"},
    {"H3", "joins a query that is not there", 6, 6, "20 110 2 MEMBER 12 0 0 1 15"},
    {"H3", "joins twice", 7, 6, "25 110 2 MEMBER 12 0 0 1 11"},
    {"H3", "reports a block of its own", 8, 7, "35 112 1 BLOCK_START 12 0 0 1 1"},
    {"H3", "OK while its block runs", 8, 8, NULL},
    {"H4", "released while its block runs", 8, 7,
     "31 112 2 RESOLVE 12 0 -11 900 0\n32 112 1 CALLBACK_IN 12 0 -11 0 0\n33 112 1 CALLBACK_OUT 12 0 -11 0 "
     "0\n"
     "34 112 2 RELEASE 12 0 0 0 0"},
};

/* A block of query 12 that is queued behind one of query 11. */
static const char *const good_queue[] = {
    /* 0 */ "# moire-history 1\n# cores 2",
    /* 1 */ "0 100 2 OPEN 0 0 2 4 4",
    /* 2 */ "1 100 2 SUBMIT 0 0 100 0 0\n2 100 2 ACCEPT 11 0 100 900 0",
    /* 3 */ "3 100 2 SUBMIT 0 0 100 0 0\n4 100 2 ACCEPT 12 0 100 900 0",
    /* 4 */ "5 100 2 SUBMIT 0 0 100 0 0\n6 100 2 ACCEPT 13 0 100 900 0",
    /* 5 */ "10 110 2 DISPATCH 11 0 0 2 1\n11 110 0 BLOCK_START 11 0 0 2 0",
    /* 6 */ "20 115 2 DISPATCH 12 0 0 2 1",
    /* 7 */ "21 115 2 QUEUE 12 0 0 0 0",
    /* 8 */ "30 120 0 BLOCK_END 11 0 0 2 0",
    /* 9 */ "35 120 0 BLOCK_START 12 0 0 2 0",
    /* 10 */ "36 120 2 RESOLVE 11 0 0 900 0",
    /* 11 */ "40 130 0 BLOCK_END 12 0 0 2 0\n41 131 2 RESOLVE 12 0 0 900 0\n42 131 2 RESOLVE 13 0 -11 900 0",
    /* 12 */ "50 132 1 CALLBACK_IN 11 0 0 0 0\n51 132 1 CALLBACK_OUT 11 0 0 0 0\n52 132 2 RELEASE 11 0 0 0 0",
    /* 13 */ "60 132 1 CALLBACK_IN 12 0 0 0 0\n61 132 1 CALLBACK_OUT 12 0 0 0 0\n62 132 2 RELEASE 12 0 0 0 0",
    /* 14 */
    "70 132 1 CALLBACK_IN 13 0 -11 0 0\n71 132 1 CALLBACK_OUT 13 0 -11 0 0\n72 132 2 RELEASE 13 0 0 0 0",
};
enum { GOOD_QUEUE = sizeof good_queue / sizeof *good_queue };

static const struct spoilt bad_queue[] = {
    {"H4", "behind no block", 5, 5, "10 110 2 DISPATCH 11 0 0 2 1"},
    {"H4", "behind itself", 7, 7, "21 115 2 QUEUE 11 0 0 0 0"},
    {"H4", "on a core that does not exist", 7, 7, "21 115 2 QUEUE 12 0 2 0 0"},
    {"H4", "what was not dispatched", 6, 6, NULL},
    {"H4", "a second one", 8, 7, "22 116 2 DISPATCH 13 0 0 2 1\n23 116 2 QUEUE 13 0 0 0 0"},
    {"H4", "a part of a batch", 6, 6, "20 115 2 DISPATCH 12 0 0 1 1"},
    {"H4", "behind a part of a batch", 5, 5, "10 110 2 DISPATCH 11 0 0 1 1\n11 110 0 BLOCK_START 11 0 0 1 0"},
    {"H4", "begins too soon", 8, 7, "25 117 0 BLOCK_START 12 0 0 2 0"},
    {"H4", "another comes between", 9, 8, "31 120 2 DISPATCH 13 0 0 2 1\n32 120 0 BLOCK_START 13 0 0 2 0"},
    {"H4", "released while it is queued", 8, 7,
     "22 116 2 RESOLVE 12 0 -11 900 0\n23 116 1 CALLBACK_IN 12 0 -11 0 0\n24 116 1 CALLBACK_OUT 12 0 -11 0 "
     "0\n"
     "25 116 2 RELEASE 12 0 0 0 0"},
};

/* The block of query 11 is killed; the query runs again from its first layer, on the other core. */
static const char *const good_reset[] = {
    /* 0 */ "# moire-history 1\n# cores 2",
    /* 1 */ "0 100 2 OPEN 0 0 2 4 1",
    /* 2 */ "1 100 2 SUBMIT 0 0 100 0 0\n2 100 2 ACCEPT 11 0 100 900 0",
    /* 3 */ "10 110 2 DISPATCH 11 0 0 1 1\n11 110 0 BLOCK_START 11 0 0 1 0\n12 115 0 BLOCK_END 11 0 0 1 0",
    /* 4 */ "20 115 2 DISPATCH 11 0 1 2 1\n21 115 0 BLOCK_START 11 0 1 2 0",
    /* 5 */ "30 120 2 RESET 11 0 1 2 10",
    /* 6 */ "40 130 2 DISPATCH 11 0 0 2 1\n41 130 1 BLOCK_START 11 0 0 2 1",
    /* 7 */ "50 140 1 BLOCK_END 11 0 0 2 1",
    /* 8 */ "51 141 2 RESOLVE 11 0 0 900 0",
    /* 9 */ "60 142 1 CALLBACK_IN 11 0 0 0 0\n61 142 1 CALLBACK_OUT 11 0 0 0 0\n62 142 2 RELEASE 11 0 0 0 0",
    /* 10 */ "70 150 2 RESTORED 0 0 0 0 0",
};
enum { GOOD_RESET = sizeof good_reset / sizeof *good_reset };

static const struct spoilt bad_reset[] = {
    {"H3", "a second block of it at once", 5, 5, NULL},
    {"H3", "killed when it does not run", 7, 6, "45 131 2 RESET 11 0 1 2 10"},
    {"H3", "other layers killed", 5, 5, "30 120 2 RESET 11 0 0 2 10"},
    {"H3", "it goes on where it was", 6, 6, "40 130 2 DISPATCH 11 0 1 2 1\n41 130 1 BLOCK_START 11 0 1 2 1"},
    {"H4", "on the core that is reset", 6, 6,
     "40 130 2 DISPATCH 11 0 0 2 1\n41 130 0 BLOCK_START 11 0 0 2 0"},
    {"H4", "its old core tells of an end", 6, 5, "31 121 0 BLOCK_END 11 0 1 2 0"},
    {"H4", "another core is back", 10, 10, "70 150 2 RESTORED 0 0 1 0 0"},
    {"H4", "back twice", 11, 10, "71 151 2 RESTORED 0 0 0 0 0"},
    {"FORM", "negative work", 5, 5, "30 120 2 RESET 11 0 1 2 -1"},
};

static size_t assemble(char *out, size_t size, int from, int to, const char *text) {
    return history_spoil(good, GOOD, out, size, from, to, text);
}

static void batches_keep_the_same_promises(void **state) {
    (void)state;
    history_compare(good_batch, GOOD_BATCH, bad_batch, sizeof bad_batch / sizeof *bad_batch);
}

static void one_block_is_queued_behind_another(void **state) {
    (void)state;
    history_compare(good_queue, GOOD_QUEUE, bad_queue, sizeof bad_queue / sizeof *bad_queue);
}

static void a_killed_block_starts_over(void **state) {
    (void)state;
    history_compare(good_reset, GOOD_RESET, bad_reset, sizeof bad_reset / sizeof *bad_reset);
}

static void the_good_history_passes(void **state) {
    (void)state;
    char text[8192];
    struct history_verdict v = history_check(text, assemble(text, sizeof text, -1, -2, NULL));
    if (v.rule[0]) print_message("line %ld: %s %s\n", v.line, v.rule, v.message);
    assert_string_equal(v.rule, "");
    assert_int_equal(v.queries, 2);
    char remark[600]; /* a recording has long ones */
    memset(remark, '7', sizeof remark);
    remark[0] = '#', remark[sizeof remark - 1] = 0;
    v = history_check(text, assemble(text, sizeof text, 3, 2, remark));
    assert_string_equal(v.rule, "");
    remark[0] = '1';
    v = history_check(text, assemble(text, sizeof text, 3, 2, remark));
    assert_string_equal(v.rule, "FORM");
}

static void every_bad_history_is_refused_for_its_reason(void **state) {
    (void)state;
    assert_true(sizeof bad / sizeof *bad >= 25);
    history_compare(good, GOOD, bad, sizeof bad / sizeof *bad);
}

static void cut_and_random_text_is_refused(void **state) {
    (void)state;
    char text[8192];
    size_t n = assemble(text, sizeof text, -1, -2, NULL);
    /* the last lines but CLOSE and DRAINED may go: they promise nothing */
    for (size_t cut = 1; cut + 200 < n; cut += 7) {
        struct history_verdict v = history_check(text, n - 200 - cut % (n - 200));
        assert_true(v.rule[0]);
    }
    unsigned rng = 1;
    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < 500; i++) {
            rng = rng * 1103515245u + 12345;
            text[i] = (char)(rng >> 16);
        }
        assert_true(history_check(text, 500).rule[0]);
    }
}

static struct history_verdict check_file(const char *path) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *text = malloc(64 << 20);
    size_t n = fread(text, 1, 64 << 20, f);
    fclose(f);
    struct history_verdict v = history_check(text, n);
    free(text);
    if (v.rule[0]) print_message("%s line %ld: %s %s\n", path, v.line, v.rule, v.message);
    return v;
}

static void virtual_runs_keep_the_promises(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    char path[] = "/tmp/moire-history-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (const struct mo_policy *const *p = mo_policies(); *p; p++) {
        struct mo_events *events = mo_events_create(&env, 1, 1 << 19);
        struct sim_config c = {.policy = *p,
                               .n_cores = 3,
                               .duration_ns = 5000000000,
                               .seed = 11,
                               .cancel_rate = 0.2,
                               .drain = true,
                               .ring = &events->ring[0]};
        sim_mix(&c, 0.9, 4, 1);
        for (int i = 0; i < c.n_tenants; i++) {
            c.tenant[i].queue = 4 << i;
            c.tenant[i].shed_late = i % 2;
        }
        struct sim_result r;
        assert_int_equal(sim_run(&c, &r), MOIRE_OK);
        assert_int_equal(mo_events_dump(events, c.n_cores, "", path, NULL), MOIRE_OK);
        struct history_verdict v = check_file(path);
        assert_string_equal(v.rule, "");
        assert_int_equal(v.queries, r.stats.accepted);
        mo_events_destroy(events);
    }
    unlink(path);
}

static void count(void *user, const moire_answer *answer) {
    (void)answer;
    __atomic_fetch_add((int *)user, 1, __ATOMIC_RELAXED);
}

/* A live run with cancels, shedding, a full queue and an unload in the middle. */
static void live_runs_keep_the_promises(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    char folder[] = "/tmp/moire-history-XXXXXX", model[512], dump[600];
    assert_non_null(mkdtemp(folder));
    assert_int_equal(mo_zoo_path(&env, "lenet", folder, model, sizeof model, NULL), MOIRE_OK);
    snprintf(dump, sizeof dump, "%s/history", folder);
    static float pixels[32 * 32];
    moire_tensor in = {
        .dtype = MOIRE_F32, .rank = 4, .shape = {1, 1, 32, 32}, .data = pixels, .bytes = sizeof pixels};
    for (const struct mo_policy *const *p = mo_policies(); *p; p++) {
        moire_config c;
        moire_config_init(&c);
        c.policy = (*p)->name;
        c.generic_only = 1;
        c.threads = 2;
        moire_runtime *rt;
        moire_tenant *t[2];
        assert_int_equal(mo_runtime_create(&c, NULL, 1 << 16, &rt, NULL), MOIRE_OK);
        for (int i = 0; i < 2; i++) {
            moire_tenant_config tc;
            moire_tenant_config_init(&tc);
            tc.qos_ns = i ? 400000 : 50000000;
            tc.shed_late = i;
            tc.queue = i ? 16 : 0;
            assert_int_equal(moire_load(rt, model, &tc, &t[i], NULL), MOIRE_OK);
        }
        int answers = 0, accepted = 0;
        for (int i = 0; i < 600; i++) {
            moire_query q;
            if (i == 500) moire_unload(t[1], NULL);
            if (moire_submit(t[i < 500 && i % 3 == 0], &in, 1, 0, count, &answers, &q, NULL)) continue;
            accepted++;
            if (i % 7 == 0) moire_cancel(rt, q);
            struct mo_sched_stats st;
            if (i % 50 == 0) mo_runtime_stats(rt, &st); /* puts a sample into the history */
        }
        moire_drain(rt);
        assert_int_equal(mo_runtime_dump(rt, 0, dump, NULL), MOIRE_OK);
        moire_runtime_destroy(rt, 1);
        assert_int_equal(answers, accepted);
        struct history_verdict v = check_file(dump);
        assert_string_equal(v.rule, "");
        assert_int_equal(v.queries, accepted);
    }
    unlink(dump);
    unlink(model);
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_good_history_passes),
        cmocka_unit_test(batches_keep_the_same_promises),
        cmocka_unit_test(one_block_is_queued_behind_another),
        cmocka_unit_test(a_killed_block_starts_over),
        cmocka_unit_test(every_bad_history_is_refused_for_its_reason),
        cmocka_unit_test(cut_and_random_text_is_refused),
        cmocka_unit_test(virtual_runs_keep_the_promises),
        cmocka_unit_test(live_runs_keep_the_promises),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
