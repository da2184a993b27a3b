/* SPDX-License-Identifier: Apache-2.0
 * elements.c - see elements.h.  Loops over elements are written once, for a size that the compiler knows. */
#include "runtime/ops/elements.h"

#include <string.h>

static inline void take(char *to, const char *from, const int64_t *at, int64_t n, size_t bytes) {
    for (int64_t k = 0; k < n; k++)
        memcpy(to + (size_t)k * bytes, from + at[k] * (int64_t)bytes, bytes);
}

void mo_elements_take(void *to, const void *from, const int64_t *at, int64_t n, size_t bytes) {
    if (bytes == 1)
        take(to, from, at, n, 1);
    else if (bytes == 2)
        take(to, from, at, n, 2);
    else if (bytes == 4)
        take(to, from, at, n, 4);
    else
        take(to, from, at, n, 8);
}

static inline void put(char *to, const int64_t *at, const char *from, int64_t n, size_t bytes) {
    for (int64_t k = 0; k < n; k++)
        memcpy(to + at[k] * (int64_t)bytes, from + (size_t)k * bytes, bytes);
}

void mo_elements_put(void *to, const int64_t *at, const void *from, int64_t n, size_t bytes) {
    if (bytes == 1)
        put(to, at, from, n, 1);
    else if (bytes == 2)
        put(to, at, from, n, 2);
    else if (bytes == 4)
        put(to, at, from, n, 4);
    else
        put(to, at, from, n, 8);
}

static inline void step_over(char *to, const char *from, int64_t step, int64_t n, size_t bytes) {
    for (int64_t k = 0; k < n; k++)
        memcpy(to + (size_t)k * bytes, from + k * step * (int64_t)bytes, bytes);
}

void mo_elements_step(void *to, const void *from, int64_t step, int64_t n, size_t bytes) {
    if (step == 1)
        memcpy(to, from, (size_t)n * bytes);
    else if (bytes == 1)
        step_over(to, from, step, n, 1);
    else if (bytes == 2)
        step_over(to, from, step, n, 2);
    else if (bytes == 4)
        step_over(to, from, step, n, 4);
    else
        step_over(to, from, step, n, 8);
}

/* The part that is copied doubles until it would leave a cache. */
void mo_elements_repeat(void *to, size_t filled, size_t all) {
    enum { MOST = 16 << 10 };
    size_t done = filled;
    for (size_t n = filled; filled && done < all; done += n) {
        if (n < MOST) n = done;
        if (n > all - done) n = all - done;
        memcpy((char *)to + done, to, n);
    }
}

/* --- places by index ------------------------------------------------------------------------------------ */

int64_t mo_index_at(const struct mo_op_ctx *ctx, const struct mo_value *indices, int64_t i, int64_t n) {
    int64_t v = mo_load_int(indices, i);
    if (v >= -n && v < n) return v < 0 ? v + n : v;
    mo_op_fail(ctx, MOIRE_EINVAL, "index %lld is outside [-%lld, %lld)", (long long)v, (long long)n,
               (long long)n);
    return -1;
}

/* Dimensions that lie behind one another in both tensors are one. */
void mo_index_walk_init(struct mo_index_walk *w, const struct mo_shape *data, const struct mo_value *indices,
                        const struct mo_shape *shape, int axis) {
    int64_t own[MOIRE_MAX_RANK] = {0}, steps[MOIRE_MAX_RANK] = {0};
    const int lack = data->rank - indices->shape.rank; /* dimensions that the indices do not have */
    mo_strides(data, own);
    mo_strides(&indices->shape, steps);
    *w = (struct mo_index_walk){.indices = indices, .all = mo_shape_count(shape)};
    w->n = data->d[axis];
    w->along = own[axis];
    for (int i = data->rank - 1; i >= 0; i--) {
        const int64_t n = shape->d[i], stride = i == axis ? 0 : own[i];
        const int64_t step = i >= lack && indices->shape.d[i - lack] > 1 ? steps[i - lack] : 0;
        const int last = w->rank - 1; /* from the innermost on */
        if (n == 1) continue;
        if (w->rank && stride && w->stride[last] && stride == w->stride[last] * w->d[last] &&
            step == w->step[last] * w->d[last]) {
            w->d[last] *= n;
            continue;
        }
        w->d[w->rank] = n;
        w->step[w->rank] = step;
        w->stride[w->rank++] = stride;
    }
    w->row = w->rank ? w->d[0] : 1;
}

/* To the next row. */
static void turn(struct mo_index_walk *w) {
    w->in_row = 0;
    for (int i = 1; i < w->rank; i++) {
        w->base += w->stride[i];
        w->from += w->step[i];
        if (++w->index[i] < w->d[i]) return;
        w->base -= w->stride[i] * w->d[i];
        w->from -= w->step[i] * w->d[i];
        w->index[i] = 0;
    }
}

/* at[] holds indices; what they mean in data.  0, or an index is out of range. */
static int resolve(const struct mo_op_ctx *ctx, struct mo_index_walk *w) {
    const int64_t stride = w->rank ? w->stride[0] : 0, first = w->base + w->in_row * stride, n = w->n;
    const int64_t known = w->joined ? 1 : w->count, step = w->rank ? w->step[0] : 0;
    int64_t outside = 0;
    for (int64_t k = 0; k < known; k++)
        outside += w->at[k] < -n || w->at[k] >= n;
    for (int64_t k = 0; outside && k < known; k++)
        if (mo_index_at(ctx, w->indices, w->from + (w->in_row + k) * step, n) < 0) return MOIRE_EINVAL;
    for (int64_t k = 0; k < known; k++)
        w->at[k] = first + k * stride + (w->at[k] < 0 ? w->at[k] + n : w->at[k]) * w->along;
    return MOIRE_OK;
}

/* A row that has one index. */
static bool is_repeated(const struct mo_index_walk *w) {
    return !w->rank || !w->step[0];
}

/* The indices of the span.  Where all are alike, each is the one before it: the bytes tell, and one is read.
 */
static void read_span(struct mo_index_walk *w) {
    const bool in_step = w->count == 1 || (w->rank && w->stride[0] == 1), one = is_repeated(w);
    const size_t each = mo_dtype_bytes(w->indices->dtype), n = (size_t)w->count;
    const int64_t first = w->from + (one ? 0 : w->in_row);
    const char *from = (const char *)w->indices->data + (size_t)first * each;
    w->joined = in_step && (one || !memcmp(from, from + each, (n - 1) * each));
    for (int64_t k = 0; one && k < (w->joined ? 1 : w->count); k++)
        w->at[k] = mo_load_int(w->indices, first);
    if (one) return;
    if (w->indices->dtype == MOIRE_I64)
        memcpy(w->at, from, w->joined ? each : n * each);
    else
        for (int64_t k = 0; k < (w->joined ? 1 : w->count); k++)
            w->at[k] = mo_load_int(w->indices, first + k);
}

int mo_index_walk_next(const struct mo_op_ctx *ctx, struct mo_index_walk *w) {
    if (w->next >= w->all) return 0;
    const int64_t left = w->row - w->in_row;
    const bool whole = left <= MO_INDEX_SPAN || (is_repeated(w) && w->stride[0] == 1);
    w->first = w->next;
    w->count = whole ? left : MO_INDEX_SPAN;
    read_span(w);
    const int rc = resolve(ctx, w);
    if (rc) return rc;
    w->next += w->count;
    w->in_row += w->count;
    if (w->in_row == w->row) turn(w);
    return 1;
}
