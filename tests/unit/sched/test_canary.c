/* SPDX-License-Identifier: Apache-2.0
 * test_canary.c - no tenant sees another's bytes; and the canary that says so sings when one does.  `make
 * canary` looks at a million answers. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <unistd.h>
#include "tests/unit/sched/canary.h"

enum { SEED = 1, ANSWERS = 3000, FEW = 300 };

static struct canary_result run(enum canary_fault fault, int64_t answers) {
    char folder[] = "/tmp/moire-canary-XXXXXX";
    struct canary_result result;
    moire_error err = {0};
    assert_non_null(mkdtemp(folder));
    const struct canary_config config = {
        .seed = SEED, .answers = answers, .policy = "moire", .folder = folder, .fault = fault};
    int rc = canary_run(&config, &result, &err);
    rmdir(folder);
    if (rc) fail_msg("seed %d: %s", SEED, err.message);
    return result;
}

static void nobody_sees_anothers_bytes(void **state) {
    (void)state;
    const struct canary_result r = run(CANARY_SOUND, ANSWERS);
    if (r.foreign || r.different)
        fail_msg("seed %d: %d foreign bytes, %d answers differ", SEED, (int)r.foreign, (int)r.different);
    assert_true(r.answers >= ANSWERS && r.marked > ANSWERS / 4);
    assert_true(r.cancelled > 0 && r.failed > 0 && r.texts > r.answers);
}

/* The fault alone gives wrong answers, but nobody's bytes: the arena was scrubbed. */
static void a_kernel_that_writes_nothing_leaks_nothing(void **state) {
    (void)state;
    const struct canary_result r = run(CANARY_IDLE_KERNEL, FEW);
    assert_true(r.different > 0);
    assert_int_equal(r.foreign, 0);
}

static void the_canary_finds_foreign_bytes(void **state) {
    (void)state;
    const struct canary_result r = run(CANARY_DIRTY_ARENAS, FEW);
    assert_true(r.foreign > 0 && r.different > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_sees_anothers_bytes),
        cmocka_unit_test(a_kernel_that_writes_nothing_leaks_nothing),
        cmocka_unit_test(the_canary_finds_foreign_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
