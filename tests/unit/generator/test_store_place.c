/* SPDX-License-Identifier: Apache-2.0
 * test_store_place.c - from where the code of a compiled kernel is loaded: the published file, where
 * profilers find its symbols, or a sealed copy; and that it can be called whatever becomes of the file. */
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
#include "codegen/search/writer.h"
#include "tests/unit/base/fault_sys.h"
#include "tests/unit/generator/toy_family.h"
#include "variants/cpu.h"
#include "variants/store.h"

enum { MAX_FILE = 1 << 18 };

/* A store with one layer. */
struct place {
    struct mo_env env;
    char folder[64], signature[256], object[512];
};

static int set_up(void **state) {
    struct place *f = calloc(1, sizeof *f);
    char cpu[MO_CPU_FOLDER], layer[MO_SHA256_HEX], path[512], bytes[4096];
    struct mo_store_index index;
    moire_error err = {0};
    f->env = mo_env_default();
    toy_folder(f->folder);
    toy_signature(0, f->signature);
    if (toy_search(&f->env, f->folder, 1, "m", toy_families, NULL, &err)) return -1;
    mo_cpu_folder(cpu);
    mo_store_layer(f->signature, MO_ISA_BASE, layer);
    snprintf(path, sizeof path, "%s/v1/%s/%.2s/%s.best.json", f->folder, cpu, layer, layer);
    FILE *in = fopen(path, "r");
    const size_t n = in ? fread(bytes, 1, sizeof bytes, in) : 0;
    if (in) fclose(in);
    if (mo_store_parse_index(bytes, n, &index, &err)) return -1;
    snprintf(f->object, sizeof f->object, "%s/v1/%s/%.2s/%s.so", f->folder, cpu, index.best, index.best);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    struct place *f = *state;
    toy_remove(f->folder);
    free(f);
    return 0;
}

static struct mo_store *find(struct place *f, struct mo_variant *v) {
    struct mo_store *store;
    assert_int_equal(mo_store_open(&f->env, f->folder, &store, NULL), MOIRE_OK);
    assert_true(mo_store_find(store, f->signature, MO_ISA_BASE, v));
    return store;
}

static void runs(const struct mo_variant *v) {
    float x[4 * 36] = {1}, w[5 * 36] = {0}, bias[5] = {7, 8}, y[5 * 36];
    struct mo_kargs args = {.in = {x, w, bias}, .out = {y}};
    v->run(&args, 0, v->units, NULL);
    assert_true(y[0] == 7 && y[36] == 8);
}

/* Whether some mapping of this process is of that file. */
static bool is_mapped(const char *path) {
    char line[4400];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps))
        found |= strstr(line, path) != NULL;
    fclose(maps);
    return found;
}

static void published_code_lies_in_its_file(void **state) {
    struct place *f = *state;
    struct mo_variant v;
    struct mo_store *store = find(f, &v);
    assert_true(is_mapped(f->object));
    unlink(f->object); /* as `moire store` does */
    runs(&v);
    mo_store_close(store);
    assert_false(is_mapped(f->object));
}

/* Whoever may write to a file may truncate it: the code is not in it. */
static void code_that_may_be_written_to_is_copied(void **state) {
    struct place *f = *state;
    struct mo_variant v;
    chmod(f->object, 0644);
    struct mo_store *store = find(f, &v);
    assert_false(is_mapped(f->object));
    assert_int_equal(truncate(f->object, 0), 0);
    runs(&v);
    mo_store_close(store);
}

static void a_relative_path_serves_from_its_folder_only(void **state) {
    struct place *f = *state;
    struct mo_store *store;
    struct mo_variant v;
    char *slash = strrchr(f->folder, '/');
    assert_int_equal(chdir("/tmp"), 0);
    assert_int_equal(mo_store_open(&f->env, slash + 1, &store, NULL), MOIRE_OK);
    assert_int_equal(chdir("/"), 0); /* the folder is open, its relative path leads nowhere any more */
    assert_true(mo_store_find(store, f->signature, MO_ISA_BASE, &v));
    assert_false(is_mapped(f->object));
    runs(&v);
    mo_store_close(store);
}

/* The entry was deleted and made again while its code is in use: each store has its own file's. */
static void a_file_made_again_is_loaded_again(void **state) {
    struct place *f = *state;
    struct mo_store *store[2];
    struct mo_variant v[2];
    char *bytes = malloc(MAX_FILE);
    FILE *in = fopen(f->object, "r");
    const size_t n = fread(bytes, 1, MAX_FILE, in);
    fclose(in);
    store[0] = find(f, &v[0]);
    unlink(f->object);
    const int fd = open(f->object, O_WRONLY | O_CREAT | O_EXCL, 0444);
    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
    store[1] = find(f, &v[1]);
    mo_store_close(store[0]);
    runs(&v[1]);
    mo_store_close(store[1]);
    free(bytes);
}

/* The file changes between the check of its bytes and their mapping: what is run are the bytes checked. */
struct swap {
    struct mo_sys table; /* first: its self points to this struct */
    const struct mo_sys *real;
    const char *object;
    int opened;
};

static void *swapped_dl_open(void *self, const char *path, char *reason, size_t n) {
    struct swap *s = self;
    if (!s->opened++) { /* appended to: an ELF file all the same */
        chmod(s->object, 0644);
        FILE *out = fopen(s->object, "a");
        fputc(0, out);
        fclose(out);
        chmod(s->object, 0444);
    }
    return s->real->dl_open(s->real->self, path, reason, n);
}

static void a_file_that_changes_is_not_run(void **state) {
    struct place *f = *state;
    struct swap s = {.table = *mo_sys_posix(), .real = mo_sys_posix(), .object = f->object};
    struct mo_variant v;
    assert_null(s.real->self); /* so the other calls do not mind ours */
    s.table.self = &s;
    s.table.dl_open = swapped_dl_open;
    f->env.sys = &s.table;
    struct mo_store *store = find(f, &v);
    assert_int_equal(s.opened, 2); /* the file, then the copy */
    assert_false(is_mapped(f->object));
    runs(&v);
    mo_store_close(store);
    f->env.sys = mo_sys_posix();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(published_code_lies_in_its_file),
        TEST(code_that_may_be_written_to_is_copied),
        TEST(a_relative_path_serves_from_its_folder_only),
        TEST(a_file_made_again_is_loaded_again),
        TEST(a_file_that_changes_is_not_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
