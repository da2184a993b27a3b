/* SPDX-License-Identifier: Apache-2.0
 * test_finish.c - the end of a compilation whose budget ends: verification and publishing are given up,
 * nobody is blamed for it, and the store is left in order. */
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
#include <unistd.h>
#include "codegen/search/writer.h"
#include "models/zoo.h"
#include "tests/unit/base/fault_sys.h"
#include "tests/unit/generator/toy_family.h"
#include "tools/moire/compile/compile_finish.h"
#include "tools/moire/verb.h"

struct bed {
    struct fault_sys fault; /* first: it is the self of the table */
    struct mo_env env;
    char folder[64], file[96], junk[4200];
    const char *files[1];
    struct mo_compile_options compile;
    struct mo_search *search;
    int forks, slow_fork; /* the fork of that number, from 1, takes too long */
};

/* Too long, and killed: what it was writing stays behind. */
static int slow_fork(void *self, void (*fn)(void *ctx, void *shared), void *ctx, void *shared,
                     int64_t limit) {
    struct bed *b = self;
    if (++b->forks != b->slow_fork) return b->fault.real->fork(b->fault.real->self, fn, ctx, shared, limit);
    fclose(fopen(b->junk, "w"));
    return -ETIMEDOUT;
}

/* A small network, compiled. */
static int set_up(void **state) {
    struct bed *b = calloc(1, sizeof *b);
    struct mo_writer *w;
    moire_error err = {0};
    fault_sys_init(&b->fault);
    b->fault.table.fork = slow_fork;
    b->env = mo_env_default();
    b->env.sys = &b->fault.table;
    toy_folder(b->folder);
    snprintf(b->file, sizeof b->file, "%s/lenet.onnx", b->folder);
    b->files[0] = b->file;
    if (mo_zoo_build(&b->env, mo_zoo_find("lenet"), MO_ZOO_SEED, b->file, NULL, &err)) return -1;
    b->compile = (struct mo_compile_options){
        .files = b->files,
        .n_files = 1,
        .search = {.store = b->folder, .isa = mo_isa_detect(), .jobs = 2, .points = 1}};
    if (mo_compile_models(&b->env, &b->compile, &b->search, &err)) return -1;
    if (mo_writer_open(&b->env, b->folder, &w, &err)) return -1;
    snprintf(b->junk, sizeof b->junk, "%s/stream", mo_writer_work(w));
    mo_writer_close(w);
    b->forks = 0;
    *state = b;
    return 0;
}

static int tear_down(void **state) {
    struct bed *b = *state;
    mo_search_destroy(b->search);
    assert_int_equal(fault_sys_live(&b->fault), 0);
    assert_int_equal(b->fault.opened, b->fault.closed);
    toy_remove(b->folder);
    free(b);
    return 0;
}

static int finish(struct bed *b, int64_t ends, struct mo_finished *m) {
    _Atomic int interrupted = 0;
    struct mo_finish f = {.env = &b->env,
                          .verb = "compile",
                          .store = b->folder,
                          .compile = &b->compile,
                          .search = b->search,
                          .interrupted = &interrupted,
                          .ends = ends,
                          .model = m,
                          .withdrawn = json_array()};
    int code = mo_compile_finish(&f);
    assert_int_equal(f.n, 1);
    assert_int_equal(json_array_size(f.withdrawn), 0);
    json_decref(f.withdrawn);
    return code;
}

static int64_t in_an_hour(const struct bed *b) {
    return mo_now(&b->env) + INT64_C(3600000000000);
}

static void in_time_it_is_published(void **state) {
    struct bed *b = *state;
    struct mo_finished m;
    assert_int_equal(finish(b, in_an_hour(b), &m), MO_EXIT_OK);
    assert_true(m.verified && m.published && !m.cut);
    assert_true(m.bytes > 0);
}

static void after_the_end_nothing_is_begun(void **state) {
    struct bed *b = *state;
    struct mo_finished m;
    assert_int_equal(finish(b, 1, &m), MO_EXIT_OK);
    assert_true(m.cut && !m.verified && !m.published);
    assert_int_equal(b->forks, 0);
}

/* That a verification did not end in time says nothing of the kernel that it was at. */
static void a_slow_verification_is_given_up(void **state) {
    struct bed *b = *state;
    struct mo_finished m;
    b->slow_fork = 1;
    assert_int_equal(finish(b, in_an_hour(b), &m), MO_EXIT_OK);
    assert_true(m.cut && !m.verified && !m.published);
    assert_int_equal(m.found.withdrawn, 0);
    assert_int_equal(mo_compile_totals(b->search).failed, 0);
}

static void a_slow_publication_is_given_up(void **state) {
    struct bed *b = *state;
    struct mo_finished m;
    b->slow_fork = 2;
    assert_int_equal(finish(b, in_an_hour(b), &m), MO_EXIT_OK);
    assert_true(m.cut && m.verified && !m.published);
    assert_int_equal(access(b->junk, F_OK), -1); /* cleared */
    b->slow_fork = 0;
    assert_int_equal(finish(b, in_an_hour(b), &m), MO_EXIT_OK);
    assert_true(m.published);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(in_time_it_is_published, set_up, tear_down),
        cmocka_unit_test_setup_teardown(after_the_end_nothing_is_begun, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_slow_verification_is_given_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_slow_publication_is_given_up, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
