/* SPDX-License-Identifier: Apache-2.0
 * test_front.c - the choice of versions: share of the target, front, spread, what others cover, crossovers;
 * and its way into the store and out again, whole or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "codegen/search/writer.h"
#include "codegen/tune/front.h"
#include "tests/unit/base/fault_sys.h"
#include "tests/unit/kernels/toy_family.h"

static struct mo_store_point point(double ns, int64_t parallelism, int64_t block, int64_t l3) {
    return (struct mo_store_point){
        .units = 64, .parallelism_milli = parallelism, .block_bytes = block, .l3_bytes = l3, .ns = {ns}};
}

static struct mo_store_front front_of(const struct mo_store_point *points, int n) {
    struct mo_store_front f = {.n = n};
    memcpy(f.point, points, (size_t)n * sizeof *points);
    return f;
}

static enum mo_point_state state_of(const struct mo_store_front *f, double ns) {
    for (int i = 0; i < f->n; i++)
        if (f->point[i].ns[0] == ns) return f->point[i].state;
    return MO_POINT_STATES;
}

static void late_and_dominated_points_go(void **state) {
    (void)state;
    const struct mo_store_point points[] = {
        point(300, 9000, 90, 10),                             /* misses the share, else it would dominate */
        point(150, 1000, 50, 100), point(100, 2000, 10, 100), /* fastest */
        point(160, 1000, 40, 100),                            /* worse than 150 in blocking */
        point(170, 500, 5, 50),                               /* least traffic */
    };
    struct mo_store_front f = front_of(points, 5);
    mo_front_select(&f, &(struct mo_front_rule){.share_ns = 200, .cores = 1, .versions = 5});
    assert_true(f.point[0].ns[0] == 100); /* sorted */
    assert_int_equal(state_of(&f, 300), MO_POINT_LATE);
    assert_int_equal(state_of(&f, 160), MO_POINT_DOMINATED);
    assert_int_equal(state_of(&f, 100), MO_POINT_VERSION);
    assert_int_equal(state_of(&f, 150), MO_POINT_VERSION);
    assert_int_equal(state_of(&f, 170), MO_POINT_VERSION);
}

/* On four cores the late one makes it, unless its units do not divide. */
static void more_cores_meet_the_share(void **state) {
    (void)state;
    struct mo_store_point points[] = {point(100, 2000, 10, 100), point(300, 9000, 90, 10)};
    struct mo_store_front f = front_of(points, 2);
    mo_front_select(&f, &(struct mo_front_rule){.share_ns = 80, .cores = 4, .versions = 5});
    assert_int_equal(state_of(&f, 300), MO_POINT_VERSION);
    points[1].units = 5; /* two of five on one core: 120 ns */
    f = front_of(points, 2);
    mo_front_select(&f, &(struct mo_front_rule){.share_ns = 80, .cores = 4, .versions = 5});
    assert_int_equal(state_of(&f, 300), MO_POINT_LATE);
    assert_int_equal(state_of(&f, 100), MO_POINT_VERSION); /* the fastest stays whatever the target */
}

static void versions_are_spread_evenly(void **state) {
    (void)state;
    struct mo_store_point points[9];
    for (int versions = 1; versions <= 5; versions++)
        for (int fastest = 0; fastest < 9; fastest++) {
            for (int i = 0; i < 9; i++)
                points[i] = point(i == fastest ? 50 : 100 + i, 9000 - 1000 * i, 10 + i, 100);
            struct mo_store_front f = front_of(points, 9);
            mo_front_select(&f, &(struct mo_front_rule){.cores = 1, .versions = versions});
            assert_int_equal(mo_front_versions(&f), versions);
            assert_int_equal(state_of(&f, 50), MO_POINT_VERSION);
            for (int end = 0; end < 9 && versions >= 4; end += 8) /* both ends or what took their place */
                assert_true(end == fastest || state_of(&f, 100 + end) == MO_POINT_VERSION ||
                            (fastest > end ? fastest - end : end - fastest) == 1);
        }
}

