/* SPDX-License-Identifier: Apache-2.0
 * test_gpu_child.c - a plugin in a child process, on the toy: what it does is what it does in this process,
 * whatever ends the child every run is answered once, and handles serve on in the next child. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/unit/gpu/child_case.h"
#include "tests/unit/gpu/toy_gpu.h"

#define TOY "fake/libmoire-toy.so"
enum { SEGMENTS = 4, BATCH = 8, LETS = 3, ROUNDS = 200, INSTANCES = 4 };
static const int64_t SECOND = 1000000000;

/* --- a program, lets, runs ------------------------------------------------------------------------------ */
struct bed {
    struct child_case c;
    struct mo_gpu_port in, out;
    struct mo_gpu_program program;
    struct mo_gpu_loaded *loaded;
    struct mo_gpu_let *lets[LETS];
    float *staging; /* inputs, then outputs, of every let */
};

struct job {
    struct bed *b;
    int at, batch;
    const void *inputs[BATCH];
    void *outputs[BATCH];
    _Atomic int done;
    int code;
    char message[500];
};

static void make_program(struct bed *b) {
    b->in = (struct mo_gpu_port){.name = "x", .bytes = BATCH * (int64_t)sizeof(float)};
    b->out = (struct mo_gpu_port){.name = "y", .bytes = BATCH * (int64_t)sizeof(float)};
    b->program = toy_gpu_program(BATCH, SEGMENTS);
    b->program.inputs = &b->in;
    b->program.outputs = &b->out;
}

static void begin(struct bed *b, const struct mo_gpu_config *config) {
    void *at;
    memset(b, 0, sizeof *b);
    child_case_begin(&b->c, TOY);
    child_case_open(&b->c, config);
    const struct mo_gpu_ops *ops = b->c.ops;
    make_program(b);
    assert_int_equal(ops->program_load(b->c.system, 0, &b->program, INSTANCES, &b->loaded, NULL), MOIRE_OK);
    for (int i = 0; i < LETS; i++)
        assert_int_equal(ops->let_open(b->c.system, 0, i, 1, 1, &b->lets[i], NULL), MOIRE_OK);
    assert_int_equal(ops->staging_alloc(b->c.system, LETS * 2 * BATCH * sizeof(float), &at, NULL), MOIRE_OK);
    b->staging = at;
}

static void end(struct bed *b) {
    for (int i = 0; i < LETS; i++)
        b->c.ops->let_close(b->lets[i]);
    b->c.ops->program_unload(b->loaded);
    b->c.ops->staging_free(b->c.system, b->staging);
    child_case_end(&b->c);
}

static void done(void *ctx, int code, const char *message, const struct mo_gpu_times *times) {
    struct job *j = ctx;
    j->code = code;
    snprintf(j->message, sizeof j->message, "%s", message ? message : "");
    if (!code && (times->start < times->submitted || times->end < times->start)) j->code = MOIRE_EINTERNAL;
    atomic_fetch_add(&j->done, 1);
}

static void make_job(struct bed *b, struct job *j, int at, int batch, float x) {
    memset(j, 0, sizeof *j);
    j->b = b;
    j->at = at;
    j->batch = batch;
    float *in = b->staging + at * 2 * BATCH, *out = in + BATCH;
    for (int q = 0; q < BATCH; q++) {
        in[q] = x + (float)q;
        out[q] = -1;
        j->inputs[q] = &in[q];
        j->outputs[q] = &out[q];
    }
}

static int start(struct job *j, int first, int last, moire_error *err) {
    const struct mo_gpu_run run = {.let = j->b->lets[j->at],
                                   .program = j->b->loaded,
                                   .instance = j->at,
                                   .begin = first,
                                   .end = last,
                                   .batch = j->batch,
                                   .inputs = j->inputs,
                                   .outputs = j->outputs,
                                   .hang_ns = SECOND,
                                   .done = done,
                                   .ctx = j};
    return j->b->c.ops->run(&run, err);
}

