/* SPDX-License-Identifier: Apache-2.0
 * quantize.c - numbers to 8 or 16 bits and back, products of such numbers: exact, as the reference has them.
 *
 * Sums are of 32 bits and wrap; a QLinear form scales the sum by one fp32 factor and rounds to even.  These
 * are plain loops, a thread an element: what they are good for is that such models run, and answer alike. */
#include <stdio.h>
#include <string.h>
#include "runtime/gpu/lower/lower.h"

/* A parameter along one axis: all its elements in a row, or one for all. */
static int vector_of(struct mo_lower *l, struct mo_each *e, int input) {
    struct mo_gpu_view v, flat;
    if (!mo_lower_has(l, input)) return -1;
    v = mo_lower_in(l, input);
    if (l->rc) return -1;
    const int64_t n = mo_gpu_count(&v);
    if (!mo_gpu_reshape(&v, 1, &n, &flat))
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "input %d lies scattered", input);
    return mo_each_arg(e, &flat, false);
}

static void declare(struct mo_each *e, const char *name, int k, const char *at) {
    if (k < 0)
        mo_each_text(e, "    const long long %s = 0;\n", name);
    else
        mo_each_text(e, "    const $%d %s = @%d(%s);\n", k, name, k, at);
}

void mo_quantized_begin(struct mo_lower *l, struct mo_each *e, bool scaled, const char *a_at,
                        const char *b_at, struct mo_quantized *q) {
    *q = (struct mo_quantized){.scaled = scaled, .a_at = a_at, .b_at = b_at};
    declare(e, "za", vector_of(l, e, 2), a_at);
    declare(e, "zb", vector_of(l, e, scaled ? 5 : 3), b_at);
    mo_gpu_printf(&e->body, "    unsigned s = 0;\n");
    if (!scaled) return;
    q->a_scale = vector_of(l, e, 1);
    q->b_scale = vector_of(l, e, 4);
    q->y_scale = vector_of(l, e, 6);
    q->y_zero = vector_of(l, e, 7);
}

/* Stores v, a double that is whole, within the type. */
static void store_whole(struct mo_each *e, int out) {
    const moire_dtype type = e->arg[out].dtype;
    const int span = type == MOIRE_I8 || type == MOIRE_U8 ? 256 : 65536;
    const int low = type == MOIRE_I8 || type == MOIRE_I16 ? -span / 2 : 0;
    mo_gpu_printf(&e->body, "    v = v != v ? 0 : v < %d ? %d : v > %d ? %d : v;\n", low, low, low + span - 1,
                  low + span - 1);
    mo_each_store(e, out, mo_each_here, "(int)v");
}

void mo_quantized_end(struct mo_lower *l, struct mo_each *e, const struct mo_quantized *q,
                      const struct mo_gpu_view *y) {
    const int out = mo_each_arg(e, y, true);
    if (l->rc) return;
    if (!q->scaled) {
        mo_each_store(e, out, mo_each_here, "(int)s");
        return;
    }
    declare(e, "sa", q->a_scale, q->a_at);
    declare(e, "sb", q->b_scale, q->b_at);
    declare(e, "sy", q->y_scale, "0");
    declare(e, "zy", q->y_zero, "0");
    mo_gpu_printf(&e->body, "    const float scale = (float)((double)sa * (double)sb / (double)sy);\n"
                            "    double v = (double)rintf((float)(int)s * scale) + (double)zy;\n");
    store_whole(e, out);
}

/* MatMulInteger(A, B, a_zero, b_zero), QLinearMatMul(a, a_scale, a_zero, b, b_scale, b_zero, y_scale,
 * y_zero). */
void mo_lower_matmul_quantized(struct mo_lower *l) {
    const bool scaled = !strcmp(l->node->op_type, "QLinearMatMul");
    struct mo_gpu_view a = mo_lower_in(l, 0), b = mo_lower_in(l, scaled ? 3 : 1), y;
    const char *a_at[MO_VIEW_RANK], *b_at[MO_VIEW_RANK];
    struct mo_quantized q;
    struct mo_each e;
    y = mo_lower_out(l, 0, NULL);
    if (l->rc) return;
    const int r = y.rank;
    for (int i = 0; i < r; i++)
        a_at[i] = i == r - 1 ? "c" : mo_each_here[i];
    for (int i = 0; i < b.rank; i++) /* one b for all has leading dimensions of 1, or none */
        b_at[i] = i == b.rank - 2 ? "c" : mo_each_here[i + r - b.rank];
    mo_each_init(l, &e, &y);
    const int ka = mo_each_arg(&e, &a, false), kb = mo_each_arg(&e, &b, false);
    mo_quantized_begin(l, &e, scaled, mo_each_here[r - 2], mo_each_here[r - 1], &q);
    mo_gpu_printf(&e.body, "    for (int c = 0; c < %lld; c++)\n        s += (unsigned)(int)(",
                  (long long)a.d[r - 1]);
    mo_each_value(&e, ka, a_at);
    mo_gpu_printf(&e.body, " - za) * (unsigned)(int)(");
    mo_each_value(&e, kb, b_at);
    mo_gpu_printf(&e.body, " - zb);\n");
    mo_quantized_end(l, &e, &q, &y);
    e.flops = 2 * mo_gpu_count(&y) * a.d[r - 1];
    mo_each_done(l, &e);
}

