/* SPDX-License-Identifier: Apache-2.0
 * test_programs.c - the folder of compiled GPU programs as `moire store` sees it: listed, checked, cleaned;
 * what is not ours stays. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runtime/gpu/cuda/cache_format.h"
#include "tests/unit/base/fault_sys.h"
#include "tools/moire/programs.h"

enum { CONTENTS = 200 };
static char folder[64];

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static void put(const char *path, const void *bytes, size_t n) {
    char full[300];
    snprintf(full, sizeof full, "%s/%s", folder, path);
    for (char *at = full + strlen(folder) + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = 0;
        mkdir(full, 0755);
    }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

/* A program as the plugin keeps it, whose name is 64 times the digit; its contents differ in `damage` bytes.
 */
static void put_program(int version, char digit, const char *suffix, int damage) {
    char bytes[sizeof(struct mo_cuda_cache_head) + CONTENTS], path[200], name[MO_SHA256_HEX] = "";
    struct mo_cuda_cache_head head = {.magic = {0}, .bytes = CONTENTS};
    memset(name, digit, sizeof name - 1);
    memset(bytes, digit, sizeof bytes);
    memcpy(head.magic, MO_CUDA_CACHE_MAGIC, sizeof head.magic);
    memcpy(head.name, name, sizeof head.name);
    mo_cuda_cache_digest(bytes + sizeof head, CONTENTS, head.digest);
    memcpy(bytes, &head, sizeof head);
    for (int i = 0; i < damage; i++)
        bytes[sizeof bytes - 1 - (size_t)i] ^= 1;
    snprintf(path, sizeof path, "v%d/%.2s/%s%s", version, name, name, suffix);
    put(path, bytes, sizeof bytes);
}

static int set_up(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/moire-programs-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    put_program(MO_CUDA_CACHE_FORMAT, 'a', MO_CUDA_CACHE_CODE, 0);
    put_program(MO_CUDA_CACHE_FORMAT, 'b', MO_CUDA_CACHE_CHOICE, 0);
    put_program(MO_CUDA_CACHE_FORMAT, 'c', MO_CUDA_CACHE_CODE, 1);
    put_program(MO_CUDA_CACHE_FORMAT + 1, 'd', MO_CUDA_CACHE_CODE, 0);
    put("v2/" MO_CUDA_CACHE_NEW, "half", 4);
    put("v2/" MO_CUDA_CACHE_LOCK, "", 0);
    put("v2/aa/notes.txt", "mine", 4);
    put("letters/aa", "mine", 4);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int files(const struct mo_programs *p, enum mo_program_kind kind, enum mo_stored_state state) {
    int n = 0;
    for (int i = 0; i < p->n; i++)
        n += p->file[i].kind == kind && p->file[i].state == state;
    return n;
}

static void kept_programs_are_listed_checked_and_cleaned(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_programs p;
    moire_error err = {0};
    int went;
    int64_t bytes;
    assert_int_equal(mo_programs_open(&env, folder, &p, &err), MOIRE_OK);
    assert_int_equal(p.n, 5);
    assert_int_equal(files(&p, MO_PROGRAM_CODE, MO_STORED_NEEDED), 2); /* nothing is read yet */
    assert_int_equal(files(&p, MO_PROGRAM_CHOICE, MO_STORED_NEEDED), 1);
    assert_int_equal(files(&p, MO_PROGRAM_CODE, MO_STORED_STALE), 1);
    assert_int_equal(files(&p, MO_PROGRAM_LEFT, MO_STORED_UNNEEDED), 1);
    assert_int_equal(mo_programs_check(&p, &err), MOIRE_OK);
    assert_int_equal(files(&p, MO_PROGRAM_CODE, MO_STORED_DAMAGED), 1);
    int64_t surplus = mo_programs_surplus(&p, &went);
    assert_int_equal(went, 3);
    assert_int_equal(surplus, 2 * (sizeof(struct mo_cuda_cache_head) + CONTENTS) + 4);
    mo_programs_close(&p);
    assert_int_equal(mo_programs_open(&env, folder, &p, &err), MOIRE_OK);
    assert_int_equal(mo_programs_clean(&p, &went, &bytes, &err), MOIRE_OK);
    assert_int_equal(went, 3);
    assert_int_equal(bytes, surplus);
    assert_int_equal(p.n, 2);
    mo_programs_close(&p);
    assert_int_equal(mo_programs_open(&env, folder, &p, &err), MOIRE_OK);
    assert_int_equal(p.n, 2);
    mo_programs_close(&p);
    char path[200];
    snprintf(path, sizeof path, "%s/v2/aa/notes.txt", folder);
    assert_int_equal(access(path, F_OK), 0);
}

static void nothing_goes_while_a_program_is_written(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_programs p;
    moire_error err = {0};
    char path[200];
    int went;
    int64_t bytes;
    snprintf(path, sizeof path, "%s/v2/" MO_CUDA_CACHE_LOCK, folder);
    int fd = open(path, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(mo_programs_open(&env, folder, &p, &err), MOIRE_OK);
    assert_int_equal(mo_programs_clean(&p, &went, &bytes, &err), MOIRE_EBUSY);
    assert_int_equal(p.n, 5);
    mo_programs_close(&p);
    close(fd);
}

static void none_and_untrusted(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_programs p;
    moire_error err = {0};
    assert_int_equal(mo_programs_open(&env, "", &p, &err), MOIRE_OK);
    assert_int_equal(p.n, 0);
    mo_programs_close(&p);
    assert_int_equal(mo_programs_open(&env, "/tmp/moire-no-such-programs", &p, &err), MOIRE_OK);
    mo_programs_close(&p);
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(mo_programs_open(&env, folder, &p, &err), MOIRE_ESTORE);
    assert_int_equal(p.n, 0);
}

static int open_and_check(void *ctx) {
    const struct fault_sys *fault = ctx;
    struct mo_env env = mo_env_default();
    struct mo_programs p;
    moire_error err = {0};
    env.sys = &fault->table;
    int code = mo_programs_open(&env, folder, &p, &err);
    if (!code) code = mo_programs_check(&p, &err);
    mo_programs_close(&p);
    return code;
}

static void failing_allocations_are_errors(void **state) {
    (void)state;
    struct fault_sys fault;
    fault_sys_init(&fault);
    assert_true(fault_sys_sweep(&fault, open_and_check, &fault, MOIRE_ENOMEM) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kept_programs_are_listed_checked_and_cleaned, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_goes_while_a_program_is_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(none_and_untrusted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failing_allocations_are_errors, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