static void wait_for(struct job *j, int times) {
    const struct mo_env *env = &j->b->c.env;
    const int64_t until = mo_now(env) + 60 * SECOND;
    while (atomic_load(&j->done) < times) {
        if (mo_now(env) > until) fail_msg("a run was not answered");
        env->sys->sleep_until(env->sys->self, mo_now(env) + 20000);
    }
}

static void check(const struct job *j) {
    if (j->code) fail_msg("%d: %s", j->code, j->message);
    for (int q = 0; q < j->batch; q++)
        assert_true(*(float *)j->outputs[q] == toy_gpu_answer(*(const float *)j->inputs[q], SEGMENTS));
}

/* A whole run that has to end well. */
static void serve(struct bed *b, int at, int batch, float x) {
    struct job j;
    moire_error err = {0};
    make_job(b, &j, at, batch, x);
    if (start(&j, 0, SEGMENTS, &err)) fail_msg("%s", err.message);
    wait_for(&j, 1);
    check(&j);
}

/* --- as in this process --------------------------------------------------------------------------------- */
static void answers_are_the_same(void **state) {
    (void)state;
    struct bed b;
    struct mo_gpu_info info;
    begin(&b, &(struct mo_gpu_config){0});
    assert_int_equal(b.c.ops->count(b.c.system), TOY_GPUS);
    assert_int_equal(b.c.ops->describe(b.c.system, 1, &info, NULL), MOIRE_OK);
    assert_int_equal(info.units, TOY_UNITS);
    assert_string_equal(info.name, "toy");
    assert_int_equal(b.c.ops->counters(b.c.system, 0, NULL, NULL), MOIRE_OK);
    assert_true(b.c.ops->program_bytes(b.loaded) > 0);
    for (int k = 0; k < ROUNDS; k++)
        serve(&b, k % LETS, 1 + k % BATCH, (float)k);
    end(&b);
}

/* Segment by segment, on all lets at once. */
static void segments_follow_one_another(void **state) {
    (void)state;
    struct bed b;
    struct job j[LETS];
    begin(&b, &(struct mo_gpu_config){0});
    for (int i = 0; i < LETS; i++)
        make_job(&b, &j[i], i, BATCH, (float)i);
    for (int s = 0; s < SEGMENTS; s++) {
        for (int i = 0; i < LETS; i++)
            assert_int_equal(start(&j[i], s, s + 1, NULL), MOIRE_OK);
        for (int i = 0; i < LETS; i++)
            wait_for(&j[i], s + 1);
    }
    for (int i = 0; i < LETS; i++)
        check(&j[i]);
    end(&b);
}

static void wrong_arguments_are_refused(void **state) {
    (void)state;
    struct bed b;
    struct job j;
    struct mo_gpu_let *let;
    moire_error err = {0};
    float mine = 0;
    begin(&b, &(struct mo_gpu_config){.queue = 1});
    make_job(&b, &j, 0, BATCH, 1);
    assert_int_equal(start(&j, 0, SEGMENTS + 1, &err), MOIRE_EINVAL);
    assert_int_equal(start(&j, 2, 2, &err), MOIRE_EINVAL);
    j.inputs[BATCH - 1] = &mine;
    assert_int_equal(start(&j, 0, SEGMENTS, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "not in staging memory"));
    assert_int_equal(b.c.ops->let_open(b.c.system, 0, 3, 2, 1, &let, &err), MOIRE_EINVAL);
    assert_int_equal(b.c.ops->let_open(b.c.system, TOY_GPUS, 0, 1, 1, &let, &err), MOIRE_EINVAL);
    assert_int_equal(b.c.ops->program_load(b.c.system, 0, &b.program, 0, &b.loaded, &err), MOIRE_EINVAL);
    assert_int_equal(atomic_load(&j.done), 0);
    make_job(&b, &j, 0, BATCH, 1);
    child_case_break(&b.c, "swallow"); /* holds the let */
    assert_int_equal(start(&j, 0, SEGMENTS, NULL), MOIRE_OK);
    assert_int_equal(start(&j, 0, SEGMENTS, &err), MOIRE_EBUSY);
    wait_for(&j, 1);
    assert_int_equal(j.code, MOIRE_EDEVICE);
    end(&b);
}

