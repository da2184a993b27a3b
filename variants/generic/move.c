/* SPDX-License-Identifier: Apache-2.0
 * move.c - binds layers that only move data: change of layout, Transpose, Concat, Slice, Split, Pad, Expand,
 * and views whose bytes could not be shared.  All but the first become boxes of strided copies. */
#include <string.h>
#include "variants/generic/bind.h"
#include "variants/generic/move_boxes.h"
#include "variants/part.h"

enum { BYTES_PER_UNIT = 32768, PIXELS_PER_UNIT = 256 };

static unsigned reorder_layouts(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *x = mo_node_in(g, node, 0), *y = mo_node_out(g, node, 0);
    if (!mo_node_is_ours(node, "Reorder") || !(mo_f32(x) || mo_eight_bits(x))) return 0;
    if (!y || y->dtype != x->dtype || y->dynamic || x->shape.rank < 3) return 0;
    return mo_shape_equal(&x->shape, &y->shape) ? MO_CAN_ENTER | MO_CAN_LEAVE : 0;
}

static int reorder_bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                        moire_error *err) {
    const struct mo_tensor *x = mo_node_in(binder->graph, node, 0), *y = mo_node_out(binder->graph, node, 0);
    if (x->layout == y->layout) return MOIRE_EUNSUPPORTED;
    struct mo_reorder_params p = {
        .channels = x->shape.d[1], .to_blocked = y->layout == MO_C16, .bytes = !mo_f32(x)};
    p.blocks = (p.channels + 15) / 16;
    p.area = mo_span(x, 2, x->shape.rank);
    p.chunk = p.area < PIXELS_PER_UNIT ? p.area : PIXELS_PER_UNIT;
    p.chunks = (p.area + p.chunk - 1) / p.chunk;
    return mo_bound(step, mo_simd_of(binder->isa)->reorder, "reorder", mo_keep(binder, &p, sizeof p),
                    x->shape.d[0] * p.blocks * p.chunks, err);
}

const struct mo_family mo_family_reorder = {"reorder", reorder_layouts, reorder_bind};

/* --- boxes ------------------------------------------------------------------------------------------- */

static bool transpose(struct mo_boxes *b) {
    const struct mo_tensor *x = mo_node_in(b->g, b->node, 0), *y = mo_node_out(b->g, b->node, 0);
    int64_t perm[MOIRE_MAX_RANK], stride[MOIRE_MAX_RANK];
    int rank = x->shape.rank, n = mo_attr_ints(b->node, "perm", perm, MOIRE_MAX_RANK);
    if (n >= 0 && n != rank) return false;
    struct mo_box *box = mo_boxes_add(b, 0, 0, y);
    mo_boxes_strides(b->g, x, stride);
    mo_boxes_strides(b->g, y, box->out_stride);
    for (int i = 0; i < rank; i++) {
        int64_t from = n >= 0 ? perm[i] : rank - 1 - i;
        if (from < 0 || from >= rank || x->shape.d[from] != y->shape.d[i]) return false;
        box->in_stride[i] = stride[from];
    }
    return true;
}

static bool concat(struct mo_boxes *b) {
    const struct mo_tensor *y = mo_node_out(b->g, b->node, 0);
    int axis = mo_axis_of(mo_attr_int(b->node, "axis", 0), y->shape.rank);
    int64_t stride[MOIRE_MAX_RANK], at = 0;
    if (axis < 0) return false;
    mo_boxes_strides(b->g, y, stride);
    for (int i = 0; i < b->node->n_in; i++) {
        const struct mo_tensor *x = mo_node_in(b->g, b->node, i);
        if (!x || x->layout != MO_PLAIN || x->shape.rank != y->shape.rank || x->dtype != y->dtype)
            return false;
        bool placed = axis > 0 && x->alias >= 0 && mo_alias_lies_at(b->g, x->id, y->id, at);
        if (!placed && mo_shape_count(&x->shape) > 0) {
            struct mo_box *box = mo_boxes_add(b, i, 0, x);
            if (!box) return false;
            mo_boxes_strides(b->g, x, box->in_stride);
            memcpy(box->out_stride, stride, sizeof stride);
            box->out_at = at;
        }
        at += x->shape.d[axis] * stride[axis];
    }
    return true;
}

