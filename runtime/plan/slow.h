/* SPDX-License-Identifier: Apache-2.0
 * slow.h - which hot layers of a plan run by the slow reference, and why: the one line that every way of
 * loading a model says.
 *
 * A layer counts when it runs by its operator's reference and its kind of layer ("3-D Conv") takes 1 % of the
 * model's work; there is something to say when all these take 5 % of it and 20 us.  Work is time on one core
 * without neighbours: measured, where the caller has measured, else estimated (estimate.h).  Counting
 * multiply-adds instead would hide quantized models: there the conversions, which have none, take the time.
 */
#ifndef MO_PLAN_SLOW_H
#define MO_PLAN_SLOW_H
#include "runtime/plan/plan.h"

enum { MO_SLOW_ROWS = 4, MO_SLOW_WHAT = 64, MO_SLOW_TEXT = MOIRE_LINE_BYTES };

/* Layers that are slow for one reason. */
struct mo_slow_row {
    char what[MO_SLOW_WHAT]; /* "3-D Conv", "LSTM", "grouped Conv of 12 channels a group" */
    int layers;
    double share; /* of the model's work, 0 to 1; 0: not known */
};

struct mo_slow {
    int layers; /* 0: nothing to say; the rest is 0 then too, but for `of` */
    int of;     /* layers of the model */
    double share;
    bool measured; /* the shares come from measured times */
    int n_rows;
    struct mo_slow_row row[MO_SLOW_ROWS]; /* most work first */
    int others;                           /* layers with reasons that are in no row */
};

/* ns: time of each layer on one core, NULL = to be estimated.  Layers that multiply and have shapes which are
 * known at run time only count even so, with no work. */
struct mo_slow mo_slow_find(const struct mo_plan *plan, const int64_t *ns);
/* "20 of 23 layers, 99 % of the work, run by the slow reference: 3-D Conv (20)" into out; "" for nothing. */
void mo_slow_text(const struct mo_slow *slow, char *out, size_t n);
#endif
