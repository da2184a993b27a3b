/* SPDX-License-Identifier: Apache-2.0
 * test_cuda_faults.c - what breaks on a GPU, injected under the CUDA plugin: every accepted run is answered
 * with a clear code, nothing hangs, other GPUs go on, and a GPU that is lost is not asked again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "tests/unit/gpu/cuda_case.h"

mo_gpu_plugin_function mo_gpu_plugin;

enum { MS = 1000000, LETS = 3 };

static int submit(struct mo_gpu_let *let, struct cuda_run *run, moire_error *err) {
    const struct mo_cuda_work work = cuda_run_work(run);
    return mo_cuda_submit(let, &work, err);
}

/* Everything that can be asked of a lost GPU says so, and says why. */
static void check_lost(struct cuda_case *c, struct mo_gpu_let *let, const char *why) {
    struct mo_gpu_let *other;
    struct mo_gpu_counters n;
    uint64_t sms[MO_GPU_SM_WORDS];
    moire_error err = {0};
    struct cuda_run run = {.c = c, .name = "late"};
    assert_int_equal(c->ops->counters(c->system, 0, NULL, &err), MOIRE_EDEVICE);
    if (!strstr(err.message, why)) fail_msg("'%s' does not say '%s'", err.message, why);
    assert_non_null(strstr(err.message, "a new process can use the GPU again"));
    assert_int_equal(c->ops->let_open(c->system, 0, 0, 5, 1, &other, NULL), MOIRE_EDEVICE);
    assert_int_equal(c->ops->let_probe(let, sms, NULL), MOIRE_EDEVICE);
    assert_int_equal(c->ops->counters(c->system, 0, &n, NULL), MOIRE_EDEVICE);
    assert_int_equal(submit(let, &run, NULL), MOIRE_EDEVICE);
    assert_int_equal(atomic_load(&run.done), 0);
}

static _Atomic bool go;

static void hold(struct cuda_run *run) {
    const struct mo_env *env = &run->c->env;
    while (!atomic_load(&go))
        env->sys->sleep_until(env->sys->self, mo_now(env) + 20000);
}

/* Two runs on each of three lets; the second kernel named "bad" meets the fault, once all are queued; then
 * the other GPU serves. */
static void break_one(unsigned result, int64_t hang_ns, const char *why) {
    struct cuda_case c;
    struct mo_gpu_let *lets[LETS], *away;
    struct cuda_run runs[LETS], fine = {.c = &c, .name = "fine"};
    cuda_case_begin(&c, &(struct mo_fake_config){.gpus = 2});
    cuda_case_open(&c, mo_gpu_plugin(), &(struct mo_gpu_config){.hang_ns = hang_ns});
    for (int i = 0; i < LETS; i++) {
        runs[i] = (struct cuda_run){.c = &c, .name = i ? "neighbour" : "bad", .sm_ns = i ? 40e9 : 0};
        if (i == 0) runs[i].compute = hold;
        assert_int_equal(c.ops->let_open(c.system, 0, 2 * i, 2, 1, &lets[i], NULL), MOIRE_OK);
    }
    assert_int_equal(c.ops->let_open(c.system, 1, 0, 2, 1, &away, NULL), MOIRE_OK);
    c.fake->fail_kernel("bad", 1, result);
    atomic_store(&go, false);
    for (int k = 0; k < 2; k++)
        for (int i = LETS - 1; i >= 0; i--)
            assert_int_equal(submit(lets[i], &runs[i], NULL), MOIRE_OK);
    atomic_store(&go, true);
    for (int i = 0; i < LETS; i++) {
        cuda_run_wait(&runs[i], 2);
        assert_int_equal(runs[i].code, MOIRE_EDEVICE);
        if (!strstr(runs[i].message, why)) fail_msg("'%s' does not say '%s'", runs[i].message, why);
    }
    check_lost(&c, lets[0], why);
    assert_int_equal(submit(away, &fine, NULL), MOIRE_OK);
    cuda_run_wait(&fine, 1);
    assert_int_equal(fine.code, MOIRE_OK);
    assert_int_equal(c.ops->counters(c.system, 1, NULL, NULL), MOIRE_OK);
    for (int i = 0; i < LETS; i++)
        c.ops->let_close(lets[i]);
    c.ops->let_close(away);
    c.lost = true;
    cuda_case_end(&c);
}

static void an_illegal_access_loses_the_gpu(void **state) {
    (void)state;
    break_one(700, 0, "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered");
}

static void a_failed_launch_loses_the_gpu(void **state) {
    (void)state;
    break_one(719, 0, "CUDA_ERROR_LAUNCH_FAILED");
}

static void a_kernel_that_hangs_is_noticed(void **state) {
    (void)state;
    break_one(0, 1000 * MS, "counts as hung");
}

/* A bound of its own: the run's, not the system's. */
static void a_run_may_have_its_own_bound(void **state) {
    (void)state;
    struct cuda_case c;
    struct mo_gpu_let *let;
    struct cuda_run run = {.c = &c, .name = "stuck"};
    cuda_case_begin(&c, &(struct mo_fake_config){0});
    cuda_case_open(&c, mo_gpu_plugin(), &(struct mo_gpu_config){0});
    assert_int_equal(c.ops->let_open(c.system, 0, 0, 1, 1, &let, NULL), MOIRE_OK);
    c.fake->fail_kernel("stuck", 0, 0);
    struct mo_cuda_work work = cuda_run_work(&run);
    work.hang_ns = 30 * MS;
    assert_int_equal(mo_cuda_submit(let, &work, NULL), MOIRE_OK);
    cuda_run_wait(&run, 1);
    assert_int_equal(run.code, MOIRE_EDEVICE);
    c.ops->let_close(let);
    c.lost = true;
    cuda_case_end(&c);
}

