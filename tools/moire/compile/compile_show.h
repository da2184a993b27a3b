/* SPDX-License-Identifier: Apache-2.0
 * compile_show.h - what `moire compile` shows: progress on stderr while it works, then the layers as a table
 * or as JSON on standard output. */
#ifndef MO_COMPILE_SHOW_H
#define MO_COMPILE_SHOW_H
#include "bench/trust/others.h"
#include "tools/moire/compile/compile_finish.h"
#include "tools/moire/command_line/failure.h"

struct mo_compile_progress {
    const struct mo_env *env;
    int64_t started;
    bool terminal;
    int shown;          /* tenths already printed when it is no terminal */
    int64_t last_shown; /* when that was */
    int versions;       /* asked for */
};
/* As mo_search_options.began. */
void mo_compile_show_began(void *ctx, int pending, int other_number);
/* As mo_search_options.progress; ctx is a struct mo_compile_progress. */
void mo_compile_show_progress(void *ctx, const struct mo_search_progress *progress);

/* What the results are shown with. */
struct mo_compile_shown {
    const struct mo_compile_options *compile;
    const char *store;
    const struct mo_finished *model; /* verified and published */
    int n_models;
    json_t *withdrawn; /* layers whose kernels were wrong in a model */
    double seconds;
    struct mo_others others; /* what others took of the processors meanwhile */
    const moire_error *err;  /* the last trouble; its code MOIRE_OK: none */
};
/* What a busy machine does to the times, for people; false: it was quiet, or nobody knows. */
bool mo_compile_busy_line(const struct mo_others *others, char *out, size_t n);
void mo_compile_show_table(const struct mo_search *search, const struct mo_compile_shown *shown);
/* With "error" where there was trouble.  MOIRE_EIO, MOIRE_ENOMEM. */
int mo_compile_show_json(const struct mo_search *search, const struct mo_compile_shown *shown,
                         moire_error *err);
#endif
