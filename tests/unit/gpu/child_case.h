/* SPDX-License-Identifier: Apache-2.0
 * child_case.h - for tests: a GPU plugin in a child process that breaks when it is told to
 * (tests/fake/gpu/breaks.h). */
#ifndef CHILD_CASE_H
#define CHILD_CASE_H
#include "runtime/gpu/child/child.h"
#include "tests/unit/base/fault_sys.h"

struct child_case {
    struct fault_sys sys;
    struct mo_env env;
    char folder[400]; /* of this program */
    char fault[440], plugin[440], fakes[440];
    const struct mo_gpu_ops *ops;
    struct mo_gpu_system *system;
};

/* The plugin inside: a file beside this program. */
void child_case_begin(struct child_case *c, const char *inner);
int child_case_try(struct child_case *c, const struct mo_gpu_config *config, moire_error *err);
void child_case_open(struct child_case *c, const struct mo_gpu_config *config);
void child_case_end(struct child_case *c); /* closes; nothing may be left */
/* The next run in the child does that; NULL: none does. */
void child_case_break(struct child_case *c, const char *fault);
/* Waits until `n` children have come up. */
void child_case_wait_started(struct child_case *c, int n);
#endif
