/* SPDX-License-Identifier: Apache-2.0
 * compile_run.h - one run of `moire compile` or `moire tune` over some models: search, verify, publish, and
 * note in the store which models these were. */
#ifndef MO_COMPILE_RUN_H
#define MO_COMPILE_RUN_H
#include "tools/moire/compile/compile_show.h"

/* Stays where it is from mo_compile_run() to mo_compile_run_close(). */
struct mo_compile_run {
    const struct mo_env *env;
    const char *verb, *store;
    bool verbose;
    const _Atomic int *interrupted;
    struct mo_compile_options compile; /* its search: what the user chose; the rest is filled in */
    struct mo_env logging;             /* of this run: what the search lives in */
    /* out: */
    struct mo_search *search;  /* NULL: nothing was begun */
    moire_error trouble;       /* the last of verifying and publishing */
    struct mo_finished *model; /* room for all files */
    struct mo_compile_shown shown;
};

/* MOIRE_OK with the exit code of verifying and publishing, whose trouble was said on standard error; or the
 * error that ended the search, which the caller says. */
int mo_compile_run(struct mo_compile_run *run, int *exit_code, moire_error *err);
void mo_compile_run_close(struct mo_compile_run *run);
#endif