static bool split(struct mo_boxes *b) {
    const struct mo_tensor *x = mo_node_in(b->g, b->node, 0);
    int axis = mo_axis_of(mo_attr_int(b->node, "axis", 0), x->shape.rank);
    int64_t at = 0;
    if (axis < 0) return false;
    for (int i = 0; i < b->node->n_out; i++) {
        const struct mo_tensor *y = mo_node_out(b->g, b->node, i);
        if (!y || y->layout != MO_PLAIN) return false;
        if (!mo_shape_count(&y->shape)) continue; /* a part may be empty */
        struct mo_box *box = mo_boxes_add(b, 0, i, y);
        if (!box) return false;
        mo_boxes_strides(b->g, x, box->in_stride);
        mo_boxes_strides(b->g, y, box->out_stride);
        box->in_at = at;
        at += y->shape.d[axis] * box->in_stride[axis];
    }
    return true;
}

static bool slice(struct mo_boxes *b) {
    const struct mo_tensor *x = mo_node_in(b->g, b->node, 0), *y = mo_node_out(b->g, b->node, 0);
    int64_t start[MOIRE_MAX_RANK], stop[MOIRE_MAX_RANK], axes[MOIRE_MAX_RANK], step[MOIRE_MAX_RANK];
    int n = mo_ints_of(b->g, b->node, "starts", 1, start, MOIRE_MAX_RANK);
    if (n < 0 || mo_ints_of(b->g, b->node, "ends", 2, stop, MOIRE_MAX_RANK) != n) return false;
    int n_axes = mo_ints_of(b->g, b->node, "axes", 3, axes, MOIRE_MAX_RANK);
    int n_steps = mo_ints_of(b->g, b->node, "steps", 4, step, MOIRE_MAX_RANK);
    if ((n_axes >= 0 && n_axes != n) || (n_steps >= 0 && n_steps != n)) return false;
    if ((n_axes < 0 && mo_node_in(b->g, b->node, 3)) || (n_steps < 0 && mo_node_in(b->g, b->node, 4)))
        return false;
    struct mo_box *box = mo_boxes_add(b, 0, 0, y);
    mo_boxes_strides(b->g, x, box->in_stride);
    mo_boxes_strides(b->g, y, box->out_stride);
    for (int i = 0; i < n; i++) {
        int axis = mo_axis_of(n_axes < 0 ? i : axes[i], x->shape.rank);
        int64_t by = n_steps < 0 ? 1 : step[i], from = start[i];
        if (axis < 0 || by == 0) return false;
        int64_t size = x->shape.d[axis], top = by > 0 ? size : size - 1;
        if (from < 0) from += size;
        from = from < 0 ? 0 : from > top ? top : from;
        if (from + (y->shape.d[axis] - 1) * by < 0 || from + (y->shape.d[axis] - 1) * by >= size)
            return false;
        box->in_at += from * box->in_stride[axis];
        if (y->shape.d[axis] > 1) box->in_stride[axis] *= by;
    }
    return true;
}

static bool expand(struct mo_boxes *b) {
    const struct mo_tensor *x = mo_node_in(b->g, b->node, 0), *y = mo_node_out(b->g, b->node, 0);
    int lead = y->shape.rank - x->shape.rank;
    int64_t stride[MOIRE_MAX_RANK];
    if (lead < 0) return false;
    struct mo_box *box = mo_boxes_add(b, 0, 0, y);
    mo_boxes_strides(b->g, x, stride);
    mo_boxes_strides(b->g, y, box->out_stride);
    for (int i = lead; i < y->shape.rank; i++)
        box->in_stride[i] = x->shape.d[i - lead] == 1 ? 0 : stride[i - lead];
    return true;
}

/* Constant padding: the input's box, and for every dimension a box before and one after it. */
static bool pad(struct mo_boxes *b) {
    const struct mo_tensor *x = mo_node_in(b->g, b->node, 0), *y = mo_node_out(b->g, b->node, 0);
    int64_t pads[2 * MOIRE_MAX_RANK], stride[MOIRE_MAX_RANK];
    int rank = x->shape.rank;
    if (strcmp(mo_attr_string(b->node, "mode", "constant"), "constant") || mo_node_in(b->g, b->node, 3))
        return false;
    if (mo_ints_of(b->g, b->node, "pads", 1, pads, 2 * MOIRE_MAX_RANK) != 2 * rank) return false;
    mo_boxes_strides(b->g, y, stride);
    struct mo_box *box = mo_boxes_add(b, 0, 0, x);
    mo_boxes_strides(b->g, x, box->in_stride);
    memcpy(box->out_stride, stride, sizeof stride);
    for (int i = 0; i < rank; i++) {
        if (pads[i] < 0 || pads[rank + i] < 0) return false;
        box->out_at += pads[i] * stride[i];
    }
    for (int i = 0; i < 2 * rank; i++) {
        int axis = i % rank;
        if (!pads[i]) continue;
        struct mo_box *edge = mo_boxes_add(b, -1, 0, y);
        memcpy(edge->out_stride, stride, sizeof stride);
        for (int j = 0; j < axis; j++) { /* corners belong to the first dimension that pads them */
            edge->dims[j] = x->shape.d[j];
            edge->out_at += pads[j] * stride[j];
        }
        edge->dims[axis] = pads[i];
        if (i >= rank) edge->out_at += (y->shape.d[axis] - pads[i]) * stride[axis];
    }
    return true;
}

