/* SPDX-License-Identifier: Apache-2.0
 * tally.c - counts and histograms of a model's queries; see tally.h. */
#include "serve/query/tally.h"

#define DECADE(unit)                                                                                         \
    (unit), (unit)*1.2, (unit)*1.5, (unit)*2, (unit)*2.5, (unit)*3, (unit)*4, (unit)*5, (unit)*6, (unit)*8
const double ms_tally_bound[MS_BOUNDS] = {DECADE(1e-4), DECADE(1e-3), DECADE(1e-2),
                                          DECADE(1e-1), DECADE(1.0),  10};

void ms_times_add(struct ms_times *times, int64_t ns) {
    int from = 0, to = MS_BOUNDS;
    if (ns < 0) ns = 0;
    while (from < to) {
        const int middle = (from + to) / 2;
        if ((double)ns <= ms_tally_bound[middle] * 1e9)
            to = middle;
        else
            from = middle + 1;
    }
    times->bucket[from]++;
    times->count++;
    times->sum_ns += ns;
}

static bool is_due(int code) {
    return code != MOIRE_EINVAL && code != MOIRE_ESHAPE && code != MOIRE_EUNSUPPORTED &&
           code != MOIRE_EFORMAT && code != MOIRE_ECANCELLED;
}

void ms_tally_end(struct ms_tally *t, int code, bool in_time, int64_t now_ns) {
    const int64_t second = now_ns / 1000000000;
    t->ended[-code >= 0 && -code < MS_CODES ? -code : -MOIRE_EINTERNAL]++;
    if (!is_due(code)) return;
    const int i = (int)(second % MS_SECONDS);
    if (t->lately[i].second != second) {
        t->lately[i].second = second;
        t->lately[i].share = (struct ms_share){0};
    }
    const bool met = !code && in_time;
    t->lately[i].share.due++;
    t->lately[i].share.in_time += met;
    t->share.due++;
    t->share.in_time += met;
}

struct ms_share ms_tally_lately(const struct ms_tally *t, int64_t now_ns) {
    const int64_t now = now_ns / 1000000000;
    struct ms_share sum = {0};
    for (int i = 0; i < MS_SECONDS; i++)
        if (t->lately[i].second > now - MS_SECONDS && t->lately[i].second <= now) {
            sum.due += t->lately[i].share.due;
            sum.in_time += t->lately[i].share.in_time;
        }
    return sum;
}

int64_t ms_tally_failed(const struct ms_tally *tally) {
    int64_t n = 0;
    for (int i = 1; i < MS_CODES; i++)
        n += tally->ended[i];
    return n;
}

void ms_tally_run(struct ms_tally *t, int64_t rows, int64_t input_ns, int64_t compute_ns) {
    int i = 0;
    t->runs++;
    t->rows += rows;
    while (i < MS_RUN_SIZES && t->by_rows[i].count && t->by_rows[i].rows != rows)
        i++;
    if (i == MS_RUN_SIZES) return;
    t->by_rows[i].rows = rows;
    t->by_rows[i].count++;
    t->by_rows[i].input_ns += input_ns;
    t->by_rows[i].compute_ns += compute_ns;
}
