/* SPDX-License-Identifier: Apache-2.0
 * quantize.c - numbers to 8 or 16 bits and back, exact, as the reference has them. */
#include <stdio.h>
#include <string.h>
#include "runtime/gpu/lower/lower.h"

/* Stores v, a double that is whole, within the type. */
static void store_whole(struct mo_each *e, int out) {
    const moire_dtype type = e->arg[out].dtype;
    const int span = type == MOIRE_I8 || type == MOIRE_U8 ? 256 : 65536;
    const int low = type == MOIRE_I8 || type == MOIRE_I16 ? -span / 2 : 0;
    mo_gpu_printf(&e->body, "    v = v != v ? 0 : v < %d ? %d : v > %d ? %d : v;\n", low, low, low + span - 1,
                  low + span - 1);
    mo_each_store(e, out, mo_each_here, "(int)v");
}

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