static void covered_versions_go(void **state) {
    (void)state;
    const double ns[4][MO_STORE_LEVELS] = {{100, 120, 160, 220, 300, 400},
                                           {101, 121, 161, 221, 301, 401},  /* as the first */
                                           {130, 135, 150, 170, 190, 210},  /* better under pressure */
                                           {150, 155, 160, 165, 170, 175}}; /* best at the end */
    struct mo_store_front f = {.n = 4};
    for (int i = 0; i < 4; i++) {
        memcpy(f.point[i].ns, ns[i], sizeof ns[i]);
        f.point[i].state = MO_POINT_VERSION;
    }
    mo_front_prune(&f);
    assert_int_equal(f.point[0].state, MO_POINT_VERSION);
    assert_int_equal(f.point[1].state, MO_POINT_COVERED);
    assert_int_equal(mo_front_versions(&f), 2); /* 2 and 3 cover each other within 90 % but at one level */
    assert_int_equal(f.point[3].state, MO_POINT_VERSION);
    struct mo_store_front alone = {.n = 1};
    alone.point[0] = f.point[0];
    mo_front_prune(&alone);
    assert_int_equal(mo_front_versions(&alone), 1);
}

static struct mo_store_point wide_point(double ns, int64_t units, double part_ns, int64_t packing) {
    struct mo_store_point p = point(ns, 1000, 10, 100);
    p.units = units, p.part_ns = part_ns, p.packing = packing;
    return p;
}

/* The kept one comes first; the second is the one that 64 cores run fastest, or one with the same weights
 * that is nearly as fast. */
static void one_version_serves_many_cores(void **state) {
    (void)state;
    struct mo_front_rule rule = {.cores = 64, .versions = 2, .kept = 2};
    const struct mo_store_point points[] = {wide_point(100, 4, 26, 1), wide_point(102, 8, 14, 2),
                                            wide_point(300, 128, 5, 1), wide_point(150, 64, 6, 2)};
    struct mo_store_front f = front_of(points, 4);
    f.cores = 64;
    assert_true(mo_front_widen(&f, &rule));
    assert_true(f.point[0].ns[0] == 102 && f.point[0].state == MO_POINT_VERSION);
    assert_true(f.point[1].ns[0] == 100 && f.point[3].ns[0] == 300); /* the others by time */
    assert_int_equal(state_of(&f, 150), MO_POINT_VERSION);
    assert_int_equal(mo_front_versions(&f), 2);
    f = front_of(points, 3);
    f.cores = 64;
    assert_true(mo_front_widen(&f, &rule));
    assert_int_equal(state_of(&f, 300), MO_POINT_VERSION);
    f = front_of(points, 2); /* nothing does better */
    f.cores = 64;
    assert_false(mo_front_widen(&f, &rule));
    assert_int_equal(mo_front_versions(&f), 1);
    f = front_of(points, 4);
    f.point[1].units = 256; /* enough as it is */
    assert_false(mo_front_widen(&f, &rule));
}

/* Among versions for pressure too: it takes the place of the one that many cores run worst, and is not pruned
 * although others cover it on one core. */
static void versions_for_pressure_keep_one_for_many_cores(void **state) {
    (void)state;
    struct mo_store_front f = {.n = 4, .cores = 64};
    const struct mo_front_rule rule = {.cores = 64, .versions = 3};
    for (int i = 0; i < 4; i++) {
        f.point[i] = point(100 + i, 4000 - 1000 * i, 10 + i, 100);
        f.point[i].units = 8, f.point[i].part_ns = 20 + i;
    }
    f.point[1].units = 64, f.point[1].part_ns = 4;
    mo_front_select(&f, &rule);
    assert_int_equal(mo_front_versions(&f), 3);
    assert_int_equal(state_of(&f, 101), MO_POINT_VERSION);
    for (int i = 0; i < 4; i++)
        for (int level = 1; level < MO_STORE_LEVELS; level++)
            f.point[i].ns[level] = f.point[i].ns[0];
    mo_front_prune(&f);
    assert_int_equal(mo_front_versions(&f), 2);
    assert_int_equal(state_of(&f, 100), MO_POINT_VERSION);
    assert_int_equal(state_of(&f, 101), MO_POINT_VERSION);
}

