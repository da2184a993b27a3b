/* SPDX-License-Identifier: Apache-2.0
 * test_upkeep.c - looking through the variant store: what is needed, what is not, and that cleaning takes out
 * the second and leaves the first serving. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "codegen/family/family.h"
#include "codegen/search/upkeep.h"
#include "codegen/search/writer.h"
#include "tests/unit/base/fault_sys.h"
#include "tests/unit/generator/toy_family.h"

enum { LAYERS = 2 };

struct fixture {
    struct mo_env env;
    char folder[64];
};

static int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    moire_error err = {0};
    f->env = mo_env_default();
    toy_folder(f->folder);
    if (toy_search(&f->env, f->folder, LAYERS, "m", toy_families, NULL, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return -1;
    }
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    toy_remove(f->folder);
    free(f);
    return 0;
}

static struct mo_upkeep look(struct fixture *f) {
    struct mo_upkeep u;
    moire_error err = {0};
    assert_int_equal(mo_upkeep_open(&f->env, f->folder, NULL, &u, &err), MOIRE_OK);
    return u;
}

static int files(const struct mo_upkeep *u, enum mo_stored_kind kind, enum mo_stored_state state) {
    int n = 0;
    for (int i = 0; i < u->n; i++)
        n += u->item[i].kind == kind && u->item[i].state == state;
    return n;
}

/* Cleans; returns how many files went.  What is left is all needed. */
static int clean(struct fixture *f) {
    struct mo_upkeep after;
    moire_error err = {0};
    int64_t bytes;
    int went, left;
    assert_int_equal(mo_upkeep_clean(&f->env, f->folder, &after, &went, &bytes, &err), MOIRE_OK);
    assert_true(!went == !bytes);
    mo_upkeep_surplus(&after, &left);
    assert_int_equal(left, 0);
    mo_upkeep_close(&after);
    return went;
}

/* How many of the toy layers are served, and that looking for the others finds nothing wrong. */
static int served(struct fixture *f) {
    struct mo_store *store;
    int n = 0;
    assert_int_equal(mo_store_open(&f->env, f->folder, &store, NULL), MOIRE_OK);
    for (int i = 0; i < LAYERS; i++) {
        char signature[256];
        struct mo_variant v;
        toy_signature(i, signature);
        n += mo_store_find(store, signature, MO_ISA_BASE, &v);
    }
    struct mo_store_stats stats = mo_store_stats(store);
    assert_int_equal(stats.damaged + stats.stale, 0);
    mo_store_close(store);
    return n;
}

static void beaten_candidates_go(void **state) {
    struct fixture *f = *state;
    struct mo_upkeep u = look(f);
    assert_int_equal(files(&u, MO_STORED_INDEX, MO_STORED_NEEDED), LAYERS);
    int code = files(&u, MO_STORED_CODE, MO_STORED_NEEDED);
    assert_int_equal(code, LAYERS);
    assert_int_equal(files(&u, MO_STORED_ENTRY, MO_STORED_NEEDED), code);
    assert_int_equal(files(&u, MO_STORED_SOURCE, MO_STORED_NEEDED), code);
    int surplus;
    mo_upkeep_surplus(&u, &surplus);
    mo_upkeep_close(&u);
    assert_int_equal(clean(f), surplus);
    assert_int_equal(clean(f), 0);
    assert_int_equal(served(f), LAYERS);
}

static struct mo_writer *writer_of(struct fixture *f) {
    struct mo_writer *w;
    assert_int_equal(mo_writer_open(&f->env, f->folder, &w, NULL), MOIRE_OK);
    return w;
}

static void other_versions_go(void **state) {
    struct fixture *f = *state;
    struct mo_writer *w = writer_of(f);
    struct mo_store_index index = {.abi = MO_KERNEL_ABI, .generator = MO_GENERATOR_VERSION - 1};
    toy_signature(0, index.signature);
    assert_int_equal(mo_writer_set(w, &index, NULL, 0, NULL), MOIRE_OK);
    mo_writer_close(w);
    struct mo_upkeep u = look(f);
    assert_int_equal(files(&u, MO_STORED_INDEX, MO_STORED_STALE), 1);
    assert_int_equal(files(&u, MO_STORED_CODE, MO_STORED_NEEDED), LAYERS - 1); /* its kernel with it */
    mo_upkeep_close(&u);
    assert_true(clean(f) >= 4);
    assert_int_equal(served(f), LAYERS - 1);
}

/* Flips a byte in the middle of the first needed file of a kind. */
static void damage(struct fixture *f, enum mo_stored_kind kind) {
    struct mo_upkeep u = look(f);
    for (int i = 0; i < u.n; i++) {
        if (u.item[i].kind != kind || u.item[i].state != MO_STORED_NEEDED) continue;
        char path[5000];
        snprintf(path, sizeof path, "%s/%.2s/%s%s", u.folder, u.item[i].name, u.item[i].name,
                 mo_stored_suffix(kind));
        assert_int_equal(chmod(path, 0644), 0);
        FILE *file = fopen(path, "r+b");
        assert_non_null(file);
        fseek(file, (long)u.item[i].bytes / 2, SEEK_SET);
        int byte = fgetc(file);
        fseek(file, (long)u.item[i].bytes / 2, SEEK_SET);
        fputc(byte ^ 1, file);
        fclose(file);
        break;
    }
    mo_upkeep_close(&u);
}

