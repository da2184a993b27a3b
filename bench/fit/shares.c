/* SPDX-License-Identifier: Apache-2.0
 * shares.c - leaving measurements out and predicting them; see shares.h. */
#include "bench/fit/shares.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/report/report_page.h"
#include "runtime/base/numbers.h"

static const char *const ways[MO_SHARES_WAYS] = {[MO_SHARES_BATCH] = "batch",
                                                 [MO_SHARES_POWERS] = "powers",
                                                 [MO_SHARES_SHARE] = "share",
                                                 [MO_SHARES_HOLE] = "hole"};

const char *mo_shares_way(int way) {
    return ways[way];
}

/* What is left out, and the errors found so far. */
struct work {
    const struct mo_share_profile *p;
    bool batch[MO_SHARE_GRID], share[MO_SHARE_GRID]; /* left out */
    int cell;                                        /* left out alone; -1 = none */
    double *error;
    int n;
};

static const struct mo_share_cell *cell_of(const struct mo_share_profile *p, int i, int j) {
    return &p->cell[i * p->n_shares + j];
}

/* The profile without what is left out. */
static int build(const struct work *w, struct mo_share_profile **out, moire_error *err) {
    const struct mo_share_profile *p = w->p;
    int batch[MO_SHARE_GRID], share[MO_SHARE_GRID], n_batches = 0, n_shares = 0;
    for (int i = 0; i < p->n_batches; i++)
        if (!w->batch[i]) batch[n_batches++] = p->batch[i];
    for (int j = 0; j < p->n_shares; j++)
        if (!w->share[j]) share[n_shares++] = p->share[j];
    struct mo_share_profile *q = mo_share_create(p->env, n_batches, batch, n_shares, share);
    *out = q;
    if (!q) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    for (int i = 0, a = 0; i < p->n_batches; i++) {
        if (w->batch[i]) continue;
        for (int j = 0, b = 0; j < p->n_shares; j++) {
            if (w->share[j]) continue;
            if (i * p->n_shares + j != w->cell) mo_share_record(q, a, b, cell_of(p, i, j));
            b++;
        }
        a++;
    }
    return mo_share_finish(q, err);
}

/* Predicts every measured cell that is left out. */
static int predict(struct work *w, moire_error *err) {
    const struct mo_share_profile *p = w->p;
    struct mo_share_profile *q;
    int code = build(w, &q, err);
    for (int i = 0; !code && i < p->n_batches; i++)
        for (int j = 0; j < p->n_shares; j++) {
            double measured = (double)cell_of(p, i, j)->ns;
            bool out = w->batch[i] || w->share[j] || i * p->n_shares + j == w->cell;
            if (out && measured > 0)
                w->error[w->n++] = fabs((double)mo_share_latency(q, p->batch[i], p->share[j]) / measured - 1);
        }
    mo_share_destroy(q);
    return code;
}

static int leave_batches(struct work *w, moire_error *err) {
    int code = MOIRE_OK;
    for (int i = 1; !code && i + 1 < w->p->n_batches; i++) {
        w->batch[i] = true;
        code = predict(w, err);
        w->batch[i] = false;
    }
    return code;
}

/* The last batch is kept in any case: beyond it nothing is predicted. */
static int leave_all_but_powers(struct work *w, moire_error *err) {
    int left = 0;
    for (int i = 1; i + 1 < w->p->n_batches; i++)
        left += w->batch[i] = (w->p->batch[i] & (w->p->batch[i] - 1)) != 0;
    int code = left ? predict(w, err) : MOIRE_OK;
    memset(w->batch, 0, sizeof w->batch);
    return code;
}

static int times_at(const struct mo_share_profile *p, int j) {
    int n = 0;
    for (int i = 0; i < p->n_batches; i++)
        n += cell_of(p, i, j)->ns > 0;
    return n;
}