static void times_lie_between_levels(void **state) {
    (void)state;
    const double a[MO_STORE_LEVELS] = {100, 110, 120, 130, 140, 150};
    assert_true(mo_version_ns(a, 0.3) > 114.9 && mo_version_ns(a, 0.3) < 115.1);
    assert_true(mo_version_ns(a, -1) == 100 && mo_version_ns(a, 2) == 150);
}

/* --- the store --- */
static int tune_for(const struct mo_env *env, const char *folder, int versions, bool keep_covered,
                    struct mo_layer_result *out, moire_error *err) {
    struct mo_stress_config c = {.env = env, .l2_bytes = 64 << 10, .l3_bytes = 256 << 10};
    struct mo_search_options o = {.store = folder,
                                  .isa = MO_ISA_BASE,
                                  .jobs = 2,
                                  .probation_s = 20,
                                  .families = toy_families,
                                  .problem = toy_problem,
                                  .versions = versions,
                                  .keep_covered = keep_covered};
    struct mo_search *search = NULL;
    struct mo_graph *g = toy_graph(env, 1, "m");
    int rc = mo_stress_create(&c, &o.stress, err);
    if (!rc) rc = mo_search_create(env, &o, &search, err);
    if (!rc) rc = mo_search_add(search, g, err);
    if (!rc) rc = mo_search_run(search, err);
    if (!rc) *out = *mo_search_result(search, 0);
    mo_search_destroy(search);
    mo_stress_destroy(o.stress);
    mo_graph_destroy(g);
    return rc;
}

static int tune(const struct mo_env *env, const char *folder, bool keep_covered, struct mo_layer_result *out,
                moire_error *err) {
    return tune_for(env, folder, 5, keep_covered, out, err);
}

/* Both toy kernels are equal in every measure: one is a version, both are in the file, nothing is damaged.
 * The second run writes nothing and needs no compiler. */
static void tuned_layers_are_stored_and_reused(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct fault_sys fault;
    struct mo_layer_result r = {0};
    struct mo_store *store;
    struct mo_store_front f;
    struct mo_store_version v[MO_STORE_VERSIONS];
    moire_error err = {0};
    char folder[64], signature[256];
    toy_folder(folder);
    toy_signature(0, signature);
    assert_int_equal(toy_search(&env, folder, 1, "m", toy_families, NULL, &err), MOIRE_OK);
    assert_int_equal(tune(&env, folder, false, &r, &err), MOIRE_OK); /* compiled is not tuned */
    assert_int_equal(r.state, MO_LAYER_COMPILED);
    assert_int_equal(r.versions, 1);
    assert_int_equal(mo_store_open(&env, folder, &store, NULL), MOIRE_OK);
    assert_true(mo_store_read_front(store, signature, MO_ISA_BASE, &f));
    assert_int_equal(f.n, 2);
    assert_int_equal(mo_store_versions(store, signature, MO_ISA_BASE, v), 1);
    assert_non_null(v[0].variant.run);
    assert_true(v[0].ns[0] > 0 && v[0].ns[5] > 0);
    assert_int_equal(mo_store_stats(store).damaged + mo_store_stats(store).stale, 0);
    mo_store_close(store);
    fault_sys_init(&fault);
    fault.no_spawn = fault.read_only = 1;
    env.sys = &fault.table;
    assert_int_equal(tune(&env, folder, false, &r, &err), MOIRE_OK);
    assert_int_equal(r.state, MO_LAYER_REUSED);
    assert_int_equal(r.versions, 1);
    assert_int_equal(fault_sys_live(&fault), 0);
    toy_remove(folder);
}

