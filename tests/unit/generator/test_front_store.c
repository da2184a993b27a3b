/* SPDX-License-Identifier: Apache-2.0
 * test_front_store.c - versions of a layer on their way into the store and out again: whole or not at all,
 * and none that no pressure explains. */
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
#include "tests/unit/generator/toy_family.h"

/* A processor's clock on which every piece of work takes a millisecond, so that fronts do not depend on how
 * busy the machine is; with a `riddle`, work at pressures from 3/5 on takes a fifth of that. */
static struct {
    const struct mo_stress *stress;
    bool riddle;
    _Atomic int64_t now;
} steady;

static int64_t steady_time(void *self) {
    (void)self;
    bool quick = steady.riddle && mo_stress_level(steady.stress) >= 3;
    return atomic_fetch_add(&steady.now, quick ? 200000 : 1000000);
}

static int tune_for(const struct mo_env *outer, const char *folder, int versions, bool keep_covered,
                    struct mo_layer_result *out, moire_error *err) {
    struct mo_sys sys = *outer->sys;
    struct mo_env steady_env = *outer;
    const struct mo_env *env = &steady_env;
    sys.thread_time = steady_time;
    steady_env.sys = &sys;
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
    steady.stress = o.stress;
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

/* Refused after a second measurement: the layer has its best kernel only, or what it had before, and a later
 * run tries again. */
static void fronts_that_pressure_makes_faster_are_refused(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_layer_result r = {0};
    moire_error err = {0};
    int64_t damaged;
    char folder[64];
    toy_folder(folder);
    steady.riddle = true;
    assert_int_equal(tune(&env, folder, false, &r, &err), MOIRE_OK);
    assert_int_equal(r.state, MO_LAYER_COMPILED);
    assert_int_equal(r.versions, 0);
    assert_non_null(strstr(r.refused, "twice"));
    assert_int_equal(versions_in(&env, folder, &damaged), 0);
    steady.riddle = false;
    assert_int_equal(tune(&env, folder, false, &r, &err), MOIRE_OK);
    assert_int_equal(r.state, MO_LAYER_COMPILED);
    assert_int_equal(r.versions, 1);
    assert_string_equal(r.refused, "");
    write_front(&env, folder, MO_POINT_SPARE, "");
    steady.riddle = true; /* searched anew for another number */
    assert_int_equal(tune_for(&env, folder, 3, false, &r, &err), MOIRE_OK);
    steady.riddle = false;
    assert_true(r.other_number && r.refused[0]);
    assert_int_equal(r.state, MO_LAYER_REUSED);
    assert_int_equal(r.versions, 1);
    assert_int_equal(versions_in(&env, folder, &damaged), 1);
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
        cmocka_unit_test(tuned_layers_are_stored_and_reused),
        cmocka_unit_test(versions_are_taken_whole_or_not_at_all),
        cmocka_unit_test(covered_versions_are_made_when_asked_for),
        cmocka_unit_test(another_number_of_versions_is_chosen_anew),
        cmocka_unit_test(fronts_that_pressure_makes_faster_are_refused),
        cmocka_unit_test(damaged_fronts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