/* Reshape and its kin, when the output has storage of its own. */
static bool reshape(struct mo_boxes *b) {
    const struct mo_tensor *x = mo_node_in(b->g, b->node, 0), *y = mo_node_out(b->g, b->node, 0);
    if (!mo_dense(b->g, x) || !mo_dense(b->g, y) || mo_tensor_bytes(x) != mo_tensor_bytes(y)) return false;
    struct mo_box *box = mo_boxes_add(b, 0, 0, y);
    mo_boxes_strides(b->g, y, box->out_stride);
    mo_boxes_strides(b->g, y, box->in_stride);
    return true;
}

static const struct {
    const char *op_type;
    bool (*make)(struct mo_boxes *b);
} makers[] = {
    {"Transpose", transpose}, {"Concat", concat},     {"Split", split},     {"Slice", slice},
    {"Expand", expand},       {"Pad", pad},           {"Reshape", reshape}, {"Flatten", reshape},
    {"Squeeze", reshape},     {"Unsqueeze", reshape},
};

static bool sized(const struct mo_tensor *t) {
    return t && !t->dynamic && mo_shape_count(&t->shape) > 0 && mo_dtype_bytes(t->dtype) > 0;
}

static bool make_boxes(const struct mo_graph *g, const struct mo_node *node, struct mo_boxes *b) {
    *b = (struct mo_boxes){.g = g, .node = node};
    if (node->fuse.act != MO_ACT_NONE || node->fuse.residual >= 0 || node->n_in > MO_KERNEL_IN) return false;
    if (!sized(mo_node_in(g, node, 0)) || !sized(mo_node_out(g, node, 0)) || node->n_out > MO_KERNEL_OUT)
        return false;
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        if (mo_node_is(node, makers[i].op_type)) return makers[i].make(b) && b->n > 0;
    return false;
}

/* Drops dimensions of 1 and joins those that are contiguous in both places. */
static void simplify(struct mo_box *box) {
    int n = 0;
    for (int i = 0; i < box->rank; i++) {
        if (box->dims[i] == 1) continue;
        if (n && box->in_stride[n - 1] == box->in_stride[i] * box->dims[i] &&
            box->out_stride[n - 1] == box->out_stride[i] * box->dims[i]) {
            box->dims[n - 1] *= box->dims[i];
            box->in_stride[n - 1] = box->in_stride[i];
            box->out_stride[n - 1] = box->out_stride[i];
            continue;
        }
        box->dims[n] = box->dims[i];
        box->in_stride[n] = box->in_stride[i];
        box->out_stride[n++] = box->out_stride[i];
    }
    box->rank = n;
}

/* The kernel writes whole lines: the last dimension is contiguous in the output; long lines are cut. */
static void finish_box(struct mo_box *box, int64_t element) {
    simplify(box);
    if (!box->rank || box->out_stride[box->rank - 1] != element) {
        box->dims[box->rank] = 1;
        box->in_stride[box->rank] = box->out_stride[box->rank] = element;
        box->rank++;
    }
    int last = box->rank - 1;
    int64_t cut = BYTES_PER_UNIT / element, n = box->dims[last];
    if (box->rank == 1 && n > 2 * cut && n % cut == 0) {
        box->in_stride[1] = box->in_stride[0];
        box->out_stride[1] = box->out_stride[0];
        box->dims[0] = n / cut;
        box->dims[1] = cut;
        box->in_stride[0] *= cut;
        box->out_stride[0] *= cut;
        box->rank = 2;
    }
    box->rows = 1;
    for (int i = 0; i + 1 < box->rank; i++)
        box->rows *= box->dims[i];
    int64_t line = box->dims[box->rank - 1] * element;
    box->group = line < BYTES_PER_UNIT ? BYTES_PER_UNIT / line : 1;
    /* swapped copies work on tiles of 16 rows */
    const bool swapped =
        element == 4 && last > 0 && box->in_stride[last - 1] == 4 && box->in_stride[last] != 4;
    if (box->group >= 16 || swapped) box->group = box->group < 16 ? 16 : box->group / 16 * 16;
}