/* --- what ends a child ---------------------------------------------------------------------------------- */
/* All lets at work when one run meets the fault: each run is answered once, and in the next child the same
 * handles serve. */
static void survive(const char *fault, const char *why) {
    struct bed b;
    struct job j[LETS];
    int lost = 0;
    begin(&b, &(struct mo_gpu_config){0});
    mo_gpu_child_bounds(b.c.system, &(struct mo_gpu_child_bounds){.stuck_ns = 2 * SECOND});
    assert_int_equal(b.c.ops->prepare(b.loaded, b.lets[0], NULL), MOIRE_OK);
    for (int i = 0; i < LETS; i++) {
        moire_error err = {0};
        make_job(&b, &j[i], i, BATCH, (float)i);
        if (i == 1) child_case_break(&b.c, fault);
        int code = start(&j[i], 0, SEGMENTS, &err);
        if (!code) continue;
        assert_int_equal(code, MOIRE_EDEVICE); /* it has gone already, and why is not known yet */
        done(&j[i], code, why, NULL);
    }
    for (int i = 0; i < LETS; i++) {
        wait_for(&j[i], 1);
        if (!j[i].code) check(&j[i]);
        if (!j[i].code) continue;
        lost++;
        assert_int_equal(j[i].code, MOIRE_EDEVICE);
        if (!strstr(j[i].message, why)) fail_msg("'%s' does not say '%s'", j[i].message, why);
    }
    if (strcmp(fault, "forge")) assert_true(lost > 0); /* that one may come after all other answers */
    child_case_wait_started(&b.c, 2);
    for (int k = 0; k < 20; k++)
        serve(&b, k % LETS, 1 + k % BATCH, (float)k);
    for (int i = 0; i < LETS; i++)
        assert_int_equal(atomic_load(&j[i].done), 1);
    end(&b);
}

static void killed(void **state) {
    (void)state;
    survive("kill", "was ended by signal 9");
}
static void a_fault_of_its_own(void **state) {
    (void)state;
    survive("segv", "was ended by signal 11");
}
static void a_run_that_never_ends(void **state) {
    (void)state;
    survive("swallow", "counts as hung");
}
static void a_child_that_stands_still(void **state) {
    (void)state;
    survive("stop", "takes no more work");
}
static void a_channel_full_of_noise(void **state) {
    (void)state;
    survive("scribble", "damaged");
}
static void an_answer_that_was_not_asked_for(void **state) {
    (void)state;
    survive("forge", "answers what was not asked");
}

/* What the plugin's run() says comes back; nothing else is affected. */
static void a_run_that_is_refused(void **state) {
    (void)state;
    struct bed b;
    struct job j;
    struct mo_gpu_child_stats stats;
    begin(&b, &(struct mo_gpu_config){0});
    make_job(&b, &j, 0, BATCH, 1);
    child_case_break(&b.c, "refuse");
    assert_int_equal(start(&j, 0, SEGMENTS, NULL), MOIRE_OK);
    wait_for(&j, 1);
    assert_int_equal(j.code, MOIRE_ENOMEM);
    assert_string_equal(j.message, "no memory, as told");
    serve(&b, 0, BATCH, 3);
    mo_gpu_child_stats(b.c.system, &stats);
    assert_int_equal(stats.lost, 0);
    end(&b);
}

static void kill_now(struct bed *b) {
    struct mo_gpu_child_stats stats;
    mo_gpu_child_stats(b->c.system, &stats);
    assert_true(stats.pid > 0);
    kill(stats.pid, SIGKILL);
}

