/* SPDX-License-Identifier: Apache-2.0
 * test_compile.c - the search: what is stored, what is rejected, and that whatever goes wrong (no compiler,
 * a lying one, a full disk, Ctrl-C, kill -9 anywhere, failing allocations) the store stays valid. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "codegen/search/search_impl.h"
#include "tests/unit/base/fault_sys.h"
#include "tests/unit/generator/toy_family.h"
#include "variants/store.h"

/* Layers 0..n-1 of the toy model that the store serves; nothing in it may be damaged. */
static int served(const char *folder, int n) {
    struct mo_env env = mo_env_default();
    struct mo_store *store;
    struct mo_variant v;
    char signature[256];
    int found = 0;
    assert_int_equal(mo_store_open(&env, folder, &store, NULL), MOIRE_OK);
    for (int i = 0; i < n; i++) {
        toy_signature(i, signature);
        found += mo_store_find(store, signature, MO_ISA_BASE, &v);
    }
    assert_int_equal(mo_store_stats(store).damaged, 0);
    assert_int_equal(mo_store_stats(store).stale, 0);
    mo_store_close(store);
    return found;
}

static void best_variant_is_stored_and_found(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    char folder[64];
    moire_error err = {0};
    toy_folder(folder);
    assert_int_equal(served(folder, 2), 0);
    assert_int_equal(toy_search(&env, folder, 2, "m", toy_families, NULL, &err), MOIRE_OK);
    assert_int_equal(served(folder, 2), 2);
    toy_remove(folder);
}

/* Search of one layer that hands the result back. */
static int search_one(const struct mo_env *env, const char *folder,
                      const struct mo_emit_family *const *families, struct mo_layer_result *out,
                      moire_error *err) {
    struct mo_search_options options = {.store = folder,
                                        .isa = MO_ISA_BASE,
                                        .jobs = 2,
                                        .families = families,
                                        .problem = toy_problem,
                                        .probation_s = 2};
    struct mo_search *search;
    struct mo_graph *g = toy_graph(env, 1, "m");
    assert_int_equal(mo_search_create(env, &options, &search, err), MOIRE_OK);
    assert_int_equal(mo_search_add(search, g, err), MOIRE_OK);
    assert_int_equal(mo_search_add(search, g, err), MOIRE_OK); /* the same model again: shared */
    mo_graph_destroy(g);
    int rc = mo_search_run(search, err);
    assert_int_equal(mo_search_count(search), 1);
    *out = *mo_search_result(search, 0);
    mo_search_destroy(search);
    return rc;
}

/* Wrong results, writes out of bounds, no C, constructors, foreign imports, another ABI: none is stored. */
static void bad_candidates_are_rejected(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    char folder[64];
    moire_error err = {0};
    struct mo_layer_result r;
    toy_folder(folder);
    assert_int_equal(search_one(&env, folder, toy_bad_families, &r, &err), MOIRE_OK);
    assert_int_equal(r.rejected, 6);
    assert_int_equal(r.tried, 7);
    assert_int_equal(r.uses, 2);
    assert_int_equal(r.state, MO_LAYER_COMPILED);
    assert_string_equal(r.knobs, "mode=0");
    assert_true(r.trouble[0] != 0);
    assert_int_equal(served(folder, 1), 1);
    toy_remove(folder);
}

/* A crash or an endless loop ends its trial, not the search. */
static void deadly_candidates_are_survived(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    char folder[64];
    moire_error err = {0};
    struct mo_layer_result r;
    toy_folder(folder);
    assert_int_equal(search_one(&env, folder, toy_deadly_families, &r, &err), MOIRE_OK);
    assert_int_equal(r.rejected, 3);
    assert_int_equal(r.tried, 4);
    assert_int_equal(r.state, MO_LAYER_COMPILED);
    assert_string_equal(r.knobs, "mode=0");
    assert_non_null(strstr(r.trouble, "signal 11"));
    assert_int_equal(served(folder, 1), 1);
    toy_remove(folder);
}

/* The second run finds everything: it needs no compiler and writes nothing. */
static void second_run_reuses(void **state) {
    (void)state;
    struct fault_sys fault;
    struct mo_env env = mo_env_default();
    char folder[64];
    moire_error err = {0};
    struct mo_layer_result r;
    toy_folder(folder);
    assert_int_equal(search_one(&env, folder, toy_families, &r, &err), MOIRE_OK);
    fault_sys_init(&fault);
    fault.no_spawn = fault.read_only = 1;
    env.sys = &fault.table;
    assert_int_equal(search_one(&env, folder, toy_families, &r, &err), MOIRE_OK);
    assert_int_equal(r.state, MO_LAYER_REUSED);
    assert_true(r.min_ns > 0);
    assert_int_equal(fault_sys_live(&fault), 0);
    assert_int_equal(fault.opened, fault.closed);
    toy_remove(folder);
}

