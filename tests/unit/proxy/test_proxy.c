/* SPDX-License-Identifier: Apache-2.0
 * test_proxy.c - counters: their sources on machines that have them and on machines that do not, the proxy
 * and its file, and counters that vanish under a serving runtime. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/data/trace.h"
#include "models/zoo.h"
#include "runtime/plan/versions.h"
#include "runtime/proxy/papi.h"
#include "runtime/engine/device_impl.h"
#include "runtime/serve/runtime.h"
#include "tests/unit/base/machine_lines.h"
#include "tests/unit/proxy/counters_sys.h"

static bool near(double a, double b) {
    return fabs(a - b) < 1e-9;
}

/* A machine with counters and what was logged on it. */
struct machine {
    struct counters_sys sys;
    struct mo_env env;
    struct mo_lock lock; /* the sampler logs, too */
    char log[4000];
    int warnings;
};

static void keep_line(void *user, int level, const char *line) {
    struct machine *m = user;
    mo_lock_take(m->sys.fault.real, &m->lock);
    size_t n = strlen(m->log);
    snprintf(m->log + n, sizeof m->log - n, "%s\n", line);
    m->warnings += level == MOIRE_LOG_WARN && !is_of_the_machine(line);
    mo_lock_drop(m->sys.fault.real, &m->lock);
}

static int warned(struct machine *m) {
    mo_lock_take(m->sys.fault.real, &m->lock);
    int n = m->warnings;
    mo_lock_drop(m->sys.fault.real, &m->lock);
    return n;
}

static int new_machine(void **state) {
    struct machine *m = calloc(1, sizeof *m);
    counters_sys_init(&m->sys);
    m->env = mo_env_default();
    m->env.sys = &m->sys.table;
    m->env.log = keep_line;
    m->env.log_user = m;
    *state = m;
    return 0;
}

/* Whatever happened, nothing may be left open. */
static int old_machine(void **state) {
    struct machine *m = *state;
    bool clean = fault_sys_live(&m->sys.fault) == 0 && m->sys.fault.opened == m->sys.fault.closed &&
                 counters_papi_sets() == 0;
    counters_sys_close(&m->sys);
    free(m);
    return clean ? 0 : -1;
}

static const int two_cpus[] = {0, 5};

static struct mo_source_config config_of(const struct machine *m) {
    return (struct mo_source_config){.env = &m->env, .cpu = two_cpus, .n_cpus = 2};
}

/* --- resctrl -------------------------------------------------------------------------------------------- */
static void resctrl_counts_the_caches_in_use(void **state) {
    struct machine *m = *state;
    struct mo_source_config c = config_of(m);
    double v[MO_OBSERVABLES];
    void *s;
    counters_cache_of(&m->sys, 0, 0);
    counters_cache_of(&m->sys, 5, 3);
    counters_resctrl(&m->sys, 0, "1048576", "1000");
    counters_resctrl(&m->sys, 1, "999999999", "999999999"); /* of cores that are not watched */
    counters_resctrl(&m->sys, 3, "2097152", "5000");
    m->sys.now = 1000000;
    assert_int_equal(mo_source_resctrl.open(&c, &s, NULL), MOIRE_OK);
    counters_resctrl(&m->sys, 0, "3145728", "3000");
    counters_resctrl(&m->sys, 3, "0", "9000");
    m->sys.now += 2000;
    assert_int_equal(mo_source_resctrl.sample(s, v, NULL), MOIRE_OK);
    assert_true(near(v[0], 3) && near(v[1], 3)); /* MiB; 6000 bytes in 2000 ns */
    m->sys.now += 1000;
    assert_int_equal(mo_source_resctrl.sample(s, v, NULL), MOIRE_OK);
    assert_true(near(v[1], 0));
    mo_source_resctrl.close(s);
}

static void resctrl_says_what_is_wrong(void **state) {
    struct machine *m = *state;
    struct mo_source_config c = config_of(m);
    double v[MO_OBSERVABLES];
    moire_error err;
    void *s;
    assert_int_equal(mo_source_resctrl.open(&c, &s, &err), MOIRE_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "mon_L3_00/llc_occupancy: No such file"));
    assert_non_null(strstr(err.message, "resctrl mounted"));
    counters_resctrl(&m->sys, 0, "Unavailable", "1000");
    assert_int_equal(mo_source_resctrl.open(&c, &s, &err), MOIRE_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "no number in it"));
    static const struct {
        const char *occupancy, *bytes, *says;
    } later[] = {{"1", "999", "went back"},
                 {"1", "", "no number"},
                 {"1", "12x", "no number"},
                 {"-1", "2000", "no number"},
                 {NULL, NULL, "No such file"}};
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        counters_resctrl(&m->sys, 0, "1", "1000");
        assert_int_equal(mo_source_resctrl.open(&c, &s, &err), MOIRE_OK);
        counters_resctrl(&m->sys, 0, later[i].occupancy, later[i].bytes);
        assert_int_equal(mo_source_resctrl.sample(s, v, &err), MOIRE_EIO);
        assert_non_null(strstr(err.message, later[i].says));
        mo_source_resctrl.close(s);
    }
}