/* --- one number at a time ------------------------------------------------------------------------------- */

/* Coordinates of the scale of an element: one for all, along an axis, or one for a block of it. */
static void grain(struct mo_lower *l, const struct mo_gpu_view *x, const struct mo_gpu_view *scale,
                  const char *at[MO_VIEW_RANK], char block[40]) {
    int64_t axis = mo_attr_int(l->node, "axis", 1), size = mo_attr_int(l->node, "block_size", 0);
    if (axis < 0) axis += x->rank;
    if (scale->rank < 2) { /* of one element: no coordinate matters */
        at[0] = mo_gpu_count(scale) > 1 ? mo_each_here[axis] : "0";
        return;
    }
    if (size > x->d[axis]) size = x->d[axis];
    snprintf(block, 40, "o%lld / %lld", (long long)axis, (long long)(size > 0 ? size : 1));
    for (int i = 0; i < scale->rank; i++)
        at[i] = i == axis ? block : mo_each_here[i];
}

/* QuantizeLinear(x, scale, zero) and DequantizeLinear(x, scale, zero). */
void mo_lower_quantize(struct mo_lower *l) {
    const bool back = !strcmp(l->node->op_type, "DequantizeLinear");
    struct mo_gpu_view x = mo_lower_in(l, 0), scale = mo_lower_in(l, 1), zero, y;
    const char *at[MO_VIEW_RANK];
    char block[40];
    int order[MO_VIEW_RANK], z = -1;
    struct mo_each e;
    if (l->rc) return;
    mo_gpu_order_of(&x, order);
    y = mo_lower_out(l, 0, order);
    if (l->rc) return;
    grain(l, &x, &scale, at, block);
    mo_each_init(l, &e, &y);
    mo_each_arg(&e, &x, false);
    mo_each_arg(&e, &scale, false);
    if (mo_lower_has(l, 2)) {
        zero = mo_lower_in(l, 2);
        z = mo_each_arg(&e, &zero, false);
    }
    const int out = mo_each_arg(&e, &y, true);
    mo_gpu_printf(&e.body, "    const double z = ");
    if (z >= 0)
        mo_each_value(&e, z, at);
    else
        mo_gpu_printf(&e.body, "0");
    mo_gpu_printf(&e.body, ";\n    const float s = (float)");
    mo_each_value(&e, 1, at);
    mo_each_text(&e, back ? ";\n    const float r = (float)((double)@0 - z) * s;\n"
                          : ";\n    double v = (double)rintf((float)@0 / s) + z;\n");
    if (back)
        mo_each_store(&e, out, mo_each_here, "r");
    else
        store_whole(&e, out);
    mo_each_done(l, &e);
}

/* The least and the greatest element, 0 among them. */
static struct mo_gpu_view extreme(struct mo_lower *l, const char *name, const struct mo_gpu_view *x) {
    static const int64_t one[MO_VIEW_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    static const bool all[MO_VIEW_RANK] = {true, true, true, true, true, true, true, true};
    struct mo_gpu_view v = mo_lower_new(l, MOIRE_F32, x->rank, one, NULL);
    mo_lower_reduce(l, name, x, all, &v);
    return v;
}

/* DynamicQuantizeLinear(x): y, scale, zero. */
void mo_lower_quantize_dynamic(struct mo_lower *l) {
    static const char *const text =
        "    low = low < 0 ? low : 0;\n    high = high > 0 ? high : 0;\n"
        "    const float s = (high - low) / 255;\n"
        "    const float z = s > 0 ? fminf(fmaxf(rintf(-low / s), 0), 255) : 0;\n";
    struct mo_gpu_view x = mo_lower_in(l, 0);
    struct mo_each e;
    if (l->rc) return;
    const struct mo_gpu_view low = extreme(l, "ReduceMin", &x), high = extreme(l, "ReduceMax", &x);
    for (int k = 0; k < 3 && !l->rc; k++) {
        const struct mo_gpu_view y = mo_lower_out(l, k, NULL);
        if (l->rc) return;
        mo_each_init(l, &e, &y);
        mo_each_arg(&e, &low, false);
        mo_each_arg(&e, &high, false);
        const int from = k ? -1 : mo_each_arg(&e, &x, false);
        const int out = mo_each_arg(&e, &y, true);
        mo_gpu_printf(&e.body, "    float low = *a0, high = *a1;\n%s", text);
        if (k == 0) {
            mo_each_text(&e, "    double v = s > 0 ? (double)rintf(@%d / s) + (double)z : 0;\n", from);
            store_whole(&e, out);
        } else {
            mo_each_store(&e, out, mo_each_here, k == 1 ? "s" : "z");
        }
        mo_each_done(l, &e);
    }
}