/* --- names of a model do not reach emitted C --- */

static char compare_root[64], other_root[64]; /* nftw has no context argument */
static int compared;

static int compare_source(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)at;
    const char *dot = strrchr(path, '.');
    if (type != FTW_F || !dot || strcmp(dot, ".c")) return 0;
    char other[4096], *a = malloc((size_t)st->st_size), *b = malloc((size_t)st->st_size + 1);
    snprintf(other, sizeof other, "%s%s", other_root, path + strlen(compare_root));
    FILE *f = fopen(path, "r"), *g = fopen(other, "r");
    assert_true(f && g);
    assert_int_equal(fread(a, 1, (size_t)st->st_size, f), st->st_size);
    assert_int_equal(fread(b, 1, (size_t)st->st_size + 1, g), st->st_size);
    assert_memory_equal(a, b, (size_t)st->st_size);
    fclose(f);
    fclose(g);
    free(a);
    free(b);
    compared++;
    return 0;
}

static void names_do_not_reach_emitted_code(void **state) {
    (void)state;
    static const char *const names[] = {"\"*/ int main(){}\n#include \"/etc/passwd\"", "%s%n$(id)`id`\\",
                                        "'; --", ""};
    struct mo_env env = mo_env_default();
    moire_error err = {0};
    toy_folder(compare_root);
    assert_int_equal(toy_search(&env, compare_root, 1, "plain", toy_families, NULL, &err), MOIRE_OK);
    for (int i = 0; i < 4; i++) {
        toy_folder(other_root);
        /* one candidate wins by a hair: compare what both stores keep under the same key */
        for (int tries = 0; tries < 8; tries++) {
            char a[4096], b[4096];
            assert_int_equal(toy_search(&env, other_root, 1, names[i], toy_families, NULL, &err), MOIRE_OK);
            struct mo_layer_result r, q;
            search_one(&env, compare_root, toy_families, &r, &err);
            search_one(&env, other_root, toy_families, &q, &err);
            snprintf(a, sizeof a, "%s", r.knobs);
            snprintf(b, sizeof b, "%s", q.knobs);
            if (!strcmp(a, b)) break;
            toy_remove(other_root);
            mkdir(other_root, 0700);
        }
        compared = 0;
        nftw(compare_root, compare_source, 16, FTW_PHYS);
        assert_int_equal(compared, 1);
        toy_remove(other_root);
    }
    toy_remove(compare_root);
}

/* --- compilers --- */

static void write_script(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\ncase \"$1\" in --version) echo fake 1.0; exit 0;; esac\n%s\n", text);
    fclose(f);
    chmod(path, 0700);
}

static void useless_compilers_are_reported(void **state) {
    (void)state;
    static const char *const scripts[] = {
        "exit 0", "echo 'internal error' >&2; exit 4", "kill -9 $$",
        "while [ $# -gt 1 ]; do [ \"$1\" = -o ] && echo junk > \"$2\"; shift; done"};
    struct mo_env env = mo_env_default();
    char folder[64], script[96];
    moire_error err = {0};
    toy_folder(folder);
    assert_int_equal(toy_search(&env, folder, 1, "m", toy_families, "/no/such/cc", &err), MOIRE_ECOMPILER);
    assert_non_null(strstr(err.message, "install gcc or clang"));
    assert_int_equal(toy_search(&env, folder, 1, "m", toy_families, "false", &err), MOIRE_ECOMPILER);
    snprintf(script, sizeof script, "%s/cc", folder);
    for (int i = 0; i < 4; i++) {
        write_script(script, scripts[i]);
        int rc = toy_search(&env, folder, 1, "m", toy_families, script, &err);
        assert_int_equal(rc, i < 3 ? MOIRE_ECOMPILER : MOIRE_OK); /* junk objects: rejected one by one */
        assert_int_equal(served(folder, 1), 0);
    }
    toy_remove(folder);
}

/* Another compiler is another key; the newer index wins. */
static void clang_works_too(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    char folder[64];
    moire_error err = {0};
    if (system("clang --version >/dev/null 2>&1")) skip();
    toy_folder(folder);
    assert_int_equal(toy_search(&env, folder, 1, "m", toy_families, "clang", &err), MOIRE_OK);
    assert_int_equal(served(folder, 1), 1);
    toy_remove(folder);
}

/* --- disks --- */