/* --- papi ----------------------------------------------------------------------------------------------- */
/* Two cores a sample: misses, accesses, instructions, cycles of each. */
static const long long recorded[][COUNTERS_EVENTS] = {
    {100, 1000, 5000, 4000}, {0, 0, 0, 0},
    {400, 2000, 9000, 6000}, {100, 1000, 3000, 2000},
    {400, 2000, 9000, 6000}, {100, 1000, 3000, 2000},
};

static void papi_plays_a_recorded_trace(void **state) {
    struct machine *m = *state;
    struct mo_source_config c = config_of(m);
    double v[MO_OBSERVABLES];
    moire_error err;
    void *s, *second;
    m->sys.papi = recorded;
    m->sys.papi_rows = 6;
    m->sys.now = 1;
    assert_int_equal(mo_source_papi.open(&c, &s, NULL), MOIRE_OK);
    assert_int_equal(mo_source_papi.open(&c, &second, &err), MOIRE_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "already"));
    m->sys.now += 1000;
    assert_int_equal(mo_source_papi.sample(s, v, NULL), MOIRE_OK);
    assert_true(near(v[0], 400.0 / 2000) && near(v[1], 2000) && near(v[2], 7000.0 / 4000));
    m->sys.now += 1000;
    assert_int_equal(mo_source_papi.sample(s, v, NULL), MOIRE_OK); /* nothing happened */
    assert_true(near(v[0], 0) && near(v[1], 0) && near(v[2], 0));
    assert_int_equal(mo_source_papi.sample(s, v, &err), MOIRE_EIO);
    assert_non_null(strstr(err.message, "core 0 cannot be read: PAPI error -4"));
    mo_source_papi.close(s);
}

static void papi_says_why_not(void **state) {
    struct machine *m = *state;
    struct mo_source_config c = config_of(m);
    moire_error err;
    void *s;
    assert_int_equal(mo_source_papi.open(&c, &s, &err), MOIRE_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "no libpapi"));
    m->sys.papi = recorded;
    m->sys.papi_rows = 6;
    m->sys.papi_attach = -4;
    assert_int_equal(mo_source_papi.open(&c, &s, &err), MOIRE_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "core 0: attaching"));
    m->sys.papi_attach = 0;
    m->sys.papi_lacks = "PAPI_TOT_INS"; /* then by the kernel's names */
    assert_int_equal(mo_source_papi.open(&c, &s, &err), MOIRE_OK);
    mo_source_papi.close(s);
    m->sys.papi_rows = 1;
    assert_int_equal(mo_source_papi.open(&c, &s, &err), MOIRE_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "core 5"));
    static const struct mo_papi_names nowhere = {"sde", {"a", "b", "c", "d"}};
    assert_int_equal(mo_papi_open(&c, &nowhere, 1, &s, &err), MOIRE_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "core 0: sde: PAPI error -16"));
}

static int open_once(void *ctx) {
    struct machine *m = ctx;
    struct mo_source_config c = config_of(m);
    for (const struct mo_source *const *source = mo_sources(); (*source)->open; source++) {
        void *s;
        moire_error err;
        int code = (*source)->open(&c, &s, &err);
        if (code) return code;
        (*source)->close(s);
    }
    return MOIRE_OK;
}

static void no_memory_leaves_nothing_open(void **state) {
    struct machine *m = *state;
    counters_resctrl(&m->sys, 0, "1", "1");
    m->sys.papi = recorded;
    m->sys.papi_rows = 6;
    assert_true(fault_sys_sweep(&m->sys.fault, open_once, m, MOIRE_ENOMEM) > 3);
}

