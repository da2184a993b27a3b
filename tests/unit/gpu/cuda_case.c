/* SPDX-License-Identifier: Apache-2.0
 * cuda_case.c - the fake driver, a plugin on it, runs. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "tests/unit/gpu/cuda_case.h"

/* The folder fake/ beside this program. */
static void find_folder(char *out, size_t n) {
    char exe[300];
    const ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
    assert_true(len > 0);
    exe[len] = 0;
    char *slash = strrchr(exe, '/');
    assert_non_null(slash);
    *slash = 0;
    snprintf(out, n, "%s/fake", exe);
}

void cuda_case_begin(struct cuda_case *c, const struct mo_fake_config *config) {
    memset(c, 0, sizeof *c);
    fault_sys_init(&c->sys);
    c->env = mo_env_default();
    c->env.sys = &c->sys.table;
    find_folder(c->folder, sizeof c->folder);
    char path[440];
    snprintf(path, sizeof path, "%s/libcuda.so.1", c->folder);
    c->object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!c->object) fail_msg("%s", dlerror());
    const struct mo_fake_cuda *(*get)(void);
    void *f = dlsym(c->object, "mo_fake_cuda");
    memcpy(&get, &f, sizeof get);
    void *launch = dlsym(c->object, "mo_fake_launch");
    memcpy(&c->launch, &launch, sizeof launch);
    assert_non_null(f);
    assert_non_null(launch);
    c->fake = get();
    c->fake->reset(config);
}

int cuda_case_try(struct cuda_case *c, const struct mo_gpu_ops *ops, const struct mo_gpu_config *config,
                  moire_error *err) {
    struct mo_gpu_config own = *config;
    own.env = &c->env;
    own.path = c->folder;
    c->ops = ops;
    return ops->open(&own, &c->system, err);
}

void cuda_case_open(struct cuda_case *c, const struct mo_gpu_ops *ops, const struct mo_gpu_config *config) {
    moire_error err = {0};
    const int rc = cuda_case_try(c, ops, config, &err);
    if (rc) fail_msg("%s", err.message);
}

void cuda_case_check_empty(struct cuda_case *c) {
    struct mo_fake_counts n;
    c->fake->counts(&n);
    assert_int_equal(n.contexts + n.green + n.streams + n.events + n.graphs + n.graph_execs, 0);
    assert_int_equal(n.libraries + n.memory + n.host_memory, 0);
}

void cuda_case_end(struct cuda_case *c) {
    if (c->system) c->ops->close(c->system);
    struct mo_fake_counts n;
    c->fake->counts(&n);
    if (n.mistakes) fail_msg("%d mistakes, the last: %s", n.mistakes, n.mistake);
    assert_int_equal(n.after_loss, 0);
    if (!c->lost) cuda_case_check_empty(c);
    c->fake->reset(&(struct mo_fake_config){0});
    assert_int_equal(fault_sys_live(&c->sys), 0);
    if (!c->lost) assert_int_equal(atomic_load(&c->sys.opened), atomic_load(&c->sys.closed));
    dlclose(c->object);
}

static void compute(void *args) {
    struct cuda_run *run;
    memcpy(&run, args, sizeof run);
    if (run->compute) run->compute(run);
}

static int enqueue(void *work, struct mo_cuda_track *track, int part, moire_error *err) {
    struct cuda_run *run = work;
    if (part == run->fail_part - 1) return mo_fail(err, MOIRE_ENOMEM, "part %d does not fit", part);
    if (part != 1) return MOIRE_OK;
    const unsigned r = run->c->launch(track->stream, run->name, compute, &run, sizeof run, run->sm_ns);
    return r ? mo_fail(err, r == 700 ? MOIRE_EDEVICE : MOIRE_EFAILED, "launch: %u", r) : MOIRE_OK;
}

static void done(void *ctx, int code, const char *message, const struct mo_gpu_times *times) {
    struct cuda_run *run = ctx;
    run->code = code;
    snprintf(run->message, sizeof run->message, "%s", message ? message : "");
    if (times) run->times = *times;
    if (run->then) run->then(run);
    atomic_fetch_add(&run->done, 1);
}

struct mo_cuda_work cuda_run_work(struct cuda_run *run) {
    return (struct mo_cuda_work){.enqueue = enqueue, .work = run, .done = done, .ctx = run};
}

void cuda_run_wait(struct cuda_run *run, int times) {
    const struct mo_env *env = &run->c->env;
    const int64_t most = 20000000000, begin = mo_now(env);
    while (atomic_load(&run->done) < times) {
        if (mo_now(env) - begin > most) fail_msg("run '%s' was not answered %d times", run->name, times);
        env->sys->sleep_until(env->sys->self, mo_now(env) + 50000);
    }
}