/* A front as written, the second point in another state; a version among them may be missing. */
static void write_front(const struct mo_env *env, const char *folder, enum mo_point_state state,
                        const char *second) {
    struct mo_store *store;
    struct mo_store_front f;
    struct mo_writer *w;
    char signature[256];
    toy_signature(0, signature);
    assert_int_equal(mo_store_open(env, folder, &store, NULL), MOIRE_OK);
    assert_true(mo_store_read_front(store, signature, MO_ISA_BASE, &f));
    mo_store_close(store);
    f.point[1].state = state;
    snprintf(f.point[1].key, sizeof f.point[1].key, "%s", second ? second : f.point[0].key);
    for (int i = 0; i < MO_STORE_LEVELS; i++)
        f.point[1].ns[i] = 1;
    assert_int_equal(mo_writer_open(env, folder, &w, NULL), MOIRE_OK);
    assert_int_equal(mo_writer_front(w, &f, NULL), MOIRE_OK);
    mo_writer_close(w);
}

static int versions_in(const struct mo_env *env, const char *folder, int64_t *damaged) {
    struct mo_store *store;
    struct mo_store_version v[MO_STORE_VERSIONS];
    char signature[256];
    toy_signature(0, signature);
    assert_int_equal(mo_store_open(env, folder, &store, NULL), MOIRE_OK);
    int n = mo_store_versions(store, signature, MO_ISA_BASE, v);
    *damaged = mo_store_stats(store).damaged;
    mo_store_close(store);
    return n;
}

static void versions_are_taken_whole_or_not_at_all(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_layer_result r = {0};
    moire_error err = {0};
    int64_t damaged;
    char folder[64];
    toy_folder(folder);
    assert_int_equal(versions_in(&env, folder, &damaged), 0);
    assert_int_equal(tune(&env, folder, false, &r, &err), MOIRE_OK);
    write_front(&env, folder, MO_POINT_VERSION, NULL);
    assert_int_equal(versions_in(&env, folder, &damaged), 2);
    assert_int_equal(damaged, 0);
    write_front(&env, folder, MO_POINT_VERSION,
                "0123456789012345678901234567890123456789012345678901234567890123");
    assert_int_equal(versions_in(&env, folder, &damaged), 0);
    assert_int_equal(damaged, 1);
    toy_remove(folder);
}

/* They were dropped for being covered, and so have no code in the store. */
static void covered_versions_are_made_when_asked_for(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_layer_result r = {0};
    moire_error err = {0};
    char folder[64];
    toy_folder(folder);
    assert_int_equal(tune(&env, folder, false, &r, &err), MOIRE_OK);
    write_front(&env, folder, MO_POINT_COVERED, "");
    assert_int_equal(tune(&env, folder, false, &r, &err), MOIRE_OK);
    assert_int_equal(r.state, MO_LAYER_REUSED);
    assert_int_equal(tune(&env, folder, true, &r, &err), MOIRE_OK);
    assert_int_equal(r.state, MO_LAYER_COMPILED);
    assert_int_equal(tune(&env, folder, true, &r, &err), MOIRE_OK);
    assert_int_equal(r.state, MO_LAYER_REUSED);
    toy_remove(folder);
}

/* One point of the front was left out for a smaller number; where none was, any number that is large enough
 * would choose the same. */