static void the_first_that_works_is_taken(void **state) {
    struct machine *m = *state;
    struct mo_source_config c = config_of(m);
    moire_error err;
    void *s;
    assert_ptr_equal(mo_source_first(&c, &s), &mo_source_slowdown);
    assert_non_null(strstr(m->log, "no papi: "));
    assert_non_null(strstr(m->log, "no resctrl: "));
    counters_resctrl(&m->sys, 0, "1", "1");
    assert_ptr_equal(mo_source_first(&c, &s), &mo_source_resctrl);
    mo_source_resctrl.close(s);
    m->sys.papi = recorded;
    m->sys.papi_rows = 6;
    assert_ptr_equal(mo_source_first(&c, &s), &mo_source_papi);
    mo_source_papi.close(s);
    assert_int_equal(mo_source_unknown("pmu", &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "auto, papi, resctrl, slowdown"));
}

/* --- the proxy's file ----------------------------------------------------------------------------------- */
#define HEAD "# moire-proxy 1\n# source papi\n# note of a test\nterm,coefficient\n"

static void a_proxy_is_read_written_and_used(void **state) {
    (void)state;
    static const char text[] = HEAD "intercept,-0.25\nipc,0.5\nl3_miss_rate,1.5e0\n";
    struct mo_proxy p, again;
    char out[500];
    assert_int_equal(mo_proxy_parse("p", text, sizeof text - 1, &p, NULL), MOIRE_OK);
    assert_ptr_equal(p.source, &mo_source_papi);
    assert_true(near(p.intercept, -0.25) && near(p.coefficient[0], 1.5) && near(p.coefficient[1], 0) &&
                near(p.coefficient[2], 0.5));
    assert_true(near(mo_proxy_pressure(&p, (const double[]){0.2, 1e9, 0.1}), 0.1));
    assert_true(near(mo_proxy_pressure(&p, (const double[]){0, 0, 0}), 0));
    assert_true(near(mo_proxy_pressure(&p, (const double[]){1, 0, 1}), 1));
    size_t n = mo_proxy_text(&p, "two words", out, sizeof out);
    assert_int_equal(n, strlen(out));
    assert_non_null(strstr(out, "# note two words\n"));
    assert_int_equal(mo_proxy_parse("p", out, n, &again, NULL), MOIRE_OK);
    assert_memory_equal(&p, &again, sizeof p);
    assert_int_equal(mo_proxy_text(&p, "", out, 40), 0); /* does not fit */
}

static void a_bad_proxy_is_named_with_its_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "p:1: the file ends"},
        {"# moire-proxy 2\n", "p:1: not a proxy"},
        {"# moire-proxy 1", "p:1: the last line is cut off"},
        {"# moire-proxy 1\nterm,coefficient\n", "p:2: no '# source'"},
        {"# moire-proxy 1\n# source pmu\n", "p:2: no source of pressure is called pmu"},
        {"# moire-proxy 1\n# source slowdown\n", "p:2: this source counts nothing"},
        {"# moire-proxy 1\n# source papi\n# source papi\n", "p:3: a second source"},
        {"# moire-proxy 1\n# source papi\nterms\n", "p:3: the header must be"},
        {HEAD, "p:5: the file ends"},
        {HEAD "intercept,1\n", "p:6: the file ends"},
        {HEAD "ipc,1\n", "p:5:1: the intercept comes first"},
        {HEAD "intercept,nan\n", "p:5:11: not a number: nan"},
        {HEAD "intercept,1e999\n", "p:5:11: not a number"},
        {HEAD "intercept,0\nipc\n", "p:6:1: not \"term,coefficient\""},
        {HEAD "intercept,0\nipc,\n", "p:6:5: not a number"},
        {HEAD "intercept,0\nipc,1,2\n", "p:6: more cells than"},
        {HEAD "intercept,0\nintercept,0\n", "p:6:1: the intercept comes first, then"},
        {HEAD "intercept,0\nmemory_traffic,1\n", "p:6:1: the intercept comes first, then"},
        {HEAD "intercept,0\nipc,1\nipc,1\n", "p:7:1: the intercept comes first, then"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mo_proxy p;
        moire_error err = {0};
        assert_int_equal(mo_proxy_parse("p", rows[i].text, strlen(rows[i].text), &p, &err), MOIRE_EFORMAT);
        if (!strstr(err.message, rows[i].says))
            fail_msg("case %d: '%s' does not say '%s'", (int)i, err.message, rows[i].says);
    }
}

/* --- a runtime ------------------------------------------------------------------------------------------ */
static char folder[] = "/tmp/moire-proxy-XXXXXX";
static char model[512], proxy_file[600];