static int leave_shares(struct work *w, moire_error *err) {
    int code = MOIRE_OK;
    for (int j = 1; !code && j + 1 < w->p->n_shares; j++) {
        w->share[j] = true;
        code = predict(w, err);
        w->share[j] = false;
    }
    return code;
}

static int leave_holes(struct work *w, moire_error *err) {
    const struct mo_share_profile *p = w->p;
    int code = MOIRE_OK;
    for (int j = 0; j < p->n_shares; j++) {
        int seen = 0, all = times_at(p, j);
        if (2 * all >= p->n_batches) continue;
        for (int i = 0; !code && i < p->n_batches; i++) {
            if (!cell_of(p, i, j)->ns) continue;
            seen++;
            w->cell = i * p->n_shares + j;
            if (seen > 1 && seen < all) code = predict(w, err);
        }
    }
    w->cell = -1;
    return code;
}

static struct mo_shares_error summary(struct work *w) {
    struct mo_shares_error out = {.n = w->n};
    if (!w->n) return out;
    qsort(w->error, (size_t)w->n, sizeof *w->error, mo_rising);
    for (int i = 0; i < w->n; i++)
        out.mean += w->error[i] / w->n;
    out.p90 = w->error[(int)ceil(0.9 * w->n) - 1];
    out.worst = w->error[w->n - 1];
    return out;
}

int mo_shares_check(const struct mo_share_profile *p, struct mo_shares_error out[MO_SHARES_WAYS],
                    moire_error *err) {
    static int (*const leave[MO_SHARES_WAYS])(struct work *, moire_error *) = {
        leave_batches, leave_all_but_powers, leave_shares, leave_holes};
    struct work w = {.p = p, .cell = -1};
    w.error = mo_alloc(p->env, (size_t)p->n_batches * (size_t)p->n_shares * sizeof *w.error);
    int code = w.error ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    for (int way = 0; !code && way < MO_SHARES_WAYS; way++) {
        w.n = 0;
        code = leave[way](&w, err);
        out[way] = summary(&w);
    }
    mo_free(p->env, w.error);
    return code;
}

json_t *mo_shares_json(const struct mo_share_table *t, const struct mo_shares_error error[MO_SHARES_WAYS]) {
    bool derived = !strncmp(t->note, "derived", 7);
    json_t *row = json_pack("{s:s, s:s, s:b, s:i, s:i}", "model", t->model, "machine", t->machine, "derived",
                            derived, "batches", t->profile->n_batches, "shares", t->profile->n_shares);
    for (int way = 0; row && way < MO_SHARES_WAYS; way++) {
        const struct mo_shares_error *e = &error[way];
        json_t *part =
            json_pack("{s:i, s:f, s:f, s:f}", "n", e->n, "mean", e->mean, "p90", e->p90, "worst", e->worst);
        if (json_object_set_new(row, ways[way], part)) {
            json_decref(row);
            return NULL;
        }
    }
    return row;
}

void mo_shares_print(const json_t *document) {
    const json_t *row;
    size_t i;
    printf(
        "error of the predicted time in %%: mean / 90 %% of points / worst, of what was left out\n\n"
        "model           machine         one batch             all but powers of 2   one share             "
        "a hole\n");
    json_array_foreach(json_object_get(document, "results"), i, row) {
        printf("%-15.15s %-15.15s", mo_json_text(row, "model"), mo_json_text(row, "machine"));
        for (int way = 0; way < MO_SHARES_WAYS; way++) {
            const json_t *e = json_object_get(row, ways[way]);
            char text[64] = "-";
            if (mo_json_number(e, "n") > 0)
                snprintf(text, sizeof text, "%.1f / %.1f / %.1f", 100 * mo_json_number(e, "mean"),
                         100 * mo_json_number(e, "p90"), 100 * mo_json_number(e, "worst"));
            printf(" %-21s", text);
        }
        printf("%s\n", json_is_true(json_object_get(row, "derived")) ? " derived" : "");
    }
}