/* Lost while nothing runs: nobody is told before somebody asks. */
static void a_gpu_that_falls_off_the_bus(void **state) {
    (void)state;
    struct cuda_case c;
    struct mo_gpu_let *let;
    cuda_case_begin(&c, &(struct mo_fake_config){0});
    cuda_case_open(&c, mo_gpu_plugin(), &(struct mo_gpu_config){0});
    assert_int_equal(c.ops->let_open(c.system, 0, 0, 1, 1, &let, NULL), MOIRE_OK);
    assert_int_equal(c.ops->counters(c.system, 0, NULL, NULL), MOIRE_OK);
    c.fake->lose(0, 999);
    check_lost(&c, let, "CUDA_ERROR_UNKNOWN");
    c.ops->let_close(let);
    c.lost = true;
    cuda_case_end(&c);
}

/* Lost between being queued and being done. */
static void a_gpu_that_goes_while_it_serves(void **state) {
    (void)state;
    struct cuda_case c;
    struct mo_gpu_let *let;
    struct cuda_run run = {.c = &c, .name = "cut", .sm_ns = 40e9};
    cuda_case_begin(&c, &(struct mo_fake_config){0});
    cuda_case_open(&c, mo_gpu_plugin(), &(struct mo_gpu_config){0});
    assert_int_equal(c.ops->let_open(c.system, 0, 0, 1, 1, &let, NULL), MOIRE_OK);
    assert_int_equal(submit(let, &run, NULL), MOIRE_OK);
    assert_int_equal(submit(let, &run, NULL), MOIRE_OK);
    c.fake->lose(0, 46);
    cuda_run_wait(&run, 2);
    assert_int_equal(run.code, MOIRE_EDEVICE);
    c.ops->let_close(let);
    c.lost = true;
    cuda_case_end(&c);
}

static void memory_that_is_not_there_harms_nobody(void **state) {
    (void)state;
    struct cuda_case c;
    struct mo_gpu_let *let;
    moire_error err = {0};
    void *host = NULL;
    cuda_case_begin(&c, &(struct mo_fake_config){0});
    cuda_case_open(&c, mo_gpu_plugin(), &(struct mo_gpu_config){0});
    assert_int_equal(c.ops->let_open(c.system, 0, 0, 1, 1, &let, NULL), MOIRE_OK);
    c.fake->fail_call("cuMemHostAlloc", 0, 1, 2);
    assert_int_equal(c.ops->staging_alloc(c.system, 1 << 20, &host, &err), MOIRE_ENOMEM);
    assert_non_null(strstr(err.message, "page-locked host memory are not to be had"));
    assert_int_equal(c.ops->counters(c.system, 0, NULL, NULL), MOIRE_OK);
    assert_int_equal(c.ops->staging_alloc(c.system, 1 << 20, &host, NULL), MOIRE_OK);
    assert_int_equal((uintptr_t)host % 256, 0);
    c.ops->staging_free(c.system, host);
    c.fake->fail_call("cuMemAlloc_v2", 0, 1, 2);
    uint64_t sms[MO_GPU_SM_WORDS];
    assert_int_equal(c.ops->let_probe(let, sms, &err), MOIRE_ENOMEM);
    assert_int_equal(c.ops->let_probe(let, sms, &err), MOIRE_OK);
    c.ops->let_close(let);
    cuda_case_end(&c);
}

/* A process that lost its GPU can be followed by one that has it. */
static void a_new_process_begins_anew(void **state) {
    (void)state;
    for (int k = 0; k < 3; k++)
        break_one(k == 1 ? 0 : 700, 1000 * MS, "GPU 0");
}

/* The driver answers within `init` with each code once: what it means is told apart. */
static void codes_of_the_driver(void **state) {
    (void)state;
    static const struct {
        unsigned result;
        int code;
    } rows[] = {{0, MOIRE_OK},
                {1, MOIRE_EINVAL},
                {2, MOIRE_ENOMEM},
                {100, MOIRE_EUNSUPPORTED},
                {214, MOIRE_EDEVICE},
                {700, MOIRE_EDEVICE},
                {701, MOIRE_EFAILED},
                {719, MOIRE_EDEVICE},
                {803, MOIRE_EUNSUPPORTED},
                {999, MOIRE_EDEVICE},
                {12345, MOIRE_EFAILED}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(mo_cuda_code(rows[i].result), rows[i].code);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_illegal_access_loses_the_gpu),
        cmocka_unit_test(a_failed_launch_loses_the_gpu),
        cmocka_unit_test(a_kernel_that_hangs_is_noticed),
        cmocka_unit_test(a_run_may_have_its_own_bound),
        cmocka_unit_test(a_gpu_that_falls_off_the_bus),
        cmocka_unit_test(a_gpu_that_goes_while_it_serves),
        cmocka_unit_test(memory_that_is_not_there_harms_nobody),
        cmocka_unit_test(a_new_process_begins_anew),
        cmocka_unit_test(codes_of_the_driver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
