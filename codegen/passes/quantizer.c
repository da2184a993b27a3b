/* SPDX-License-Identifier: Apache-2.0
 * quantizer.c - see quantizer.h. */
#include "codegen/passes/quantizer.h"

#include <string.h>

static bool is_eight(moire_dtype dtype) {
    return dtype == MOIRE_U8 || dtype == MOIRE_I8;
}

static int byte_at(const struct mo_tensor *t, int64_t i) {
    return t->dtype == MOIRE_I8 ? ((const int8_t *)t->data)[i] : ((const uint8_t *)t->data)[i];
}

bool mo_quantizer_of(const struct mo_graph *g, const struct mo_node *node, const char *op,
                     struct mo_quantizer *out) {
    if (!node || node->dead || !mo_is(node, op) || node->n_in < 2 || node->n_out != 1) return false;
    bool back = !strcmp(op, "DequantizeLinear");
    const struct mo_tensor *from = mo_node_in(g, node, 0), *to = mo_node_out(g, node, 0);
    const struct mo_tensor *small = back ? from : to, *real = back ? to : from, *z = mo_node_in(g, node, 2);
    if (!from || !to || from->dynamic || to->dynamic || !is_eight(small->dtype) || real->dtype != MOIRE_F32)
        return false;
    *out = (struct mo_quantizer){.from = from->id, .to = to->id, .dtype = small->dtype};
    if (!mo_scalar(g, node->in[1], &out->scale) || !(out->scale > 0) || mo_attr_int(node, "block_size", 0))
        return false;
    if (z && (!z->data || z->dtype != small->dtype || mo_shape_count(&z->shape) != 1)) return false;
    out->zero = z ? byte_at(z, 0) : 0;
    return true;
}

bool mo_quantizers_agree(const struct mo_quantizer *a, const struct mo_quantizer *b) {
    return a->scale == b->scale && a->zero == b->zero && a->dtype == b->dtype;
}

/* --- weights ------------------------------------------------------------------------------------------- */

static bool parameter_fits(const struct mo_tensor *t, moire_dtype dtype, int64_t many) {
    if (!t) return true;
    int64_t n = mo_shape_count(&t->shape);
    return t->data && t->dtype == dtype && (n == 1 || (n == many && t->shape.rank == 1));
}

bool mo_small_weights_of(const struct mo_graph *g, const struct mo_node *node, struct mo_small_weights *out) {
    if (!node || node->dead || !mo_is(node, "DequantizeLinear") || node->n_in < 2) return false;
    const struct mo_tensor *q = mo_node_in(g, node, 0), *y = mo_node_out(g, node, 0);
    if (!q || !q->data || !is_eight(q->dtype) || q->shape.rank < 2 || mo_attr_int(node, "block_size", 0))
        return false;
    int64_t axis = mo_attr_int(node, "axis", 1);
    if (axis < 0) axis += q->shape.rank;
    if (!y || y->dtype != MOIRE_F32 || axis < 0 || axis >= q->shape.rank) return false;
    *out = (struct mo_small_weights){q, mo_node_in(g, node, 1), mo_node_in(g, node, 2), (int)axis};
    return out->scale && parameter_fits(out->scale, MOIRE_F32, q->shape.d[axis]) &&
           parameter_fits(out->zero, q->dtype, q->shape.d[axis]);
}

float mo_small_scale(const struct mo_small_weights *w, int64_t i) {
    if (!w->scale) return 1;
    return ((const float *)w->scale->data)[mo_shape_count(&w->scale->shape) > 1 ? i : 0];
}

int mo_small_zero(const struct mo_small_weights *w, int64_t i) {
    return w->zero ? byte_at(w->zero, mo_shape_count(&w->zero->shape) > 1 ? i : 0) : 0;
}

/* Elements that share an index along the axis and follow each other. */
static int64_t run_of(const struct mo_small_weights *w) {
    int64_t n = 1;
    for (int i = w->axis + 1; i < w->q->shape.rank; i++)
        n *= w->q->shape.d[i];
    return n;
}

void mo_small_floats(const struct mo_small_weights *w, float *to) {
    int64_t run = run_of(w), many = w->q->shape.d[w->axis], rows = mo_shape_count(&w->q->shape) / run;
    const bool is_signed = w->q->dtype == MOIRE_I8;
    const uint8_t *from = w->q->data;
    for (int64_t row = 0; row < rows; row++) {
        const float zero = (float)mo_small_zero(w, row % many), scale = mo_small_scale(w, row % many);
        for (int64_t i = 0; i < run; i++, from++)
            *to++ = ((is_signed ? (float)(int8_t)*from : (float)*from) - zero) * scale;
    }
}

const struct mo_tensor *mo_small_centred(struct mo_graph *g, const struct mo_small_weights *w, int *rc,
                                         moire_error *err) {
    int64_t run = run_of(w), many = w->q->shape.d[w->axis], count = mo_shape_count(&w->q->shape);
    bool same = w->q->dtype == MOIRE_I8;
    for (int64_t i = 0; same && i < many; i++)
        same = mo_small_zero(w, i) == 0;
    if (same) return w->q;
    for (int64_t i = 0; i < count; i++) {
        int x = byte_at(w->q, i) - mo_small_zero(w, i / run % many);
        if (x < -128 || x > 127) return NULL;
    }
    struct mo_tensor *t = mo_graph_add_const(g, w->q->name, MOIRE_I8, &w->q->shape);
    if (!t) *rc = mo_no_memory(err);
    for (int64_t i = 0; t && i < count; i++)
        ((int8_t *)t->data)[i] = (int8_t)(byte_at(w->q, i) - mo_small_zero(w, i / run % many));
    return t;
}

const struct mo_tensor *mo_small_turned(struct mo_graph *g, const struct mo_tensor *w) {
    enum { COLUMNS = 64 }; /* at a time: as many rows are written side by side */
    int64_t k = w->shape.d[0], n = w->shape.d[1];
    struct mo_tensor *t =
        mo_graph_add_const(g, w->name, MOIRE_I8, &(struct mo_shape){.rank = 2, .d = {n, k}});
    const int8_t *from = w->data;
    int8_t *to = t ? t->data : NULL;
    for (int64_t begin = 0; t && begin < n; begin += COLUMNS) {
        const int64_t end = begin + COLUMNS < n ? begin + COLUMNS : n;
        for (int64_t j = 0; j < k; j++)
            for (int64_t i = begin; i < end; i++)
                to[i * k + j] = from[j * n + i];
    }
    return t;
}
