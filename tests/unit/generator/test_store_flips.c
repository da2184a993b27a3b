/* SPDX-License-Identifier: Apache-2.0
 * test_store_flips.c - every byte of every file of a small store, altered one at a time: `moire store check`
 * must see it.
 *
 * Not seen, because nothing can come of it: the sources of kernels (.c), which are kept for people and never
 * read; the writer's lock; and files to which nothing leads, whose own checksums are compared when they are
 * used again. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "codegen/search/upkeep.h"
#include "codegen/search/writer.h"
#include "tests/unit/codegen/onnx_build.h"
#include "tests/unit/generator/toy_family.h"
#include "tools/moire/compile/publish.h"

static struct mo_env env;
static char folder[64];

/* A product whose weights the plan packs, so that the compiled model holds data of both kinds. */
static int save_model(const char *path) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "1,5");
    ob_random(b, "w", "5,3");
    ob_random(b, "c", "1,3");
    ob_node(b, "MatMul", "x w", "p");
    ob_node(b, "Add", "p c", "y");
    ob_output(b, "y");
    size_t n;
    const uint8_t *bytes = ob_pack(b, &n);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    int bad = fd < 0 || write(fd, bytes, n) != (ssize_t)n || close(fd);
    ob_destroy(b);
    return bad;
}

/* What `moire tune` keeps of the layer, with its one version. */
static int save_front(void) {
    struct mo_store *store;
    struct mo_store_index index = {0};
    struct mo_store_front *f = calloc(1, sizeof *f);
    struct mo_writer *w = NULL;
    toy_signature(0, f->signature);
    int bad = mo_store_open(&env, folder, &store, NULL);
    if (!bad) bad = !mo_store_peek(store, f->signature, MO_ISA_BASE, &index);
    mo_store_close(store);
    f->abi = index.abi, f->generator = index.generator, f->cores = 1, f->n = 1;
    memcpy(f->point[0].key, index.best, sizeof index.best);
    memcpy(f->point[0].family, index.family, sizeof index.family);
    f->point[0].state = MO_POINT_VERSION;
    for (int i = 0; i < MO_STORE_LEVELS; i++)
        f->point[0].ns[i] = 1;
    if (!bad) bad = mo_writer_open(&env, folder, &w, NULL);
    if (!bad) bad = mo_writer_front(w, f, NULL);
    mo_writer_close(w);
    free(f);
    return bad;
}

static int set_up(void **state) {
    (void)state;
    char model[96];
    moire_error err = {0};
    struct mo_published done;
    struct mo_upkeep after;
    int files, rc;
    int64_t bytes;
    env = mo_env_default();
    toy_folder(folder);
    snprintf(model, sizeof model, "%s/m.onnx", folder);
    struct mo_compiled_request request = {.path = model, .isa = mo_isa_detect()};
    rc = toy_search(&env, folder, 1, "m", toy_families, NULL, &err) || save_front() || save_model(model);
    if (!rc) rc = mo_publish(&env, folder, &request, NULL, &done, &err);
    if (!rc) rc = mo_upkeep_clean(&env, folder, &after, &files, &bytes, &err);
    if (!rc) mo_upkeep_close(&after);
    if (rc) print_message("%s\n", err.message);
    return rc;
}

static int tear_down(void **state) {
    (void)state;
    toy_remove(folder);
    return 0;
}

/* Whether the check of the whole store finds nothing wrong. */
static bool passes(void) {
    struct mo_upkeep u;
    assert_int_equal(mo_upkeep_open(&env, folder, NULL, &u, NULL), MOIRE_OK);
    bool whole = !mo_upkeep_check(&u, NULL, NULL, NULL);
    for (int i = 0; i < u.n; i++)
        whole = whole && u.item[i].state == MO_STORED_NEEDED;
    mo_upkeep_close(&u);
    return whole;
}

/* Alters byte after byte; how many are not seen, the first of them told. */
static int unseen(const char *path, int64_t bytes) {
    int n = 0;
    assert_int_equal(chmod(path, 0644), 0);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    for (int64_t at = 0; at < bytes; at++) {
        unsigned char byte, other;
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        other = (unsigned char)(byte ^ 1u << at % 8); /* one bit: of letters, also the one of their case */
        assert_int_equal(pwrite(fd, &other, 1, at), 1);
        if (passes() && !n++) print_message("%s: byte %lld is not seen\n", path, (long long)at);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    close(fd);
    assert_int_equal(chmod(path, 0444), 0);
    return n;
}

static void every_altered_byte_is_seen(void **state) {
    (void)state;
    struct mo_upkeep u;
    int of_kind[MO_STORED_KINDS] = {0};
    assert_true(passes());
    assert_int_equal(mo_upkeep_open(&env, folder, NULL, &u, NULL), MOIRE_OK);
    for (int i = 0; i < u.n; i++) {
        const struct mo_stored *item = &u.item[i];
        char path[5000];
        snprintf(path, sizeof path, "%s/%.2s/%s%s", u.folder, item->name, item->name,
                 mo_stored_suffix(item->kind));
        of_kind[item->kind]++;
        if (item->kind != MO_STORED_SOURCE) assert_int_equal(unseen(path, item->bytes), 0);
        print_message("%s: %lld bytes\n", mo_stored_kind_name(item->kind), (long long)item->bytes);
    }
    for (int kind = 0; kind < MO_STORED_KINDS; kind++)
        assert_true(of_kind[kind] > 0);
    mo_upkeep_close(&u);
    assert_true(passes());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_altered_byte_is_seen, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