bool mo_is_part(const struct mo_graph *g, const struct mo_node *node, int k, int64_t *offset) {
    struct mo_boxes b;
    if (!mo_node_is(node, "Slice") && !mo_node_is(node, "Split") && !mo_node_is(node, "Transpose"))
        return false;
    const struct mo_tensor *x = mo_node_in(g, node, 0), *y = mo_node_out(g, node, k);
    if (!sized(x) || x->data || x->layout != MO_PLAIN || !mo_dense(g, x) || !make_boxes(g, node, &b))
        return false;
    for (int i = 0; i < b.n; i++) {
        struct mo_box *box = &b.box[i];
        if (box->out != k || !sized(y) || y->layout != MO_PLAIN || y->dtype != x->dtype) continue;
        simplify(box);
        const int64_t element = (int64_t)mo_dtype_bytes(y->dtype);
        *offset = box->in_at;
        return !box->rank ||
               (box->rank == 1 && box->in_stride[0] == element && box->out_stride[0] == element);
    }
    return false;
}

bool mo_part_box(const struct mo_graph *g, const struct mo_node *node, int k, struct mo_box *out) {
    struct mo_boxes b;
    if (!mo_node_is(node, "Slice") && !mo_node_is(node, "Split")) return false;
    const struct mo_tensor *x = mo_node_in(g, node, 0), *y = mo_node_out(g, node, k);
    if (!sized(x) || !sized(y) || x->layout != MO_PLAIN || !mo_dense(g, x) || !make_boxes(g, node, &b))
        return false;
    for (int i = 0; i < b.n; i++) {
        if (b.box[i].out != k) continue;
        *out = b.box[i];
        return true;
    }
    return false;
}

static unsigned copy_layouts(const struct mo_graph *g, const struct mo_node *node) {
    struct mo_boxes b;
    if (!make_boxes(g, node, &b)) return 0;
    return MO_CAN_PLAIN | (mo_channels_go_last(g, node) ? MO_CAN_LEAVE : 0) |
           (mo_channels_come_first(g, node) ? MO_CAN_ENTER : 0);
}

/* The boxes of a layer in its final layouts. */
static bool bound_boxes(const struct mo_graph *g, const struct mo_node *node, struct mo_boxes *b) {
    const enum mo_layout out = mo_node_out(g, node, 0)->layout;
    bool enters = out == MO_C16, leaves = false;
    if ((out != MO_PLAIN && !enters) || !make_boxes(g, node, b)) return false;
    for (int i = 0; i < node->n_in; i++)
        leaves = leaves || (mo_node_in(g, node, i) && mo_node_in(g, node, i)->layout != MO_PLAIN);
    if (!enters && !leaves) return true;
    b->n = 0;
    if (enters) return !leaves && mo_channels_come_first(g, node) && mo_boxes_enter_blocks(b);
    return mo_channels_go_last(g, node) && mo_boxes_leave_blocks(b);
}

/* One element of padding: attribute `value` before opset 11, input 2 since; zero by default. */
static bool fill_element(const struct mo_graph *g, const struct mo_node *node, double *element) {
    const struct mo_tensor *value = mo_node_in(g, node, 2), *x = mo_node_in(g, node, 0);
    *element = 0;
    if (!mo_node_is(node, "Pad")) return true;
    if (value && (!value->data || mo_shape_count(&value->shape) != 1 || value->dtype != x->dtype))
        return false;
    if (value) memcpy(element, value->data, mo_dtype_bytes(value->dtype));
    float old = mo_attr_float(node, "value", 0.0f);
    if (old != 0.0f && x->dtype != MOIRE_F32) return false;
    if (old != 0.0f) memcpy(element, &old, sizeof old);
    return true;
}

static int copy_bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                     moire_error *err) {
    const struct mo_graph *g = binder->graph;
    struct mo_boxes b;
    double element;
    if (!bound_boxes(g, node, &b)) return MOIRE_EUNSUPPORTED;
    if (!fill_element(g, node, &element)) return MOIRE_EUNSUPPORTED;
    struct mo_copy_params p = {.n_boxes = b.n,
                               .element = (int)mo_dtype_bytes(mo_node_out(g, node, 0)->dtype)};
    int64_t units = 0;
    for (int i = 0; i < b.n; i++) {
        finish_box(&b.box[i], p.element);
        b.box[i].first_unit = units;
        units += (b.box[i].rows + b.box[i].group - 1) / b.box[i].group;
    }
    p.boxes = mo_keep(binder, b.box, (size_t)b.n * sizeof *b.box);
    p.fill = mo_keep(binder, &element, sizeof element);
    if (!p.boxes || !p.fill)
        return mo_fail(err, MOIRE_ENOMEM, "out of memory while binding '%s'", node->name);
    return mo_bound(step, mo_simd_of(binder->isa)->copy, "copy", mo_keep(binder, &p, sizeof p), units, err);
}

const struct mo_family mo_family_copy = {"copy", copy_layouts, copy_bind};
