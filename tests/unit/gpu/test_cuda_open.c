/* SPDX-License-Identifier: Apache-2.0
 * test_cuda_open.c - the CUDA plugin on the fake driver: what GPUs are, why there are none, counters;
 * every allocation and every call of the driver may fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "runtime/gpu/gpu_energy.h"
#include "runtime/power/boards.h"
#include "tests/unit/gpu/cuda_case.h"

mo_gpu_plugin_function mo_gpu_plugin;

static void an_h200_is_sixteen_units_of_eight(void **state) {
    (void)state;
    struct cuda_case c;
    cuda_case_begin(&c, &(struct mo_fake_config){.gpus = 2});
    cuda_case_open(&c, mo_gpu_plugin(), &(struct mo_gpu_config){0});
    assert_int_equal(c.ops->abi, MO_GPU_ABI);
    assert_int_equal(c.ops->count(c.system), 2);
    struct mo_gpu_info info;
    for (int g = 0; g < 2; g++) {
        assert_int_equal(c.ops->describe(c.system, g, &info, NULL), MOIRE_OK);
        assert_string_equal(info.name, "Fake GPU of 132 SMs");
        assert_int_equal(info.sms, 132);
        assert_int_equal(info.units, 16);
        assert_int_equal(info.unit_sms, 8);
        assert_int_equal(info.least_sms, 8);
        assert_int_equal(info.align_sms, 8);
        assert_int_equal(info.driver, 13000);
        assert_int_equal(info.major, 9);
        assert_int_equal(info.copy_engines, 3);
        assert_int_equal(info.memory_total, 16 << 20);
    }
    assert_int_equal(c.ops->describe(c.system, 2, &info, NULL), MOIRE_EINVAL);
    cuda_case_end(&c);
}

static void units_of_odd_devices(void **state) {
    (void)state;
    static const struct {
        int sms, least, align, units, unit_sms;
    } rows[] = {
        {132, 8, 8, 16, 8}, {130, 8, 8, 16, 8}, {148, 8, 8, 9, 16}, {68, 2, 2, 11, 6}, {84, 4, 2, 14, 6},
        {28, 2, 2, 14, 2},  {13, 4, 2, 3, 4},   {8, 8, 8, 1, 8},    {0, 0, 0, 16, 8},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct cuda_case c;
        cuda_case_begin(
            &c, &(struct mo_fake_config){.sms = rows[i].sms, .least = rows[i].least, .align = rows[i].align});
        cuda_case_open(&c, mo_gpu_plugin(), &(struct mo_gpu_config){0});
        struct mo_gpu_info info;
        assert_int_equal(c.ops->describe(c.system, 0, &info, NULL), MOIRE_OK);
        assert_int_equal(info.units, rows[i].units);
        assert_int_equal(info.unit_sms, rows[i].unit_sms);
        cuda_case_end(&c);
    }
}

/* --- why there is no GPU: one line that says what is missing -------------------------------------------- */

static void refused(struct cuda_case *c, const struct mo_gpu_config *config, int code, const char *part) {
    moire_error err = {0};
    assert_int_equal(cuda_case_try(c, mo_gpu_plugin(), config, &err), code);
    if (!strstr(err.message, part)) fail_msg("'%s' does not say '%s'", err.message, part);
    assert_null(strchr(err.message, '\n'));
    cuda_case_end(c);
}

/* The real table, without one symbol or one object. */
static _Thread_local struct {
    void *(*dl_sym)(void *self, void *object, const char *symbol);
    void *(*dl_open)(void *self, const char *path, char *reason, size_t n);
    const char *symbol, *file;
} without;

static void *no_symbol(void *self, void *object, const char *symbol) {
    return strcmp(symbol, without.symbol) == 0 ? NULL : without.dl_sym(self, object, symbol);
}

static void *no_file(void *self, const char *path, char *reason, size_t n) {
    if (!strstr(path, without.file)) return without.dl_open(self, path, reason, n);
    snprintf(reason, n, "cannot open shared object file");
    return NULL;
}

