/* SPDX-License-Identifier: Apache-2.0
 * verify_values.c - see verify_values.h. */
#include "tools/moire/verify/verify_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/ops/trial.h"

struct mo_spread mo_spread_of(const struct mo_plan *plan, const struct mo_instance *instance, int tensor) {
    const struct mo_tensor *t = plan->graph->tensors[tensor];
    const struct mo_value *v = mo_instance_value(instance, tensor);
    struct mo_spread s = {.at = v->data, .images = 1, .dtype = v->dtype, .stride = plan->image[tensor]};
    if (plan->dynamic[tensor]) s.at = NULL;
    if (t->shape.rank > 0) s.images = t->shape.d[0];
    s.bytes = mo_tensor_image_bytes(t);
    if (t->layout == MO_C16_HALVES) s.dtype = MOIRE_BF16;
    if (t->layout == MO_PLAIN) return s;
    s.channels = t->shape.d[1];
    s.area = 1;
    for (int i = 2; i < t->shape.rank; i++)
        s.area *= t->shape.d[i];
    return s;
}

void mo_spread_poison(const struct mo_spread *s) {
    for (int64_t n = 0; n < s->images; n++)
        memset(s->at + n * s->stride, 0xff, (size_t)s->bytes);
}

void mo_spread_copy(const struct mo_spread *to, const struct mo_spread *from) {
    for (int64_t n = 0; n < from->images; n++)
        memcpy(to->at + n * to->stride, from->at + n * from->stride, (size_t)from->bytes);
}

void mo_spread_fill(const struct mo_spread *s, uint64_t *state) {
    for (int64_t n = 0; n < s->images; n++) {
        moire_tensor image = {.dtype = s->dtype, .data = s->at + n * s->stride, .bytes = (size_t)s->bytes};
        mo_trial_random(&image, state);
    }
}

bool mo_spread_overlaps(const struct mo_spread *a, const struct mo_spread *b) {
    for (int64_t n = 0, m = 0; n < a->images && m < b->images;) { /* both ascend */
        const char *x = a->at + n * a->stride, *y = b->at + m * b->stride;
        if (x < y + b->bytes && y < x + a->bytes) return true;
        if (x < y)
            n++;
        else
            m++;
    }
    return false;
}

/* Of n floats of an image, those before this one belong to whole blocks of channels: all are elements. */
static int64_t whole_blocks(const struct mo_spread *s, int64_t n) {
    return s->channels ? s->channels / 16 * s->area * 16 : n;
}

/* Whether float i of the last, partly filled block of an image is an element. */
static bool is_element(const struct mo_spread *s, int64_t i) {
    return i % 16 < s->channels % 16;
}

struct looking {
    double low, high;
    int64_t n, zeros, odd;
};

static void look_at(struct looking *l, float x) {
    l->n++;
    l->zeros += x == 0;
    if (!isfinite(x)) {
        l->odd++;
        return;
    }
    if ((double)x < l->low) l->low = (double)x;
    if ((double)x > l->high) l->high = (double)x;
}

struct mo_spread_range mo_spread_look(const struct mo_spread *s) {
    enum { FEW = 8 }; /* a tensor of which fewer than one in so many values is not 0 says little */
    struct looking l = {.low = INFINITY, .high = -INFINITY};
    if (s->dtype != MOIRE_F32) return (struct mo_spread_range){0};
    const int64_t n = s->bytes / (int64_t)sizeof(float), whole = whole_blocks(s, n);
    for (int64_t image = 0; image < s->images; image++) {
        const float *x = (const float *)(const void *)(s->at + image * s->stride);
        for (int64_t i = 0; i < whole; i++)
            look_at(&l, x[i]);
        for (int64_t i = whole; i < n; i++)
            if (is_element(s, i)) look_at(&l, x[i]);
    }
    double largest = l.n > l.odd ? fmax(fabs(l.low), fabs(l.high)) : 0;
    bool degenerate = l.odd || (l.n - l.zeros) * FEW < l.n || largest < 1e-15 || largest > 1e15 ||
                      (l.n > 1 && l.high - l.low <= 1e-3 * largest);
    return (struct mo_spread_range){.largest = largest, .degenerate = degenerate};
}

static void compare_floats(const float *w, const float *g, int64_t image, struct mo_spread_gap *gap) {
    if (isfinite(*w) && isfinite(*g)) {
        double difference = fabs((double)*w - (double)*g);
        if (difference <= gap->largest) return;
        gap->largest = difference;
        gap->image = image;
    } else if (isfinite(*w) || isfinite(*g)) {
        if (!gap->wrong++) gap->wrong_image = image;
    }
}

/* Bytes: a value between two steps may go to either. */
static void compare_steps(const struct mo_spread *want, const uint8_t *w, const uint8_t *g, int64_t image,
                          struct mo_spread_gap *gap) {
    const int64_t whole = whole_blocks(want, want->bytes);
    for (int64_t i = 0; i < want->bytes; i++) {
        if (i >= whole && !is_element(want, i)) continue;
        const int apart = want->dtype == MOIRE_U8 ? abs(w[i] - g[i]) : abs((int8_t)w[i] - (int8_t)g[i]);
        if (apart > 1 && !gap->wrong++) gap->wrong_image = image;
    }
}

struct mo_spread_gap mo_spread_compare(const struct mo_spread *want, const struct mo_spread *got) {
    struct mo_spread_gap gap = {0};
    const int64_t n = want->bytes / (int64_t)sizeof(float), whole = whole_blocks(want, n);
    for (int64_t image = 0; image < want->images; image++) {
        const void *from = want->at + image * want->stride, *to = got->at + image * got->stride;
        const float *w = from, *g = to;
        if (want->dtype == MOIRE_U8 || want->dtype == MOIRE_I8) {
            compare_steps(want, from, to, image, &gap);
            continue;
        }
        if (want->dtype != MOIRE_F32) {
            if (memcmp(from, to, (size_t)want->bytes) && !gap.wrong++) gap.wrong_image = image;
            continue;
        }
        for (int64_t i = 0; i < whole; i++)
            compare_floats(&w[i], &g[i], image, &gap);
        for (int64_t i = whole; i < n; i++) {
            if (is_element(want, i))
                compare_floats(&w[i], &g[i], image, &gap);
            else
                gap.lanes += !isfinite(g[i]);
        }
    }
    return gap;
}
