/* SPDX-License-Identifier: Apache-2.0
 * batch_choose.c - which waiting queries are run together; see batch_choose.h. */
#include "serve/batch/batch_choose.h"

#include <stddef.h>

/* A run takes this part longer than predicted, now and then. */
static const double MARGIN = 0.1;
/* Part of the time a row that joining must save: less is within what predictions are off by. */
static const double WORTH = 0.05;
/* Sizes that cost the same but for this are alike, and the preferred one is taken. */
static const double ALIKE = 0.02;

static double a_row(const struct ms_size *s, int64_t rows) {
    return (double)s->one_ns / (double)rows;
}

bool ms_batch_pays(const struct ms_size *alone, const struct ms_size *size, int n_sizes) {
    for (int i = 0; i < n_sizes; i++)
        if (alone->one_ns > 0 && size[i].one_ns > 0 &&
            a_row(&size[i], size[i].rows) < (1 - WORTH) * a_row(alone, alone->rows))
            return true;
    return false;
}

/* While nothing else of the model runs, it may have all cores. */
static int64_t takes(const struct ms_scene *s, const struct ms_size *size) {
    const int64_t ns = s->under_way ? size->one_ns : size->least_ns;
    return ns + (int64_t)((double)ns * MARGIN);
}

static bool makes_it(const struct ms_scene *s, const struct ms_waiting *w, const struct ms_size *size) {
    return w->deadline_ns == MS_NEVER || w->deadline_ns - s->now_ns >= takes(s, size);
}

/* Not even alone, on all cores. */
static bool is_lost(const struct ms_scene *s, const struct ms_waiting *w) {
    return w->deadline_ns != MS_NEVER && w->deadline_ns - s->now_ns < s->alone.least_ns;
}

/* Those who can be in time, or who cannot: whose turn it is, and of whom there are some. */
static int candidates(const struct ms_scene *s, int *list, bool *lost) {
    int n = 0;
    *lost = s->turn_of_lost;
    for (int pass = 0; pass < 2 && !n; pass++, *lost = n ? *lost : !*lost)
        for (int i = 0; i < s->n && n < MS_BATCH_LOOK; i++)
            if (is_lost(s, &s->waiting[i]) == *lost) list[n++] = i;
    return n;
}

/* Fills a size in order; a query for which there is no room, or that would be late, waits on.  The first one
 * is always taken along.  Returns: rows; 0: not without making the first late. */
static int64_t fill(const struct ms_scene *s, const int *list, int n, bool lost, int size,
                    struct ms_choice *c) {
    const struct ms_size *z = &s->size[size];
    int64_t rows = 0;
    c->n = 0;
    c->size = size;
    for (int i = 0; i < n && c->n < MS_BATCH_ROWS; i++) {
        const struct ms_waiting *w = &s->waiting[list[i]];
        const bool fits = rows + w->rows <= z->rows && (lost || makes_it(s, w, z));
        if (!fits && !i) return 0;
        if (!fits) continue;
        rows += w->rows;
        c->picked[c->n++] = list[i];
    }
    return c->n > 1 ? rows : 0;
}

/* The next size that is worth waiting for; NULL: none. */
static const struct ms_size *larger(const struct ms_scene *s, int64_t rows, double cost) {
    bool any_preferred = false;
    for (int i = 0; i < s->n_sizes; i++)
        any_preferred = any_preferred || s->size[i].preferred;
    for (int i = 0; i < s->n_sizes; i++)
        if (s->size[i].rows > rows && (!any_preferred || s->size[i].preferred) &&
            a_row(&s->size[i], s->size[i].rows) < (1 - WORTH) * cost)
            return &s->size[i];
    return NULL;
}

/* Until when the chosen ones may wait for others: for the delay, and not so long that a larger run would be
 * late. */
static int64_t patience(const struct ms_scene *s, const struct ms_choice *c, const struct ms_size *size) {
    int64_t until = MS_NEVER;
    for (int i = 0; i < c->n; i++) {
        const struct ms_waiting *w = &s->waiting[c->picked[i]];
        if (w->arrival_ns + s->delay_ns < until) until = w->arrival_ns + s->delay_ns;
        if (w->deadline_ns != MS_NEVER && w->deadline_ns - takes(s, size) < until)
            until = w->deadline_ns - takes(s, size);
    }
    return until;
}

/* The cheapest a row. */
static double cheapest(const struct ms_scene *s, const int *list, int n, bool lost, struct ms_choice *out,
                       int64_t *rows) {
    const bool known = s->alone.one_ns > 0;
    double best = a_row(&s->alone, s->alone.rows);
    out->n = 1;
    out->picked[0] = list[0];
    out->size = -1;
    *rows = s->waiting[list[0]].rows;
    for (int i = 0; i < s->n_sizes && known; i++) {
        struct ms_choice c;
        const int64_t filled = fill(s, list, n, lost, i, &c);
        if (!filled || s->size[i].one_ns <= 0) continue;
        const double cost = a_row(&s->size[i], filled);
        const bool preferred = out->size >= 0 && s->size[i].preferred && !s->size[out->size].preferred;
        const double bar = out->size < 0 ? 1 - WORTH : preferred ? 1 + ALIKE : 1;
        if (cost >= bar * best) continue;
        best = cost;
        *rows = filled;
        c.again_ns = MS_NEVER;
        *out = c;
    }
    return best;
}

void ms_batch_choose(const struct ms_scene *s, struct ms_choice *out) {
    int list[MS_BATCH_LOOK];
    bool lost;
    int64_t rows;
    out->n = 0;
    out->size = -1;
    out->again_ns = MS_NEVER;
    if (s->under_way >= s->window || s->n < 1) return;
    const int n = candidates(s, list, &lost);
    const double cost = cheapest(s, list, n, lost, out, &rows);
    if (!s->delay_ns || lost || out->n < n || s->alone.one_ns <= 0) return;
    const bool preferred = out->size >= 0 && s->size[out->size].preferred && rows == s->size[out->size].rows;
    const struct ms_size *next = preferred ? NULL : larger(s, rows, cost);
    const int64_t until = next ? patience(s, out, next) : s->now_ns;
    if (until <= s->now_ns) return;
    out->n = 0;
    out->again_ns = until;
}