static void hide_symbol(struct cuda_case *c, const char *symbol) {
    without.dl_sym = c->sys.table.dl_sym;
    without.symbol = symbol;
    c->sys.table.dl_sym = no_symbol;
}

static void hide_file(struct cuda_case *c, const char *file) {
    without.dl_open = c->sys.table.dl_open;
    without.file = file;
    c->sys.table.dl_open = no_file;
}

static void a_machine_without_a_gpu_says_why(void **state) {
    (void)state;
    const struct mo_gpu_config plain = {0};
    struct cuda_case c;
    cuda_case_begin(&c, &(struct mo_fake_config){0});
    hide_file(&c, "libcuda.so.1");
    refused(&c, &plain, MOIRE_EUNSUPPORTED, "cannot be loaded (cannot open shared object file); moire needs");
    cuda_case_begin(&c, &(struct mo_fake_config){0});
    hide_symbol(&c, "cuGraphLaunch");
    refused(&c, &plain, MOIRE_EUNSUPPORTED, "has no cuGraphLaunch");
    cuda_case_begin(&c, &(struct mo_fake_config){0});
    hide_symbol(&c, "cuGreenCtxCreate");
    refused(&c, &plain, MOIRE_EUNSUPPORTED, "has no cuGreenCtxCreate; moire needs the NVIDIA driver, R550");
    cuda_case_begin(&c, &(struct mo_fake_config){.gpus = -1});
    refused(&c, &plain, MOIRE_EUNSUPPORTED, "no GPU is visible");
    cuda_case_begin(&c, &(struct mo_fake_config){.level = 12020});
    refused(&c, &plain, MOIRE_EUNSUPPORTED, "level 12.2");
    cuda_case_begin(&c, &(struct mo_fake_config){0});
    c.fake->fail_call("cuInit", 0, 1, 803);
    refused(&c, &plain, MOIRE_EUNSUPPORTED, "kernel module and libcuda differ");
    cuda_case_begin(&c, &(struct mo_fake_config){.sms = 6});
    refused(&c, &plain, MOIRE_EUNSUPPORTED, "cannot be split");
    cuda_case_begin(&c, &(struct mo_fake_config){0});
    refused(&c, &(struct mo_gpu_config){.queue = 17}, MOIRE_EINVAL, "at most 16 runs");
}

/* --- counters
 * ----------------------------------------------------------------------------------------------- */

static void counters_and_what_is_missing(void **state) {
    (void)state;
    struct mo_gpu_counters n;
    struct cuda_case c;
    cuda_case_begin(&c, &(struct mo_fake_config){0});
    cuda_case_open(&c, mo_gpu_plugin(), &(struct mo_gpu_config){0});
    assert_int_equal(c.ops->counters(c.system, 0, &n, NULL), MOIRE_OK);
    assert_int_equal(n.memory_total, 16 << 20);
    assert_true(n.power_w > 349.9 && n.power_w < 350.1);
    assert_true(n.busy > 0.74 && n.busy < 0.76);
    assert_int_equal(n.celsius, 61);
    assert_true(n.energy_j < 0);
    assert_string_equal(n.missing, "NVML: energy: Not Supported");
    cuda_case_end(&c);
    cuda_case_begin(&c, &(struct mo_fake_config){0});
    hide_file(&c, "libnvidia-ml");
    cuda_case_open(&c, mo_gpu_plugin(), &(struct mo_gpu_config){0});
    assert_int_equal(c.ops->counters(c.system, 0, &n, NULL), MOIRE_OK);
    assert_true(n.power_w < 0 && n.busy < 0);
    assert_non_null(strstr(n.missing, "libnvidia-ml.so.1 cannot be loaded"));
    cuda_case_end(&c);
}

