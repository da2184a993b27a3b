/* SPDX-License-Identifier: Apache-2.0
 * classification.c - the highest values of an output; see classification.h. */
#include "serve/query/classification.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "serve/protocol/fault.h"
#include "serve/protocol/kserve_values.h"

/* A row's values, and a heap of indices whose first is the one that goes next. */
struct ranking {
    const moire_tensor *scores;
    size_t first; /* of the row */
    size_t *index, n;
};

/* Whether value `a` of the row stands before `b`. */
static bool is_before(const struct ranking *r, size_t a, size_t b) {
    const int order = ms_values_compare(r->scores, r->first + a, r->first + b);
    return order ? order > 0 : a < b;
}

/* Every element goes no earlier than the two below it. */
static void sink(struct ranking *r, size_t at) {
    for (;;) {
        size_t least = at;
        for (size_t k = 2 * at + 1; k <= 2 * at + 2 && k < r->n; k++)
            if (is_before(r, r->index[least], r->index[k])) least = k;
        if (least == at) return;
        const size_t kept = r->index[at];
        r->index[at] = r->index[least];
        r->index[least] = kept;
        at = least;
    }
}

/* The `top` of n values, in order. */
static void rank(struct ranking *r, size_t n, size_t top) {
    r->n = top;
    for (size_t i = 0; i < top; i++)
        r->index[i] = i;
    for (size_t i = top / 2; i-- > 0;)
        sink(r, i);
    for (size_t i = top; i < n; i++)
        if (is_before(r, i, r->index[0])) {
            r->index[0] = i;
            sink(r, 0);
        }
    while (r->n > 1) { /* the last of what is left goes behind */
        const size_t last = r->index[0];
        r->index[0] = r->index[--r->n];
        sink(r, 0);
        r->index[r->n] = last;
    }
}

static void write_class(const moire_tensor *scores, size_t at, size_t index, const char *label,
                        struct ms_bytes *text) {
    char value[400]; /* a double has 309 digits before its point */
    ms_values_text(scores, at, value, sizeof value);
    const size_t begin = text->n;
    const uint32_t none = 0;
    ms_bytes_put(text, &none, sizeof none);
    ms_bytes_put(text, value, strlen(value));
    ms_bytes_print(text, ":%zu", index);
    if (*label) {
        ms_bytes_put(text, ":", 1);
        ms_bytes_put(text, label, strlen(label));
    }
    const uint32_t length = (uint32_t)(text->n - begin - sizeof length);
    if (!text->failed) memcpy(text->at + begin, &length, sizeof length);
}

int ms_classes_write(const moire_tensor *scores, const char *name, int64_t top, bool is_batch,
                     const struct ms_labels *labels, struct ms_bytes *text, moire_tensor *out,
                     moire_error *err) {
    const size_t size = ms_type_bytes(scores->dtype), begin = text->n;
    if (!ms_values_have_order(scores->dtype))
        return ms_fail(err, MOIRE_EINVAL, "output '%.100s' is %s, of which there are no classes", name,
                       ms_type_name(scores->dtype));
    const bool rows_apart = is_batch && scores->rank > 0;
    const size_t rows = rows_apart ? (size_t)scores->shape[0] : 1, n = rows ? scores->bytes / size / rows : 0;
    const size_t k = (uint64_t)top < n ? (size_t)top : n;
    struct ranking r = {.scores = scores, .index = calloc(k + 1, sizeof *r.index)};
    if (!r.index) return ms_fail(err, MOIRE_ENOMEM, "no memory for the classes of '%.100s'", name);
    for (size_t row = 0; row < rows; row++) {
        r.first = row * n;
        rank(&r, n, k);
        for (size_t i = 0; i < k; i++)
            write_class(scores, r.first + r.index[i], r.index[i], ms_label(labels, r.index[i]), text);
    }
    free(r.index);
    *out = (moire_tensor){.dtype = MOIRE_STRING, .bytes = text->n - begin};
    if (rows_apart) out->shape[out->rank++] = (int64_t)rows;
    out->shape[out->rank++] = (int64_t)k;
    return text->failed ? ms_fail(err, MOIRE_ENOMEM, "no memory for the classes of '%.100s'", name)
                        : MOIRE_OK;
}