static void full_disk_leaves_a_valid_store(void **state) {
    (void)state;
    struct fault_sys fault;
    struct mo_env env = mo_env_default();
    char folder[64];
    moire_error err = {0};
    int failures = 0;
    toy_folder(folder);
    for (long bytes = 0; bytes < 40000; bytes = bytes * 3 / 2 + 500) {
        fault_sys_init(&fault);
        fault.disk_bytes = bytes;
        env.sys = &fault.table;
        int rc = toy_search(&env, folder, 1, "m", toy_families, NULL, &err);
        if (rc) {
            failures++;
            assert_int_equal(rc, MOIRE_ESTORE);
            assert_non_null(strstr(err.message, "No space left"));
        }
        assert_int_equal(fault_sys_live(&fault), 0);
        assert_int_equal(fault.opened, fault.closed);
        served(folder, 1);
    }
    assert_true(failures >= 3);
    env.sys = mo_sys_posix();
    assert_int_equal(toy_search(&env, folder, 1, "m", toy_families, NULL, &err), MOIRE_OK);
    assert_int_equal(served(folder, 1), 1);
    toy_remove(folder);
}

static void read_only_disk_is_reported(void **state) {
    (void)state;
    struct fault_sys fault;
    struct mo_env env = mo_env_default();
    char folder[64];
    moire_error err = {0};
    toy_folder(folder);
    fault_sys_init(&fault);
    fault.read_only = 1;
    env.sys = &fault.table;
    assert_int_equal(toy_search(&env, folder, 1, "m", toy_families, NULL, &err), MOIRE_ESTORE);
    assert_non_null(strstr(err.message, "--store"));
    assert_int_equal(fault_sys_live(&fault), 0);
    toy_remove(folder);
}

/* --- kills and company --- */

/* Runs a search of n layers in a child; returns its pid. */
static pid_t search_in_child(const char *folder, int n, long die_at) {
    pid_t pid = fork();
    if (pid) return pid;
    struct fault_sys fault;
    struct mo_env env = mo_env_default();
    moire_error err;
    fault_sys_init(&fault);
    fault.die_at = die_at;
    env.sys = &fault.table;
    _exit(toy_search(&env, folder, n, "m", toy_families, NULL, &err) ? 1 : 0);
}

static bool was_killed(pid_t pid) {
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status);
}

/* The process dies in its k-th file operation, for k spread over a whole run. */
static void killed_anywhere_leaves_a_valid_store(void **state) {
    (void)state;
    char folder[64];
    int kills = 0;
    for (long k = 5; k < 200; k += k < 40 ? 7 : 6) {
        toy_folder(folder);
        bool killed = was_killed(search_in_child(folder, 1, k));
        kills += killed;
        served(folder, 1);
        if (kills % 4 == 1 || !killed) { /* and the next run finishes the work */
            assert_false(was_killed(search_in_child(folder, 1, 0)));
            assert_int_equal(served(folder, 1), 1);
        }
        toy_remove(folder);
        if (!killed) break;
    }
    assert_true(kills >= 8);
}

static void killed_any_time_leaves_a_valid_store(void **state) {
    (void)state;
    char folder[64];
    toy_folder(folder);
    for (int i = 0; i < 8; i++) {
        pid_t pid = search_in_child(folder, 3, 0);
        struct timespec wait = {.tv_nsec = 10000000L + 37000000L * i};
        nanosleep(&wait, NULL);
        kill(pid, SIGKILL);
        was_killed(pid);
        served(folder, 3);
    }
    assert_false(was_killed(search_in_child(folder, 3, 0)));
    assert_int_equal(served(folder, 3), 3);
    toy_remove(folder);
}

static void two_writers_share_a_store(void **state) {
    (void)state;
    char folder[64];
    pid_t pid[3];
    toy_folder(folder);
    for (int i = 0; i < 3; i++)
        pid[i] = search_in_child(folder, 2, 0);
    for (int i = 0; i < 3; i++)
        assert_false(was_killed(pid[i]));
    assert_int_equal(served(folder, 2), 2);
    toy_remove(folder);
}

/* A killed run's leavings are gone after the next one. */
static void work_folders_are_cleared(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    char folder[64], junk[4200];
    struct mo_writer *w;
    toy_folder(folder);
    assert_int_equal(mo_writer_open(&env, folder, &w, NULL), MOIRE_OK);
    snprintf(junk, sizeof junk, "%s/c7.so", mo_writer_work(w));
    mo_writer_close(w);
    FILE *f = fopen(junk, "w");
    fclose(f);
    assert_int_equal(mo_writer_open(&env, folder, &w, NULL), MOIRE_OK);
    assert_int_equal(access(junk, F_OK), -1);
    struct mo_writer *second; /* a living writer's folder is left alone */
    assert_int_equal(mo_writer_open(&env, folder, &second, NULL), MOIRE_OK);
    assert_string_not_equal(mo_writer_work(w), mo_writer_work(second));
    mo_writer_close(second);
    mo_writer_close(w);
    toy_remove(folder);
}

/* --- Ctrl-C --- */

static void stop_after_first(void *ctx, const struct mo_search_progress *progress) {
    (void)progress;
    atomic_store((_Atomic int *)ctx, 1);
}

