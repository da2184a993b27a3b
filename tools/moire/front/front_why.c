/* SPDX-License-Identifier: Apache-2.0
 * front_why.c - why a sampled implementation is a version, or is none: from its state (codegen/tune/front.h)
 * and the numbers that led to it. */
#include <math.h>
#include "runtime/base/text.h"
#include "tools/moire/front/front_show.h"

static const double MARGIN = 0.03; /* the search takes kernels so near to each other as equal */

static double us(double ns) {
    return ns * 1e-3;
}

/* How much longer b takes than a, in percent. */
static double percent(double a, double b) {
    return a > 0 ? 100 * (b / a - 1) : 0;
}

static void put_version(struct mo_text *t, const struct mo_store_front *f, int at) {
    const struct mo_store_point *p = &f->point[at];
    double from = mo_front_from(f, at), here = mo_front_time(f, p, f->cores);
    bool widest = f->cores > 1;
    for (int i = 0; i < f->n; i++)
        if (i != at && f->point[i].state == MO_POINT_VERSION)
            widest = widest && here < mo_front_time(f, &f->point[i], f->cores);
    if (mo_front_versions(f) == 1)
        mo_text_put(t, "kept: the only version");
    else if (!at)
        mo_text_put(t, "kept: runs without pressure");
    else if (from >= 0)
        mo_text_put(t, "kept: the fastest from pressure %.2f on", from);
    else if (!widest)
        mo_text_put(t, "kept as asked (--keep-covered): never the fastest");
    if (widest && mo_front_versions(f) > 1)
        mo_text_put(t, "%s the fastest on %d cores", !at || from >= 0 ? "," : "kept:", f->cores);
}

/* The versions are never much slower than a covered one: how much at most. */
static void put_covered(struct mo_text *t, const struct mo_store_front *f, int at) {
    double worst = 0;
    for (int level = 0; level < MO_STORE_LEVELS; level++) {
        double best = INFINITY;
        for (int i = 0; i < f->n; i++)
            if (f->point[i].state == MO_POINT_VERSION && f->point[i].ns[level] > 0)
                best = fmin(best, f->point[i].ns[level]);
        if (isfinite(best)) worst = fmax(worst, percent(f->point[at].ns[level], best));
    }
    if (worst > 0)
        mo_text_put(t, "covered: at no pressure is it more than %.1f %% faster than the kept ones", worst);
    else
        mo_text_put(t, "covered: at every pressure a kept one is as fast");
}

static bool no_worse(const struct mo_store_point *a, const struct mo_store_point *b) {
    return a->parallelism_milli >= b->parallelism_milli && a->block_bytes >= b->block_bytes &&
           a->l3_bytes <= b->l3_bytes;
}

/* By the fastest that dominates it. */
static void put_dominated(struct mo_text *t, const struct mo_store_front *f, int at) {
    const struct mo_store_point *p = &f->point[at], *by = NULL;
    int number = 0;
    for (int i = 0; i < f->n; i++) {
        const struct mo_store_point *q = &f->point[i];
        if (i == at || q->state == MO_POINT_LATE || !no_worse(q, p)) continue;
        if (!by || q->ns[0] < by->ns[0]) by = q, number = i + 1;
    }
    if (!by) {
        mo_text_put(t, "dominated by another");
        return;
    }
    mo_text_put(t, "dominated: number %d has no less parallelism and blocking, no more traffic", number);
    double slower = percent(by->ns[0], p->ns[0]);
    mo_text_put(t, slower >= 0 ? " and is %.1f %% faster" : ", though it is %.1f %% slower", fabs(slower));
}

static void put_late(struct mo_text *t, const struct mo_store_front *f, int at) {
    mo_text_put(t, "late: %.1f us on %d core%s, the layer's share of the target is %.1f us",
                us(mo_front_time(f, &f->point[at], f->cores)), f->cores, f->cores == 1 ? "" : "s",
                us(f->share_ns));
}

static void put_spare(struct mo_text *t, const struct mo_store_front *f) {
    if (!mo_front_versions(f))
        mo_text_put(t, "not kept: the built-in kernel is faster than all of them");
    else if (f->versions > 0)
        mo_text_put(t, "on the front, but only %d version%s wanted, spread evenly along it", f->versions,
                    f->versions == 1 ? " was" : "s were");
    else
        mo_text_put(t, "on the front, but others were picked along it");
}

/* Alone it is faster than what runs alone: that was decided by more than the time. */
static void put_faster(struct mo_text *t, const struct mo_front_row *row, int at) {
    const struct mo_store_front *f = &row->front;
    int64_t more = row->packed_bytes[at] - row->packed_bytes[0];
    double gain = percent(f->point[at].ns[0], f->point[0].ns[0]);
    if (!at || !mo_front_versions(f) || gain < 0.05) return;
    mo_text_put(t, "; without pressure it is %.1f %% faster than the first version, ", gain);
    if (row->packed_bytes[at] >= 0 && row->packed_bytes[0] >= 0 && more > 0)
        mo_text_put(t, "whose packed weights are %.2f MB smaller (--byte-price)", (double)more * 1e-6);
    else if (gain <= 100 * MARGIN)
        mo_text_put(t, "less than the margin of %.0f %%", 100 * MARGIN);
    else
        mo_text_put(t, "but not in times of the built-in kernel measured beside it");
}

void mo_front_why(const struct mo_front_row *row, int at, char out[MO_FRONT_WHY]) {
    const struct mo_store_front *f = &row->front;
    struct mo_text t = mo_text_in(out, MO_FRONT_WHY);
    switch (f->point[at].state) {
    case MO_POINT_VERSION:
        put_version(&t, f, at);
        break;
    case MO_POINT_COVERED:
        put_covered(&t, f, at);
        break;
    case MO_POINT_DOMINATED:
        put_dominated(&t, f, at);
        break;
    case MO_POINT_LATE:
        put_late(&t, f, at);
        break;
    case MO_POINT_SPARE:
    case MO_POINT_STATES:
        put_spare(&t, f);
        break;
    }
    put_faster(&t, row, at);
}
