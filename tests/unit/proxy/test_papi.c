/* SPDX-License-Identifier: Apache-2.0
 * test_papi.c - libpapi itself, where it is installed (Debian: libpapi7.0): a test that cannot run says so.
 *
 * Few virtual machines have the processor's counters, but the kernel counts page faults and its own clock in
 * software on every one, of a thread, and libpapi reads those in the same way.  So they stand for L3 misses
 * and accesses here, through source, sampler and proxy. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include "runtime/proxy/papi.h"
#include "runtime/proxy/sampler.h"

static bool near(double a, double b) {
    return fabs(a - b) < 1e-9;
}

/* The real one, if there is any: it works, or it says why not, and then it can be asked again. */
static void the_real_papi_says_something(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    static const int first[] = {0};
    struct mo_source_config c = {.env = &env, .cpu = first, .n_cpus = 1};
    for (int i = 0; i < 2; i++) {
        double v[MO_OBSERVABLES];
        moire_error err = {0};
        void *s;
        int code = mo_source_papi.open(&c, &s, &err);
        if (code) {
            assert_int_equal(code, MOIRE_EUNSUPPORTED);
            assert_true(strlen(err.message) > 10 && !strstr(err.message, "already"));
            continue;
        }
        assert_int_equal(mo_source_papi.sample(s, v, NULL), MOIRE_OK);
        mo_source_papi.close(s);
    }
}

/* Counters that this program keeps (libsde) in place of the processor's: exact differences, and one that goes
 * back.  Skipped without either library. */
static void the_real_papi_counts_in_software(void **state) {
    (void)state;
    static long long count[MO_PAPI_COUNTERS];
    static const char *const name[MO_PAPI_COUNTERS] = {"MISSES", "ACCESSES", "INSTRUCTIONS", "CYCLES"};
    static const struct mo_papi_names names[] = {
        {"sde", {"sde:::moire::MISSES", "sde:::moire::NONE", "sde:::moire::NONE", "sde:::moire::NONE"}},
        {"sde",
         {"sde:::moire::MISSES", "sde:::moire::ACCESSES", "sde:::moire::INSTRUCTIONS",
          "sde:::moire::CYCLES"}}};
    union { /* POSIX lets an object pointer be read as one to a function */
        void *object;
        void *(*init)(const char *library);
        int (*add)(void *handle, const char *name, int mode, int type, void *counter);
    } init, add;
    struct mo_env env = mo_env_default();
    static const int first[] = {0};
    struct mo_source_config c = {.env = &env, .cpu = first, .n_cpus = 1};
    double v[MO_OBSERVABLES];
    moire_error err = {0};
    void *s, *library = dlopen("libsde.so.1", RTLD_NOW | RTLD_GLOBAL); /* libpapi looks for it there */
    if (!library) {
        print_message("skipped: no libsde.so.1 (it comes with PAPI 7 where that is built with it)\n");
        skip();
    }
    init.object = dlsym(library, "papi_sde_init");
    add.object = dlsym(library, "papi_sde_register_counter");
    assert_true(init.object && add.object);
    void *handle = init.init("moire");
    for (int i = 0; i < MO_PAPI_COUNTERS; i++)
        assert_int_equal(add.add(handle, name[i], 0, 0, &count[i]), 0);
    if (mo_papi_open(&c, names, 2, &s, &err)) {
        print_message("skipped: %s\n", err.message);
        if (strstr(err.message, "no libpapi")) skip();
        fail();
    }
    for (int round = 1; round <= 2; round++) {
        count[0] += 10 * round;
        count[1] += 40000;
        count[2] += 300;
        count[3] += 200;
        assert_int_equal(mo_source_papi.sample(s, v, &err), MOIRE_OK);
        assert_true(near(v[0], 10 * round / 40000.0) && near(v[2], 1.5));
        assert_true(v[1] > 0 && isfinite(v[1]));
    }
    count[3] -= 500;
    assert_int_equal(mo_source_papi.sample(s, v, &err), MOIRE_EIO);
    assert_non_null(strstr(err.message, "sde:::moire::CYCLES went back"));
    mo_source_papi.close(s);
}

/* --- the kernel's counters ------------------------------------------------------------------------------ */
enum { PAGES = 4096, PAGE = 4096, TRIES = 2000 };

/* Page faults for misses, ns of the thread's clock for accesses; the others are not looked at. */
static const struct mo_papi_names kernels = {
    "perf_event", {"perf::PAGE-FAULTS", "perf::TASK-CLOCK", "perf::MINOR-FAULTS", "perf::CPU-CLOCK"}};

/* Of this thread; NULL: they cannot be counted here, and it says why. */
static void *open_kernels(const struct mo_env *env) {
    static const int first[] = {0};
    const struct mo_source_config c = {.env = env, .cpu = first, .n_cpus = 1};
    moire_error err = {0};
    void *s = NULL;
    if (!mo_papi_open(&c, &kernels, 1, &s, &err)) return s;
    print_message("skipped: %s\n", err.message);
    return NULL;
}

/* Touches pages that nobody has touched before. */
static void fault_pages(void) {
    volatile char *at =
        mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    madvise((void *)at, (size_t)PAGES * PAGE, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < PAGES; i++)
        at[i * PAGE] = 1;
    munmap((void *)at, (size_t)PAGES * PAGE);
}

static void the_real_papi_counts_page_faults(void **state) {
    (void)state;
    const struct mo_env env = mo_env_default();
    double v[MO_OBSERVABLES];
    void *s = open_kernels(&env);
    if (!s) skip();
    for (int round = 0; round < 3; round++) {
        const int64_t begin = mo_now(&env);
        assert_int_equal(mo_source_papi.sample(s, v, NULL), MOIRE_OK);
        fault_pages();
        assert_int_equal(mo_source_papi.sample(s, v, NULL), MOIRE_OK);
        const double us = (double)(mo_now(&env) - begin) * 1e-3, clock_ns = v[1] * us;
        assert_true(v[0] * clock_ns > PAGES * 0.99); /* `us` is a little more than what was sampled */
    }
    mo_source_papi.close(s);
}

/* Source, sampler and proxy together: a thread samples libpapi, and what the scheduler reads follows. */
static void the_real_papi_drives_a_proxy(void **state) {
    (void)state;
    const struct mo_env env = mo_env_default();
    /* a fault every 10 us is half of the strongest pressure */
    const struct mo_proxy proxy = {.source = &mo_source_papi, .coefficient = {5000}};
    struct mo_sampler *sampler;
    moire_error err = {0};
    double pressure = 0;
    void *s = open_kernels(&env);
    if (!s) skip();
    assert_int_equal(mo_sampler_create(&env, &mo_source_papi, s, &proxy, &sampler, &err), MOIRE_OK);
    assert_int_equal(mo_sampler_start(sampler, NULL, &err), MOIRE_OK);
    for (int i = 0; i < TRIES && !(pressure > 0.5); i++) {
        fault_pages();
        (void)mo_sampler_read(sampler, mo_now(&env), NULL, &pressure);
    }
    assert_true(pressure > 0.5 && pressure <= 1);
    mo_sampler_stop(sampler);
    mo_sampler_destroy(sampler);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_real_papi_says_something),
        cmocka_unit_test(the_real_papi_counts_in_software),
        cmocka_unit_test(the_real_papi_counts_page_faults),
        cmocka_unit_test(the_real_papi_drives_a_proxy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
