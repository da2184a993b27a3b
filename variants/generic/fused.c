/* SPDX-License-Identifier: Apache-2.0
 * fused.c - binds moire.Fused: a program of pointwise operators over broadcast operands.
 *
 * In MO_C16 all operands are fp32 or bytes; the kernel clears the padding of floats. */
#include "variants/generic/fused_bytes.h"

static const struct mo_tensor *value_input(const struct mo_graph *g, const struct mo_node *node, int i) {
    return i >= 0 && i < node->n_in ? mo_node_in(g, node, i) : NULL;
}

/* Finite lanes stay finite but for overflow; the padding is cleared behind the last step. */
static bool keeps_finite(const struct mo_graph *g, const struct mo_node *node,
                         const struct mo_fused_step *s) {
    const struct mo_tensor *divisor;
    switch (s->op) {
    case MO_FUSED_ADD:
    case MO_FUSED_SUB:
    case MO_FUSED_MUL:
    case MO_FUSED_MIN:
    case MO_FUSED_MAX:
    case MO_FUSED_ACTIVATION:
    case MO_FUSED_ABS:
    case MO_FUSED_NEG:
    case MO_FUSED_EXP:
    case MO_FUSED_ERF:
    case MO_FUSED_DEQUANTIZE:
    case MO_FUSED_QUANTIZE_U8:
    case MO_FUSED_QUANTIZE_I8:
        return true;
    case MO_FUSED_DIV:
        divisor = value_input(g, node, s->arg[1]);
        return divisor && divisor->data && mo_is_scalar(divisor) && *(const float *)divisor->data != 0;
    default:
        return false;
    }
}

static bool blocked(const struct mo_graph *g, const struct mo_node *node, const struct mo_fused *f) {
    const struct mo_tensor *y = mo_node_out(g, node, 0);
    if (!(mo_f32(y) || mo_eight_bits(y)) || y->shape.rank < 3) return false;
    for (int i = 0; i < node->n_in; i++) {
        const struct mo_tensor *t = mo_node_in(g, node, i);
        if (!mo_f32(t) && (t->data || !mo_eight_bits(t))) return false;
        if (t->data && !mo_is_scalar(t) && !mo_is_per_channel(t, y)) return false;
        if (!t->data && (t->shape.rank != y->shape.rank || t->shape.d[1] != y->shape.d[1])) return false;
    }
    for (int i = 0; i < f->n; i++)
        if (!keeps_finite(g, node, &f->step[i])) return false;
    return true;
}

/* Steps compute with floats and bools; integers are cast, those of 8 bits dequantized, too. */
static bool good_input(const struct mo_fused *f, int i, moire_dtype dtype) {
    bool eight = dtype == MOIRE_U8 || dtype == MOIRE_I8;
    if (dtype == MOIRE_F32 || dtype == MOIRE_BOOL) return true;
    for (int s = 0; s < f->n; s++)
        for (int k = 0; k < 3; k++) {
            if (f->step[s].arg[k] != i) continue;
            enum mo_fused_op op = f->step[s].op;
            if (op != MO_FUSED_TO_FLOAT && op != MO_FUSED_TO_BOOL && (op != MO_FUSED_DEQUANTIZE || !eight))
                return false;
        }
    return eight || dtype == MOIRE_I32 || dtype == MOIRE_I64;
}

/* What the kernel writes: as floats, or from floats to bytes. */
static bool good_output(const struct mo_fused *f, moire_dtype dtype) {
    enum mo_fused_op last = f->step[f->n - 1].op;
    if (last == MO_FUSED_QUANTIZE_U8 || last == MO_FUSED_QUANTIZE_I8)
        return dtype == mo_fused_quantized(last);
    return dtype == MOIRE_F32 || dtype == MOIRE_BOOL;
}

static unsigned layouts(const struct mo_graph *g, const struct mo_node *node) {
    struct mo_fused f;
    const struct mo_tensor *y = mo_node_out(g, node, 0);
    if (!mo_node_is_ours(node, "Fused") || node->n_in > MO_FUSED_INPUTS || !mo_fused_read(node, &f)) return 0;
    if (!y || y->dynamic || mo_shape_count(&y->shape) < 1) return 0;
    if (!good_output(&f, y->dtype)) return 0;
    for (int i = 0; i < node->n_in; i++) {
        const struct mo_tensor *t = mo_node_in(g, node, i);
        if (!t || t->dynamic || mo_shape_count(&t->shape) < 1 || !mo_broadcasts(t, y)) return 0;
        if (!good_input(&f, i, t->dtype)) return 0;
    }
    return MO_CAN_PLAIN | (blocked(g, node, &f) ? MO_CAN_C16 : 0) |
           (mo_fused_enters(g, node, &f) ? MO_CAN_ENTER : 0);
}