static void another_number_of_versions_is_chosen_anew(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_layer_result r = {0};
    moire_error err = {0};
    char folder[64];
    toy_folder(folder);
    assert_int_equal(tune_for(&env, folder, 2, false, &r, &err), MOIRE_OK);
    assert_false(r.other_number);
    assert_int_equal(tune_for(&env, folder, 5, false, &r, &err), MOIRE_OK);
    assert_int_equal(r.state, MO_LAYER_REUSED);
    write_front(&env, folder, MO_POINT_SPARE, "");
    assert_int_equal(tune_for(&env, folder, 2, false, &r, &err), MOIRE_OK);
    assert_int_equal(r.state, MO_LAYER_REUSED); /* two were asked for before */
    assert_int_equal(tune_for(&env, folder, 5, false, &r, &err), MOIRE_OK);
    assert_int_equal(r.state, MO_LAYER_COMPILED);
    assert_true(r.other_number);
    assert_int_equal(tune_for(&env, folder, 5, false, &r, &err), MOIRE_OK);
    assert_int_equal(r.state, MO_LAYER_REUSED);
    assert_false(r.other_number);
    write_front(&env, folder, MO_POINT_SPARE, "");
    assert_int_equal(tune_for(&env, folder, 3, false, &r, &err), MOIRE_OK); /* fewer, too */
    assert_int_equal(r.state, MO_LAYER_COMPILED);
    toy_remove(folder);
}

/* Every byte of the file cut off or flipped: refused with a reason. */
static void damaged_fronts_are_refused(void **state) {
    (void)state;
    static const char body[] =
        "{\"format\":1,\"abi\":1,\"generator\":2,\"isa\":\"base\",\"signature\":\"s\",\"share_ns\":3.5,"
        "\"points\":[{\"key\":\"\",\"family\":\"f\",\"knobs\":\"k=1\",\"state\":\"spare\",\"packing\":0,"
        "\"units\":4,\"parallelism_milli\":5,\"block_bytes\":6,\"l3_bytes\":7,\"ns\":[1,0,0,0,0,0]}]}";
    char file[1024], hex[MO_SHA256_HEX], copy[1024];
    struct mo_store_front f;
    moire_error err = {0};
    mo_sha256_hex(body, sizeof body - 1, hex);
    size_t n = (size_t)snprintf(file, sizeof file, "{\"sha256\":\"%s\",\n\"body\":%s}\n", hex, body);
    assert_int_equal(mo_store_parse_front(file, n, &f, &err), MOIRE_OK);
    assert_int_equal(f.n, 1);
    assert_true(f.point[0].l3_bytes == 7 && f.point[0].ns[0] == 1 && f.share_ns == 3.5);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(mo_store_parse_front(file, i, &f, &err), MOIRE_ESTORE);
        memcpy(copy, file, n);
        copy[i] ^= 1;
        assert_int_equal(mo_store_parse_front(copy, n, &f, &err), MOIRE_ESTORE);
        assert_true(err.message[0] != 0);
    }
    static const char *const bad[][2] = {{"\"spare\"", "\"other\""},      {"\"spare\"", "\"version\""},
                                         {"[1,0,0,0,0,0]", "[1,0,0]"},    {"[1,0,0,0,0,0]", "[1,0,0,0,0,-1]"},
                                         {"\"units\":4", "\"units\":-4"}, {"\"points\":[", "\"pints\":["}};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        const char *at = strstr(body, bad[k][0]);
        snprintf(copy, sizeof copy, "%.*s%s%s", (int)(at - body), body, bad[k][1], at + strlen(bad[k][0]));
        mo_sha256_hex(copy, strlen(copy), hex);
        n = (size_t)snprintf(file, sizeof file, "{\"sha256\":\"%s\",\n\"body\":%s}\n", hex, copy);
        assert_int_equal(mo_store_parse_front(file, n, &f, &err), MOIRE_ESTORE);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_and_dominated_points_go),
        cmocka_unit_test(one_version_serves_many_cores),
        cmocka_unit_test(versions_for_pressure_keep_one_for_many_cores),
        cmocka_unit_test(more_cores_meet_the_share),
        cmocka_unit_test(versions_are_spread_evenly),
        cmocka_unit_test(covered_versions_go),
        cmocka_unit_test(times_lie_between_levels),
        cmocka_unit_test(tuned_layers_are_stored_and_reused),
        cmocka_unit_test(versions_are_taken_whole_or_not_at_all),
        cmocka_unit_test(covered_versions_are_made_when_asked_for),
        cmocka_unit_test(another_number_of_versions_is_chosen_anew),
        cmocka_unit_test(damaged_fronts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