static int make_files(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    if (!mkdtemp(folder)) return -1;
    snprintf(proxy_file, sizeof proxy_file, "%s/proxy.csv", folder);
    FILE *f = fopen(proxy_file, "w");
    if (!f) return -1;
    fprintf(f, "# moire-proxy 1\n# source resctrl\nterm,coefficient\nintercept,0\nllc_occupancy,0.25\n");
    fclose(f);
    return mo_zoo_path(&env, "lenet", folder, model, sizeof model, NULL);
}

static int remove_files(void **state) {
    (void)state;
    unlink(model);
    unlink(proxy_file);
    return rmdir(folder);
}

static int create(struct machine *m, const char *pressure, const char *proxy, int64_t record,
                  moire_runtime **rt, moire_error *err) {
    moire_config c;
    moire_config_init(&c);
    c.policy = "veltair-ac";
    c.generic_only = 1;
    c.threads = 2;
    c.pressure = pressure;
    c.proxy = proxy;
    c.record = record;
    return mo_runtime_create(&c, &m->env, 0, rt, err);
}

static void note(void *user, const moire_answer *answer) {
    _Atomic int *n = user;
    if (answer->code == MOIRE_OK) atomic_fetch_add(n, 1);
}

static void submit(moire_tenant *t, _Atomic int *answered) {
    static float pixels[32 * 32];
    moire_tensor in = {
        .dtype = MOIRE_F32, .rank = 4, .shape = {1, 1, 32, 32}, .data = pixels, .bytes = sizeof pixels};
    assert_int_equal(moire_submit(t, &in, 1, 0, note, answered, NULL, NULL), MOIRE_OK);
}

static double pressure_now(moire_runtime *rt) {
    mo_device_take(rt->cores);
    double p = mo_sched_view(rt->cores->sched)->pressure[MO_PRESSURE_CACHE];
    mo_device_drop(rt->cores);
    return p;
}

/* Queries one by one until the scheduler sees `want`; every one is answered. */
static int serve_until(moire_runtime *rt, moire_tenant *t, double want, _Atomic int *answered) {
    int n = 0;
    for (; n < 20000 && !near(pressure_now(rt), want); n++) {
        submit(t, answered);
        moire_drain(rt);
    }
    assert_true(near(pressure_now(rt), want));
    return n;
}

/* Counters decide; when they vanish under load observed slowdown does, with two lines and no query lost. */
static void vanished_counters_lose_no_query(void **state) {
    struct machine *m = *state;
    moire_runtime *rt;
    moire_tenant *t;
    _Atomic int answered = 0;
    counters_resctrl(&m->sys, 0, "2097152", "1000");
    assert_int_equal(create(m, NULL, proxy_file, 0, &rt, NULL), MOIRE_OK);
    assert_int_equal(moire_load(rt, model, NULL, &t, NULL), MOIRE_OK);
    int sent = serve_until(rt, t, 0.5, &answered); /* 2 MiB, a quarter each */
    assert_int_equal(warned(m), 0);
    counters_resctrl(&m->sys, 0, "3145728", "2000");
    sent += serve_until(rt, t, 0.75, &answered);
    for (int i = 0; i < 64; i++, sent++) {
        if (i == 32) counters_resctrl(&m->sys, 0, NULL, NULL);
        submit(t, &answered);
    }
    sent += serve_until(rt, t, 0, &answered); /* the model is not tuned: observed slowdown says 0 */
    moire_drain(rt);
    assert_int_equal(answered, sent);
    moire_runtime_destroy(rt, 1);
    assert_int_equal(warned(m), 2);
    assert_non_null(
        strstr(m->log, "resctrl: /sys/fs/resctrl/mon_data/mon_L3_00/llc_occupancy: No such file"));
    assert_non_null(strstr(m->log, "resctrl has no value any more, observed slowdown takes over"));
}

/* Gives the first layer with a kernel a second version, the same one, that is better under pressure. */
static struct mo_step *add_version(moire_tenant *t, struct mo_version v[2]) {
    struct mo_step *step = t->plan->steps;
    while (!step->run)
        step++;
    for (int i = 0; i < 2; i++)
        v[i] = (struct mo_version){.run = step->run,
                                   .packing = step->packing,
                                   .weights = step->weights,
                                   .bias = step->bias,
                                   .units = step->units,
                                   .ns = {100 + 30 * i, 200, 200, 200, 200, 200}};
    for (int level = 1; level < MO_STORE_LEVELS; level++)
        v[1].ns[level] = 110;
    step->version = v;
    step->n_versions = 2;
    return step;
}