/* A batch between two segments is not in flight, but what it left is gone. */
static void a_batch_between_two_segments(void **state) {
    (void)state;
    struct bed b;
    struct job j;
    moire_error err = {0};
    begin(&b, &(struct mo_gpu_config){0});
    make_job(&b, &j, 0, BATCH, 1);
    assert_int_equal(start(&j, 0, 2, NULL), MOIRE_OK);
    wait_for(&j, 1);
    kill_now(&b);
    child_case_wait_started(&b.c, 2);
    assert_int_equal(start(&j, 2, SEGMENTS, &err), MOIRE_EDEVICE);
    assert_non_null(strstr(err.message, "went with the process"));
    serve(&b, 0, BATCH, 5);
    end(&b);
}

/* While there is no child: refusals with a reason, lets and memory for later, programs that wait. */
static void a_child_that_does_not_come_back(void **state) {
    (void)state;
    struct bed b;
    struct job j;
    struct mo_gpu_let *let;
    struct mo_gpu_loaded *loaded;
    void *memory;
    moire_error err = {0};
    begin(&b, &(struct mo_gpu_config){0});
    const struct mo_gpu_ops *ops = b.c.ops;
    mo_gpu_child_bounds(b.c.system, &(struct mo_gpu_child_bounds){.load_timeout_ns = SECOND / 10});
    child_case_break(&b.c, "never");
    kill_now(&b);
    make_job(&b, &j, 0, BATCH, 1);
    while (ops->counters(b.c.system, 0, NULL, &err) == MOIRE_OK) {
    }
    assert_int_equal(start(&j, 0, SEGMENTS, &err), MOIRE_EDEVICE);
    assert_non_null(strstr(err.message, "started anew"));
    assert_int_equal(ops->program_load(b.c.system, 0, &b.program, 1, &loaded, &err), MOIRE_EDEVICE);
    assert_int_equal(ops->let_open(b.c.system, 1, 0, 4, 0, &let, &err), MOIRE_OK);
    assert_int_equal(ops->staging_alloc(b.c.system, 10000, &memory, &err), MOIRE_OK);
    mo_gpu_child_bounds(b.c.system, &(struct mo_gpu_child_bounds){.load_timeout_ns = 60 * SECOND});
    child_case_break(&b.c, NULL);
    if (ops->program_load(b.c.system, 0, &b.program, 1, &loaded, &err)) fail_msg("%s", err.message);
    serve(&b, 0, BATCH, 5);
    ops->program_unload(loaded);
    ops->let_close(let);
    ops->staging_free(b.c.system, memory);
    end(&b);
}

/* Runs from many rounds, a child that is killed in any moment: each is answered once. */
static void killed_again_and_again(void **state) {
    (void)state;
    struct bed b;
    struct job j[LETS];
    int good = 0, bad = 0;
    begin(&b, &(struct mo_gpu_config){0});
    for (int k = 0; k < 8; k++) {
        child_case_wait_started(&b.c, k + 1);
        const int64_t until = mo_now(&b.c.env) + (k + 1) * 3000000;
        bool killed_it = false;
        for (int round = 0; !killed_it || round % 4; round++) {
            for (int i = 0; i < LETS; i++) {
                moire_error err = {0};
                make_job(&b, &j[i], i, 1 + round % BATCH, (float)round);
                const int code = start(&j[i], 0, SEGMENTS, &err);
                if (code) done(&j[i], code, err.message, NULL);
            }
            if (!killed_it && mo_now(&b.c.env) > until) {
                kill_now(&b);
                killed_it = true;
            }
            for (int i = 0; i < LETS; i++) {
                wait_for(&j[i], 1);
                if (!j[i].code) check(&j[i]);
                if (j[i].code) assert_int_equal(j[i].code, MOIRE_EDEVICE);
                good += !j[i].code;
                bad += j[i].code != 0;
            }
        }
    }
    assert_true(good > 0);
    assert_true(bad > 0);
    end(&b);
}

