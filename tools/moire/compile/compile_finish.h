/* SPDX-License-Identifier: Apache-2.0
 * compile_finish.h - the end of `moire compile` and `moire tune`: every model is verified as a whole with the
 * kernels that the store has now, and published.  Wrong kernels leave the store and are named on stderr. */
#ifndef MO_COMPILE_FINISH_H
#define MO_COMPILE_FINISH_H
#include <jansson.h>
#include "codegen/compile/compile.h"
#include "tools/moire/compile/publish.h"

/* A model as it came out. */
struct mo_finished {
    const char *file;
    bool verified, published;
    struct mo_verified found;
    bool cut;            /* the budget ended before it was */
    int64_t bytes;       /* of the compiled model */
    struct mo_slow slow; /* its hot layers without a fast kernel */
};

struct mo_finish {
    const struct mo_env *env;
    const char *verb, *store;
    const struct mo_compile_options *compile;
    struct mo_search *search;       /* its results hear of what is withdrawn */
    const _Atomic int *interrupted; /* no model is begun then */
    int64_t ends;                   /* time at which what is in work is given up; 0: none */
    struct mo_finished *model;      /* room for all files of `compile` */
    int n;
    json_t *withdrawn; /* an object a layer; the caller's */
    const char *file;  /* in work */
    moire_error err;   /* the last trouble */
};

/* MO_EXIT_OK, or the exit code of the last trouble, which `err` holds: MO_EXIT_FAILED when a kernel was
 * wrong. Every trouble is said on standard error. */
int mo_compile_finish(struct mo_finish *finish);
#endif
