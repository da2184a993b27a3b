/* SPDX-License-Identifier: Apache-2.0
 * compile_all.h - `moire compile --all` and `moire tune --all`: every model that the store knows, one after
 * the other, as it was compiled before; for a new processor, or a new version of moire. */
#ifndef MO_COMPILE_ALL_H
#define MO_COMPILE_ALL_H
#include "codegen/search/known_models.h"
#include "tools/moire/compile/compile_run.h"

/* What became of a model. */
enum mo_all_state { MO_ALL_DONE, MO_ALL_CUT, MO_ALL_FAILED, MO_ALL_GONE, MO_ALL_WAITING };
struct mo_all_row {
    const struct mo_known_model *source;
    enum mo_all_state state;
    struct mo_compile_totals totals;
    bool published;
    double seconds;
    moire_error err; /* failed: why */
};

/* The share of a budget that the next of `models` models gets of the seconds that are left: what one leaves
 * over is for those behind it. */
double mo_all_share(double left_s, int models);
/* The table, and the sum below it. */
void mo_all_print(FILE *to, const char *verb, const struct mo_all_row *row, int n, double seconds);
json_t *mo_all_json(const struct mo_all_row *row, int n, double seconds);

/* `run` has the verb, the store and what the user chose for all; its budget is for all.  An exit code: that
 * of the last model that failed.  Models whose file is gone are said and left out. */
int mo_compile_all(struct mo_compile_run *run, const struct mo_options *options);
#endif