/* A recorded run holds what was counted, and what the scheduler made of it. */
static void a_recorded_run_holds_counters_and_pressure(void **state) {
    struct machine *m = *state;
    char path[600];
    snprintf(path, sizeof path, "%s/run.trace", folder);
    for (int with_proxy = 0; with_proxy < 2; with_proxy++) {
        moire_runtime *rt;
        moire_tenant *t;
        struct mo_trace trace;
        struct mo_version versions[2];
        moire_error err = {0};
        _Atomic int answered = 0;
        counters_resctrl(&m->sys, 0, "1048576", "1000");
        assert_int_equal(create(m, NULL, with_proxy ? proxy_file : NULL, 1 << 16, &rt, NULL), MOIRE_OK);
        assert_non_null(rt->sampler);
        assert_int_equal(moire_load(rt, model, NULL, &t, NULL), MOIRE_OK);
        struct mo_step *step = add_version(t, versions);
        if (with_proxy) {
            serve_until(rt, t, 0.25, &answered);
            submit(t, &answered); /* all of it under that pressure */
        }
        if (!with_proxy) /* recorded only; the service takes longer than a period of the sampler */
            for (int64_t end = mo_now(&m->env) + 4 * MO_SAMPLER_PERIOD_NS; mo_now(&m->env) < end;) {
                submit(t, &answered);
                moire_drain(rt);
            }
        moire_drain(rt);
        assert_int_equal(moire_record(rt, path, &err), MOIRE_OK);
        step->version = NULL;
        step->n_versions = 0;
        moire_runtime_destroy(rt, 1);
        if (mo_trace_read(&m->env, path, &trace, &err)) fail_msg("%s", err.message);
        unlink(path);
        assert_ptr_equal(trace.source, &mo_source_resctrl);
        assert_true(trace.n_counters > 0 && near(trace.counters[0].value[0], 1));
        assert_int_equal(trace.n_pressures, with_proxy);
        if (with_proxy) assert_true(trace.pressures[0].counted && near(trace.pressures[0].value, 0.25));
        assert_true(trace.layers > 0 && (trace.adapted > 0) == (with_proxy != 0));
        mo_trace_free(&trace);
    }
}

static void a_machine_without_serves_with_one_line(void **state) {
    struct machine *m = *state;
    moire_runtime *rt;
    assert_int_equal(create(m, NULL, proxy_file, 0, &rt, NULL), MOIRE_OK);
    assert_null(rt->sampler);
    assert_int_equal(warned(m), 1);
    assert_non_null(strstr(m->log, "no resctrl: "));
    moire_runtime_destroy(rt, 1);
    assert_int_equal(create(m, "papi", NULL, 0, &rt, NULL),
                     MOIRE_OK); /* counts for nothing without a proxy */
    assert_null(rt->sampler);
    assert_int_equal(warned(m), 2);
    moire_runtime_destroy(rt, 1);
}

static void what_cannot_be_meant_is_refused(void **state) {
    struct machine *m = *state;
    moire_runtime *rt;
    moire_error err;
    assert_int_equal(create(m, "pmu", NULL, 0, &rt, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "there are: auto, papi"));
    assert_int_equal(create(m, "papi", proxy_file, 0, &rt, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "is for resctrl, not for papi"));
    assert_int_equal(create(m, "auto", "/nowhere/proxy.csv", 0, &rt, &err), MOIRE_EIO);
    assert_int_equal(create(m, NULL, model, 0, &rt, &err), MOIRE_EFORMAT); /* an ONNX file */
}

int main(void) {
#define ON_MACHINE(f) cmocka_unit_test_setup_teardown(f, new_machine, old_machine)
    const struct CMUnitTest tests[] = {
        ON_MACHINE(resctrl_counts_the_caches_in_use),
        ON_MACHINE(resctrl_says_what_is_wrong),
        ON_MACHINE(papi_plays_a_recorded_trace),
        ON_MACHINE(papi_says_why_not),
        ON_MACHINE(no_memory_leaves_nothing_open),
        ON_MACHINE(the_first_that_works_is_taken),
        cmocka_unit_test(a_proxy_is_read_written_and_used),
        cmocka_unit_test(a_bad_proxy_is_named_with_its_line),
        ON_MACHINE(vanished_counters_lose_no_query),
        ON_MACHINE(a_recorded_run_holds_counters_and_pressure),
        ON_MACHINE(a_machine_without_serves_with_one_line),
        ON_MACHINE(what_cannot_be_meant_is_refused),
    };
#undef ON_MACHINE
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