/* --- begin and end -------------------------------------------------------------------------------------- */
static void children_that_never_start(void **state) {
    (void)state;
    struct child_case c;
    moire_error err = {0};
    child_case_begin(&c, TOY);
    assert_int_equal(child_case_try(&c, &(struct mo_gpu_config){.process = "child:/no/such"}, &err),
                     MOIRE_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "/no/such"));
    assert_int_equal(child_case_try(&c, &(struct mo_gpu_config){.process = "child:/bin/false"}, &err),
                     MOIRE_EDEVICE);
    assert_non_null(strstr(err.message, "has ended with status 1"));
    child_case_break(&c, "never");
    assert_int_equal(child_case_try(&c, &(struct mo_gpu_config){0}, &err), MOIRE_EUNSUPPORTED);
    assert_string_equal(err.message, "no GPU today");
    snprintf(c.plugin, sizeof c.plugin, "libmoire-nothing.so");
    assert_int_equal(child_case_try(&c, &(struct mo_gpu_config){0}, &err), MOIRE_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "no GPU plugin"));
    c.system = NULL;
    child_case_end(&c);
}

static int open_and_close(void *ctx) {
    struct child_case *c = ctx;
    const int code = child_case_try(c, &(struct mo_gpu_config){0}, NULL);
    if (!code) c->ops->close(c->system);
    return code;
}

static void memory_is_short(void **state) {
    (void)state;
    struct child_case c;
    child_case_begin(&c, TOY);
    assert_true(fault_sys_sweep(&c.sys, open_and_close, &c, MOIRE_ENOMEM) >= 3);
    c.system = NULL;
    child_case_end(&c);
}

/* 'Z' or gone; whoever is process 1 here may not reap. */
static bool has_ended(int pid) {
    char path[64], name = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f) return true;
    if (fscanf(f, "%*d (%*[^)]) %c", &name) != 1) name = 'Z';
    fclose(f);
    return name == 'Z' || name == 'X';
}

static void the_child_ends_with_us(void **state) {
    (void)state;
    int ends[2], pid = 0, status;
    assert_int_equal(pipe(ends), 0);
    const pid_t us = fork();
    if (us == 0) {
        struct child_case c;
        struct mo_gpu_child_stats stats;
        child_case_begin(&c, TOY);
        if (child_case_try(&c, &(struct mo_gpu_config){0}, NULL)) _exit(1);
        mo_gpu_child_stats(c.system, &stats);
        if (write(ends[1], &stats.pid, sizeof stats.pid) < 0) _exit(1);
        pause();
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &pid, sizeof pid), sizeof pid);
    assert_true(pid > 0 && !has_ended(pid));
    kill(us, SIGKILL);
    assert_int_equal(waitpid(us, &status, 0), us);
    for (int i = 0; i < 10000 && !has_ended(pid); i++)
        usleep(1000);
    assert_true(has_ended(pid));
    close(ends[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_child_ends_with_us),
        cmocka_unit_test(answers_are_the_same),
        cmocka_unit_test(segments_follow_one_another),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(killed),
        cmocka_unit_test(a_fault_of_its_own),
        cmocka_unit_test(a_run_that_never_ends),
        cmocka_unit_test(a_child_that_stands_still),
        cmocka_unit_test(a_channel_full_of_noise),
        cmocka_unit_test(an_answer_that_was_not_asked_for),
        cmocka_unit_test(a_run_that_is_refused),
        cmocka_unit_test(a_batch_between_two_segments),
        cmocka_unit_test(a_child_that_does_not_come_back),
        cmocka_unit_test(killed_again_and_again),
        cmocka_unit_test(children_that_never_start),
        cmocka_unit_test(memory_is_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