static void interrupt_keeps_what_is_done(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    char folder[64];
    moire_error err = {0};
    _Atomic int stop = 0;
    toy_folder(folder);
    struct mo_search_options options = {.store = folder,
                                        .isa = MO_ISA_BASE,
                                        .families = toy_families,
                                        .problem = toy_problem,
                                        .interrupted = &stop,
                                        .progress = stop_after_first,
                                        .ctx = (void *)&stop};
    struct mo_search *search;
    struct mo_graph *g = toy_graph(&env, 3, "m");
    assert_int_equal(mo_search_create(&env, &options, &search, &err), MOIRE_OK);
    assert_int_equal(mo_search_add(search, g, &err), MOIRE_OK);
    mo_graph_destroy(g);
    assert_int_equal(mo_search_run(search, &err), MOIRE_EINTERRUPTED);
    mo_search_destroy(search);
    assert_int_equal(served(folder, 3), 1);
    toy_remove(folder);
}

/* --- allocations --- */

/* A compiler without a process and a clock that runs, so that a sweep of hundreds of searches is quick. */
struct sweep {
    struct fault_sys fault; /* first: it is the self of the table */
    struct mo_env env;
    char folder[64];
    const char *object;
    _Atomic int64_t clock;
};

static int64_t quick_now(void *self) {
    struct sweep *s = self;
    return atomic_fetch_add(&s->clock, 2000000);
}

static int copy_object(struct sweep *s, const char *to) {
    char bytes[4096];
    int from = open(s->object, O_RDONLY), fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ssize_t n = 0;
    while (from >= 0 && fd >= 0 && (n = read(from, bytes, sizeof bytes)) > 0)
        if (write(fd, bytes, (size_t)n) != n) break;
    close(from);
    close(fd);
    return n != 0;
}

static int fake_spawn(void *self, const char *const *argv, const char *log, int64_t limit) {
    (void)limit;
    for (int i = 0; argv[i]; i++)
        if (!strcmp(argv[i], "-o")) return copy_object(self, argv[i + 1]);
    FILE *f = fopen(log, "w");
    fprintf(f, "fake\n");
    fclose(f);
    return 0;
}

static int sweep_body(void *ctx) {
    struct sweep *s = ctx;
    moire_error err;
    toy_folder(s->folder);
    int rc = toy_search(&s->env, s->folder, 1, "m", toy_families, NULL, &err);
    struct mo_store *store = NULL;
    if (!rc) rc = mo_store_open(&s->env, s->folder, &store, &err);
    mo_store_close(store);
    served(s->folder, 1);
    toy_remove(s->folder);
    return rc;
}

static char found_object[4096];

static int find_object(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st, (void)at;
    const char *dot = strrchr(path, '.');
    if (type != FTW_F || !dot || strcmp(dot, ".so")) return 0;
    snprintf(found_object, sizeof found_object, "%s", path);
    return 1;
}

static void failing_allocations(void **state) {
    (void)state;
    struct sweep *s = calloc(1, sizeof *s);
    struct mo_env plain = mo_env_default();
    moire_error err;
    char origin[64];
    toy_folder(s->folder);
    assert_int_equal(toy_search(&plain, s->folder, 1, "m", toy_families, NULL, &err), MOIRE_OK);
    snprintf(origin, sizeof origin, "%s", s->folder);
    assert_int_equal(nftw(origin, find_object, 16, FTW_PHYS), 1);
    s->object = found_object;
    fault_sys_init(&s->fault);
    s->fault.table.now = s->fault.table.thread_time = quick_now;
    s->fault.table.spawn = fake_spawn;
    s->env = mo_env_default();
    s->env.sys = &s->fault.table;
    assert_int_equal(sweep_body(s), MOIRE_OK);
    assert_true(fault_sys_sweep(&s->fault, sweep_body, s, MOIRE_OK) > 20);
    toy_remove(origin);
    free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_variant_is_stored_and_found),
        cmocka_unit_test(bad_candidates_are_rejected),
        cmocka_unit_test(deadly_candidates_are_survived),
        cmocka_unit_test(second_run_reuses),
        cmocka_unit_test(names_do_not_reach_emitted_code),
        cmocka_unit_test(useless_compilers_are_reported),
        cmocka_unit_test(clang_works_too),
        cmocka_unit_test(full_disk_leaves_a_valid_store),
        cmocka_unit_test(read_only_disk_is_reported),
        cmocka_unit_test(killed_anywhere_leaves_a_valid_store),
        cmocka_unit_test(killed_any_time_leaves_a_valid_store),
        cmocka_unit_test(two_writers_share_a_store),
        cmocka_unit_test(work_folders_are_cleared),
        cmocka_unit_test(interrupt_keeps_what_is_done),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