/* Results share buffers: one is free again after the last step that reads it. */
static void assign_buffers(struct mo_fused_params *p) {
    struct mo_fused *f = &p->program;
    int last[MO_FUSED_STEPS] = {0}, owner[MO_FUSED_STEPS]; /* owner: whose result a buffer holds, or -1 */
    for (int b = 0; b < MO_FUSED_STEPS; b++)
        owner[b] = -1;
    for (int i = 0; i < f->n; i++)
        for (int k = 0; k < 3; k++)
            if (f->step[i].arg[k] >= f->n_in) last[f->step[i].arg[k] - f->n_in] = i;
    for (int i = 0; i < f->n; i++) {
        int at = 0;
        while (owner[at] >= 0)
            at++;
        if (at == p->n_buffers) p->n_buffers++;
        owner[at] = i;
        p->result[i] = at;
        for (int b = 0; b < p->n_buffers; b++)
            if (owner[b] >= 0 && owner[b] != i && last[owner[b]] <= i) owner[b] = -1;
    }
    for (int i = 0; i < f->n; i++)
        for (int k = 0; k < 3; k++)
            if (f->step[i].arg[k] >= f->n_in)
                f->step[i].arg[k] = f->n_in + p->result[f->step[i].arg[k] - f->n_in];
}

static void fill(struct mo_fused_params *p, int n, const int64_t *d, int64_t stride[][MO_MAX_DIMS]) {
    p->columns = n > 0 ? d[0] : 1;
    p->rows = n > 1 ? d[1] : 1;
    p->rank = n > 2 ? n - 2 : 0;
    p->outer = 1;
    for (int i = 0; i < p->rank; i++) {
        p->dims[i] = d[n - 1 - i];
        p->outer *= p->dims[i];
    }
    for (int k = 0; k < p->program.n_in; k++) {
        p->in[k].step = n > 0 ? stride[k][0] : 0;
        p->in[k].row = n > 1 ? stride[k][1] : 0;
        for (int i = 0; i < p->rank; i++)
            p->in[k].outer[i] = stride[k][n - 1 - i];
    }
    p->column_group = p->columns > 2 * MO_CHUNK ? MO_CHUNK : p->columns;
    p->column_groups = (p->columns + p->column_group - 1) / p->column_group;
    p->row_group = p->columns < MO_CHUNK ? MO_CHUNK / p->columns : 1;
    p->row_groups = (p->rows + p->row_group - 1) / p->row_group;
}

void mo_fused_flat(const struct mo_fused *f, moire_dtype from, moire_dtype to, int64_t n,
                   struct mo_fused_params *p) {
    const int64_t d[1] = {n};
    int64_t stride[1][MO_MAX_DIMS] = {{1}};
    *p = (struct mo_fused_params){.program = *f, .images = 1, .dtype = {from}, .out_dtype = to};
    fill(p, 1, d, stride);
    assign_buffers(p);
}

static int bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                moire_error *err) {
    const struct mo_graph *g = binder->graph;
    const struct mo_tensor *y = mo_node_out(g, node, 0);
    struct mo_fused_params p = {.images = 1, .out_dtype = y->dtype};
    struct mo_broadcast s = {.operands = node->n_in};
    int64_t d[MO_MAX_DIMS], stride[MO_FUSED_INPUTS][MO_MAX_DIMS];
    if (y->dtype == MOIRE_F32) p.padding = mo_padding_of(y);
    bool read = mo_fused_read(node, &p.program);
    if (read && y->layout == MO_C16 && mo_node_in(g, node, 0)->layout == MO_PLAIN &&
        mo_fused_enters(g, node, &p.program))
        return mo_fused_enter_bind(binder, node, &p.program, step, err);
    bool in_blocks = y->layout == MO_C16, dense = mo_dense(g, y) && !p.padding.used;
    if (!read || (in_blocks && !(layouts(g, node) & MO_CAN_C16))) return MOIRE_EUNSUPPORTED;
    int rc = mo_fused_bytes_bind(binder, node, &p.program, step, err);
    if (rc != MOIRE_EUNSUPPORTED) return rc;
    mo_broadcast_output(&s, y);
    for (int k = 0; k < node->n_in; k++) {
        const struct mo_tensor *t = mo_node_in(g, node, k);
        if (!t->data && t->layout != y->layout) return MOIRE_EUNSUPPORTED;
        mo_broadcast_operand(g, &s, k, t, y);
        p.dtype[k] = t->dtype;
        dense = dense && mo_dense(g, t);
        if (!in_blocks || !t->data || mo_is_scalar(t)) continue;
        p.in[k].blocked = mo_keep_padded(binder, t->data, y->shape.d[1], 0.0f);
        if (!p.in[k].blocked)
            return mo_fail(err, MOIRE_ENOMEM, "out of memory while binding '%s'", node->name);
    }
    if (!dense) {
        p.images = y->shape.d[0];
        for (int k = 0; k < node->n_in; k++)
            p.in[k].per_image = s.stride[k][0] != 0;
    }
    int dims = mo_broadcast_fold(&s, dense ? 0 : 1, d, stride);
    if (dims < 0) return MOIRE_EUNSUPPORTED;
    fill(&p, dims, d, stride);
    assign_buffers(&p);
    step->scratch_bytes = (int64_t)(p.program.n_in + p.n_buffers) * MO_STRIP * 4;
    return mo_bound(step, mo_simd_of(binder->isa)->fused, "fused", mo_keep(binder, &p, sizeof p),
                    p.images * p.outer * p.row_groups * p.column_groups, err);
}

const struct mo_family mo_family_fused = {"fused", layouts, bind};
