/* SPDX-License-Identifier: Apache-2.0
 * broadcast.c - see broadcast.h. */
#include "variants/generic/broadcast.h"

#include <string.h>

bool mo_is_scalar(const struct mo_tensor *t) {
    return mo_shape_count(&t->shape) == 1;
}

bool mo_is_per_channel(const struct mo_tensor *t, const struct mo_tensor *y) {
    int lead = y->shape.rank - t->shape.rank;
    for (int i = 0; i < t->shape.rank; i++)
        if (t->shape.d[i] != (i + lead == 1 ? y->shape.d[1] : 1)) return false;
    return lead <= 1 && t->shape.rank > 0;
}

bool mo_broadcasts(const struct mo_tensor *t, const struct mo_tensor *y) {
    int lead = y->shape.rank - t->shape.rank;
    for (int i = 0; i < t->shape.rank; i++)
        if (lead < 0 || (t->shape.d[i] != 1 && t->shape.d[i] != y->shape.d[i + lead])) return false;
    return lead >= 0;
}

void mo_broadcast_output(struct mo_broadcast *s, const struct mo_tensor *y) {
    s->rank = y->shape.rank;
    for (int i = 0; i < s->rank; i++)
        s->d[i] = y->shape.d[i];
    if (y->layout != MO_C16) return;
    s->d[1] = (s->d[1] + 15) / 16;
    s->d[s->rank++] = 16;
}

void mo_broadcast_operand(const struct mo_graph *g, struct mo_broadcast *s, int k, const struct mo_tensor *t,
                          const struct mo_tensor *y) {
    int lead = y->shape.rank - t->shape.rank, rank = s->rank < MO_MAX_DIMS ? s->rank : MO_MAX_DIMS;
    int64_t own[MO_MAX_DIMS] = {0}, step = 1, *stride = s->stride[k];
    memset(stride, 0, MO_MAX_DIMS * sizeof *stride);
    if (y->layout == MO_C16 && t->data) {
        if (mo_is_scalar(t)) return;
        stride[1] = 16;
        stride[s->rank - 1] = 1;
        return;
    }
    for (int i = 0; i < rank; i++)
        own[i] = i < lead ? 1 : i - lead < t->shape.rank ? t->shape.d[i - lead] : 16;
    if (y->layout == MO_C16) own[1] = (own[1] + 15) / 16;
    for (int i = rank - 1; i >= 0; i--) {
        stride[i] = own[i] == 1 ? 0 : step;
        step *= own[i];
    }
    if (lead >= 0 && lead < rank && !mo_dense(g, t))
        stride[lead] = mo_alias_stride(g, t->id) / (int64_t)mo_dtype_bytes(t->dtype);
}

int mo_broadcast_fold(const struct mo_broadcast *s, int from, int64_t *d, int64_t stride[][MO_MAX_DIMS]) {
    int n = 0;
    for (int i = s->rank - 1; i >= from && i < MO_MAX_DIMS; i--) {
        if (s->d[i] == 1) continue;
        bool joins = n > 0;
        for (int k = 0; k < s->operands; k++)
            joins = joins && s->stride[k][i] == stride[k][n - 1] * d[n - 1];
        if (joins) {
            d[n - 1] *= s->d[i];
            continue;
        }
        d[n] = s->d[i];
        for (int k = 0; k < s->operands; k++)
            stride[k][n] = s->stride[k][i];
        n++;
    }
    for (int k = 0; n > 0 && k < s->operands; k++)
        if (stride[k][0] > 1) return -1;
    return n;
}
