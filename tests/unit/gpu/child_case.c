/* SPDX-License-Identifier: Apache-2.0
 * child_case.c - see child_case.h. */
#define _GNU_SOURCE
#include "tests/unit/gpu/child_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/fake/gpu/breaks.h"

void child_case_begin(struct child_case *c, const char *inner) {
    char path[800];
    memset(c, 0, sizeof *c);
    fault_sys_init(&c->sys);
    c->env = mo_env_default();
    c->env.sys = &c->sys.table;
    assert_int_equal(c->env.sys->own_folder(c->env.sys->self, c->folder, sizeof c->folder), 0);
    snprintf(c->fakes, sizeof c->fakes, "%s/fake", c->folder);
    snprintf(c->plugin, sizeof c->plugin, "%s/fake/libmoire-breaks.so", c->folder);
    snprintf(c->fault, sizeof c->fault, "%s/fault.%d", c->folder, (int)getpid());
    snprintf(path, sizeof path, "%s/%s", c->folder, inner);
    setenv(BREAKS_PLUGIN, path, 1);
    setenv(BREAKS_FAULT, c->fault, 1);
    unlink(c->fault);
    c->ops = mo_gpu_child_ops();
}

int child_case_try(struct child_case *c, const struct mo_gpu_config *config, moire_error *err) {
    struct mo_gpu_config own = *config;
    own.env = &c->env;
    own.plugin = c->plugin;
    own.path = c->fakes;
    return c->ops->open(&own, &c->system, err);
}

void child_case_open(struct child_case *c, const struct mo_gpu_config *config) {
    moire_error err = {0};
    if (child_case_try(c, config, &err)) fail_msg("%s", err.message);
    mo_gpu_child_bounds(c->system, &(struct mo_gpu_child_bounds){.backoff_ns = 1000000});
}

void child_case_end(struct child_case *c) {
    c->ops->close(c->system);
    unlink(c->fault);
    assert_int_equal(fault_sys_live(&c->sys), 0);
    assert_int_equal(atomic_load(&c->sys.opened), atomic_load(&c->sys.closed));
}

/* In one step: a child that reads half of it would do something else. */
void child_case_break(struct child_case *c, const char *fault) {
    char path[500];
    if (!fault) {
        unlink(c->fault);
        return;
    }
    snprintf(path, sizeof path, "%s.new", c->fault);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(fault, f);
    fclose(f);
    assert_int_equal(rename(path, c->fault), 0);
}

void child_case_wait_started(struct child_case *c, int n) {
    const int64_t until = mo_now(&c->env) + INT64_C(60000000000);
    struct mo_gpu_child_stats stats;
    for (;;) {
        mo_gpu_child_stats(c->system, &stats);
        if (stats.started >= n && stats.pid > 0) return;
        if (mo_now(&c->env) > until) fail_msg("child %d did not come up", n);
        c->env.sys->sleep_until(c->env.sys->self, mo_now(&c->env) + 1000000);
    }
}