static bool go_on(void *ctx, int64_t done, int64_t total) {
    *(int *)ctx += 1;
    return done <= total;
}

static bool stop(void *ctx, int64_t done, int64_t total) {
    (void)ctx, (void)done, (void)total;
    return false;
}

static void damage_is_found_and_goes(void **state) {
    struct fixture *f = *state;
    enum mo_stored_kind kinds[] = {MO_STORED_CODE, MO_STORED_ENTRY};
    for (int k = 0; k < 2; k++) {
        int calls = 0;
        damage(f, kinds[k]);
        struct mo_upkeep u = look(f);
        assert_int_equal(mo_upkeep_check(&u, go_on, &calls, NULL), MOIRE_OK);
        assert_int_equal(files(&u, kinds[k], MO_STORED_DAMAGED), 1);
        assert_int_equal(calls, k ? 0 : LAYERS); /* of the last layer only the description is left */
        assert_int_equal(mo_upkeep_check(&u, stop, NULL, NULL),
                         files(&u, MO_STORED_CODE, MO_STORED_NEEDED) ? MOIRE_EINTERRUPTED : MOIRE_OK);
        mo_upkeep_close(&u);
        assert_true(clean(f) > 0);
        assert_int_equal(served(f), LAYERS - 1 - k);
    }
}

static void stamps_need_their_file_and_their_model(void **state) {
    struct fixture *f = *state;
    struct mo_writer *w = writer_of(f);
    struct mo_store_stamp stamp = {.abi = MO_KERNEL_ABI, .generator = MO_GENERATOR_VERSION};
    char name[MO_SHA256_HEX];
    mo_sha256_hex("model", 5, stamp.model);
    snprintf(stamp.path, sizeof stamp.path, "%s", f->folder); /* something that is there */
    mo_sha256_hex("a", 1, name);
    assert_int_equal(mo_writer_stamp(w, name, &stamp, NULL), MOIRE_OK);
    snprintf(stamp.path, sizeof stamp.path, "%s/gone.onnx", f->folder);
    mo_sha256_hex("b", 1, name);
    assert_int_equal(mo_writer_stamp(w, name, &stamp, NULL), MOIRE_OK);
    mo_writer_close(w);
    struct mo_upkeep u = look(f);
    assert_int_equal(files(&u, MO_STORED_STAMP, MO_STORED_DAMAGED), 1);  /* no such model */
    assert_int_equal(files(&u, MO_STORED_STAMP, MO_STORED_UNNEEDED), 1); /* no such ONNX file */
    mo_upkeep_close(&u);
    clean(f);
    u = look(f);
    for (int s = 0; s < MO_STORED_STATES; s++)
        assert_int_equal(files(&u, MO_STORED_STAMP, (enum mo_stored_state)s), 0);
    mo_upkeep_close(&u);
}

static void nothing_goes_while_somebody_compiles(void **state) {
    struct fixture *f = *state;
    struct mo_writer *w = writer_of(f);
    struct mo_upkeep after;
    moire_error err = {0};
    int went = -1;
    int64_t bytes = -1;
    assert_int_equal(mo_upkeep_clean(&f->env, f->folder, &after, &went, &bytes, &err), MOIRE_EBUSY);
    assert_non_null(strstr(err.message, "compilation is running"));
    assert_true(went == 0 && bytes == 0);
    mo_upkeep_close(&after);
    mo_writer_close(w);
    clean(f);
    assert_int_equal(served(f), LAYERS);
}

static void no_store_is_an_empty_one(void **state) {
    struct fixture *f = *state;
    struct mo_upkeep u;
    char path[128];
    snprintf(path, sizeof path, "%s/nowhere", f->folder);
    assert_int_equal(mo_upkeep_open(&f->env, path, NULL, &u, NULL), MOIRE_OK);
    assert_int_equal(u.n, 0);
    mo_upkeep_close(&u);
    chmod(f->folder, 0777);
    assert_int_equal(mo_upkeep_open(&f->env, f->folder, NULL, &u, NULL), MOIRE_ESTORE);
    chmod(f->folder, 0755);
}

static int open_and_check(void *ctx) {
    struct fixture *f = ctx;
    struct mo_upkeep u;
    int rc = mo_upkeep_open(&f->env, f->folder, NULL, &u, NULL);
    if (!rc) rc = mo_upkeep_check(&u, NULL, NULL, NULL);
    mo_upkeep_close(&u);
    return rc;
}

static void failing_allocations(void **state) {
    struct fixture *f = *state;
    struct fault_sys fault;
    fault_sys_init(&fault);
    f->env.sys = &fault.table;
    assert_true(fault_sys_sweep(&fault, open_and_check, f, MOIRE_ESTORE) > 4);
    assert_int_equal(fault.opened, fault.closed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(beaten_candidates_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_versions_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage_is_found_and_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stamps_need_their_file_and_their_model, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_goes_while_somebody_compiles, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_store_is_an_empty_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failing_allocations, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