static void boards_tell_their_energy(void **state) {
    (void)state;
    struct cuda_case c;
    moire_energy_row rows[MO_ENERGY_ROWS];
    moire_error err;
    void *meter;
    for (int gpus = 1; gpus < 3; gpus++) {
        cuda_case_begin(&c, &(struct mo_fake_config){.gpus = gpus});
        cuda_case_open(&c, mo_gpu_plugin(), &(struct mo_gpu_config){0});
        const struct mo_gpu_device device = {.env = &c.env, .ops = c.ops, .system = c.system};
        struct mo_energy_boards boards = mo_gpu_energy_boards(&device);
        const struct mo_energy_config config = {.env = &c.env, .root = "", .boards = &boards};
        const int code = mo_energy_boards.open(&config, &meter, &err);
        assert_int_equal(code, gpus == 1 ? MOIRE_EUNSUPPORTED : MOIRE_OK);
        if (code) {
            assert_string_equal(err.message, "cuda 0: NVML: energy: Not Supported");
        } else {
            assert_int_equal(mo_energy_boards.read(meter, rows), 1);
            assert_string_equal(rows[0].device, "cuda:1");
            assert_true(fabs(rows[0].joules - 7) < 1e-9);
            mo_energy_boards.close(meter);
        }
        cuda_case_end(&c);
    }
}

/* --- everything may fail
 * ------------------------------------------------------------------------------------ */

/* Opens, makes a let, probes it, has host memory, closes. */
static int use(struct cuda_case *c, moire_error *err) {
    struct mo_gpu_let *let = NULL;
    uint64_t sms[MO_GPU_SM_WORDS];
    void *host = NULL;
    c->system = NULL;
    int rc = cuda_case_try(c, mo_gpu_plugin(), &(struct mo_gpu_config){0}, err);
    if (rc) return rc;
    rc = c->ops->let_open(c->system, 0, 2, 3, 0, &let, err);
    if (!rc) rc = c->ops->let_probe(let, sms, err);
    if (!rc) rc = c->ops->staging_alloc(c->system, 1000, &host, err);
    c->ops->staging_free(c->system, host);
    c->ops->let_close(let);
    c->ops->close(c->system);
    c->system = NULL;
    return rc;
}

static int use_of(void *ctx) {
    return use(ctx, NULL);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    struct cuda_case c;
    cuda_case_begin(&c, &(struct mo_fake_config){0});
    /* NVML does without memory, so a failure may also be none */
    assert_true(fault_sys_sweep(&c.sys, use_of, &c, MOIRE_ENOMEM) >= 5);
    cuda_case_end(&c);
}

/* There is nothing to do when these fail but to leave the object to the driver. */
static bool takes_down(const char *call) {
    return strstr(call, "Destroy") || strstr(call, "Free") || strstr(call, "Unload") ||
           strstr(call, "Release") || strstr(call, "PopCurrent");
}

static void every_call_of_the_driver_may_fail(void **state) {
    (void)state;
    static const char *const calls[] = {
#define NAME(field, symbol, arguments) #symbol,
        MO_CU_FUNCTIONS(NAME)
#undef NAME
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int skip = 0; skip < 3 && !takes_down(calls[i]); skip++) {
            struct cuda_case c;
            moire_error err = {0};
            cuda_case_begin(&c, &(struct mo_fake_config){0});
            c.fake->fail_call(calls[i], skip, 1, 2);
            const int rc = use(&c, &err);
            failed += rc != MOIRE_OK;
            /* a GPU whose events cannot be read is lost */
            c.lost = rc == MOIRE_EDEVICE && strstr(calls[i], "cuEvent");
            if (rc && rc != MOIRE_ENOMEM && !c.lost) fail_msg("%s: code %d, '%s'", calls[i], rc, err.message);
            if (rc) assert_true(strlen(err.message) > 10);
            cuda_case_end(&c);
        }
    assert_true(failed > 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_h200_is_sixteen_units_of_eight), cmocka_unit_test(units_of_odd_devices),
        cmocka_unit_test(a_machine_without_a_gpu_says_why),  cmocka_unit_test(counters_and_what_is_missing),
        cmocka_unit_test(boards_tell_their_energy),          cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(every_call_of_the_driver_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
