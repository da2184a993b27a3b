/* SPDX-License-Identifier: Apache-2.0
 * test_child.c - runner processes that behave, fail, die, babble or hang: each ends in an answer or in one
 * message that names the system.  The runners are shell scripts in the place of a peer's Python. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "bench/load/drive.h"
#include "bench/load/session.h"

static const struct mo_bench_system system_row = {"a-peer", "onnxruntime", "solo", "a made-up peer", NULL};

struct place {
    struct mo_bench_session session;
    char venv[64], python[96];
    struct mo_env env;
};

static void open_place(struct place *p) {
    moire_error err = {0};
    char *argv[] = {"bench"};
    p->env = mo_env_default();
    if (mo_bench_session_open(&p->env, 1, argv, &p->session, &err)) fail_msg("%s", err.message);
    snprintf(p->venv, sizeof p->venv, "/tmp/moire-venv-XXXXXX");
    assert_non_null(mkdtemp(p->venv));
    snprintf(p->python, sizeof p->python, "%s/bin", p->venv);
    assert_int_equal(mkdir(p->python, 0755), 0);
    snprintf(p->python, sizeof p->python, "%s/bin/python", p->venv);
    p->session.venv = p->venv;
    p->session.quiet = true;
}

static void close_place(struct place *p) {
    mo_bench_session_close(&p->session);
    unlink(p->python);
    *strrchr(p->python, '/') = 0;
    rmdir(p->python);
    rmdir(p->venv);
}

static int start(struct place *p, const char *script, struct mo_bench_child *child, moire_error *err) {
    FILE *f = fopen(p->python, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\n%s\n", script);
    fclose(f);
    assert_int_equal(chmod(p->python, 0755), 0);
    const struct mo_bench_tenant tenant = {.name = "t\"<", .model = "m.onnx"};
    const int64_t qos = 5;
    memset(err, 0, sizeof *err);
    return mo_bench_child_start(&p->session, &system_row, &tenant, &qos, 1, 1, false, false, child, err);
}

static void answers_arrive(void **state) {
    (void)state;
    struct place p;
    struct mo_bench_child child;
    moire_error err;
    const char *answer;
    double now, peak;
    open_place(&p);
    assert_int_equal(start(&p,
                           "echo ready; while read l; do [ \"$l\" = quit ] && exit; echo \"got $l\"; done",
                           &child, &err),
                     0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mo_bench_child_ask(&child, "solo 0 5", 10, &answer, &err), 0);
        assert_string_equal(answer, "got solo 0 5");
    }
    mo_bench_child_memory(&child, &now, &peak);
    assert_true(now > 0 && peak >= now);
    mo_bench_child_stop(&child);
    mo_bench_child_stop(&child); /* twice is fine */
    close_place(&p);
}

/* The runner is told what the runtime's planner shall expect at first; of whom nothing is known, nothing. */
static void declared_rates_reach_the_runner(void **state) {
    (void)state;
    struct place p;
    struct mo_bench_child child;
    struct mo_bench_job job;
    moire_error err = {0};
    open_place(&p);
    FILE *f = fopen(p.python, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\nfor job; do :; done\ncp \"$job\" '%s/job'\necho ready; read l\n", p.venv);
    fclose(f);
    assert_int_equal(chmod(p.python, 0755), 0);
    const struct mo_bench_tenant tenants[] = {{.name = "a", .model = "a.onnx", .rate = 7, .declared = 12.5},
                                              {.name = "b", .model = "b.onnx", .rate = 7}};
    const int64_t qos[] = {5, 5};
    if (mo_bench_child_start(&p.session, &system_row, tenants, qos, 2, 1, false, false, &child, &err))
        fail_msg("%s", err.message);
    mo_bench_child_stop(&child);
    char path[96];
    snprintf(path, sizeof path, "%s/job", p.venv);
    if (mo_bench_job_load(&p.env, path, &job, &err)) fail_msg("%s", err.message);
    assert_true(job.tenants[0].declared == 12.5 && job.tenants[1].declared == 0);
    mo_bench_job_close(&job);
    unlink(path);
    close_place(&p);
}

static void failures_name_the_system(void **state) {
    (void)state;
    static const struct {
        const char *script;
        int code;
        const char *text;
    } rows[] = {
        {"echo 'error -4 bad file'", MOIRE_EFORMAT, "a-peer: bad file"},
        {"exit 3", MOIRE_EFAILED, "a-peer: its runner died"},
        {"echo nonsense; sleep 5", MOIRE_EFAILED, "a-peer: unexpected answer"},
        {"kill -9 $$", MOIRE_EFAILED, "a-peer: its runner died"},
        {"exec 2>/dev/null; yes | tr -d '\\n' | head -c 3000000 2>/dev/null", MOIRE_EFAILED,
         "a-peer: answer too long"},
    };
    struct place p;
    open_place(&p);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mo_bench_child child;
        moire_error err;
        assert_int_equal(start(&p, rows[i].script, &child, &err), rows[i].code);
        if (!strstr(err.message, rows[i].text)) fail_msg("%s", err.message);
        assert_int_equal(child.pid, 0);
    }
    close_place(&p);
}

static void death_and_silence_while_asked(void **state) {
    (void)state;
    struct place p;
    struct mo_bench_child child;
    moire_error err;
    const char *answer;
    open_place(&p);
    assert_int_equal(start(&p, "echo ready; read l; exit 1", &child, &err), 0);
    assert_int_equal(mo_bench_child_ask(&child, "solo", 10, &answer, &err), MOIRE_EFAILED);
    mo_bench_child_stop(&child);
    assert_int_equal(start(&p, "echo ready; read l; sleep 30", &child, &err), 0);
    assert_int_equal(mo_bench_child_ask(&child, "solo", 0, &answer, &err), MOIRE_EFAILED);
    assert_non_null(strstr(err.message, "no answer"));
    kill(-child.pid, SIGKILL);
    mo_bench_child_stop(&child);
    close_place(&p);
}

static void interrupt_ends_a_wait(void **state) {
    (void)state;
    struct place p;
    struct mo_bench_child child;
    moire_error err;
    const char *answer;
    open_place(&p);
    assert_int_equal(start(&p, "echo ready; read l; sleep 30", &child, &err), 0);
    kill(getpid(), SIGINT); /* blocked by the session, read from its descriptor */
    assert_int_equal(mo_bench_child_ask(&child, "solo", 60, &answer, &err), MOIRE_EINTERRUPTED);
    mo_bench_child_stop(&child);
    close_place(&p);
}

static void missing_peer_says_what_to_do(void **state) {
    (void)state;
    struct place p;
    open_place(&p);
    assert_non_null(strstr(mo_bench_missing(&p.session, "onnxruntime"), "make peers"));
    assert_non_null(strstr(mo_bench_missing(&p.session, "tvm"), "tools/setup --tvm"));
    assert_null(mo_bench_missing(&p.session, "moire"));
    close_place(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_arrive),           cmocka_unit_test(declared_rates_reach_the_runner),
        cmocka_unit_test(failures_name_the_system), cmocka_unit_test(death_and_silence_while_asked),
        cmocka_unit_test(interrupt_ends_a_wait),    cmocka_unit_test(missing_peer_says_what_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
