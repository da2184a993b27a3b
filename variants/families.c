/* SPDX-License-Identifier: Apache-2.0
 * families.c - the families of built-in kernels, one row each, and how a layer finds one. */
#include "variants/generic/bind.h"

extern const struct mo_family mo_family_conv_direct, mo_family_conv_pointwise, mo_family_conv_depthwise,
    mo_family_conv_first, mo_family_conv_grouped, mo_family_frames, mo_family_tap_sum, mo_family_qconv,
    mo_family_qmean, mo_family_qattention, mo_family_matrix, mo_family_recurrent, mo_family_rotary;

/* clang-format off */ /* a line a row */
static const struct mo_family *const families[] = {
    &mo_family_matrix,
    &mo_family_gemm,
    &mo_family_matmul,
    &mo_family_attention,
    &mo_family_recurrent,
    &mo_family_unary,
    &mo_family_affine,
    &mo_family_fused,
    &mo_family_binary,
    &mo_family_pool,
    &mo_family_frames,
    &mo_family_tap_sum,
    &mo_family_reduce,
    &mo_family_softmax,
    &mo_family_layernorm,
    &mo_family_rotary,
    &mo_family_instance,
    &mo_family_reorder,
    &mo_family_concat,
    &mo_family_copy,
    &mo_family_resize,
    &mo_family_lrn,
    &mo_family_deconv,
    &mo_family_qconv,
    &mo_family_qmean,
    &mo_family_qattention,
    &mo_family_conv_first,
    &mo_family_conv_pointwise,
    &mo_family_winograd,
    &mo_family_conv_direct,
    &mo_family_conv_depthwise,
    &mo_family_conv_grouped,
    NULL,
};
/* clang-format on */

unsigned mo_layouts_of(const struct mo_graph *graph, const struct mo_node *node) {
    unsigned can = MO_CAN_PLAIN;
    for (int i = 0; families[i]; i++)
        can |= families[i]->layouts(graph, node);
    return can;
}

int mo_bind_generic(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                    moire_error *err) {
    if (node->n_in > MO_KERNEL_IN || node->n_out > MO_KERNEL_OUT) return MOIRE_EUNSUPPORTED;
    for (int i = 0; families[i]; i++) {
        if (!families[i]->layouts(binder->graph, node)) continue;
        struct mo_step bound = *step;
        int rc = families[i]->bind(binder, node, &bound, err);
        if (rc == MOIRE_EUNSUPPORTED) continue;
        if (!rc) *step = bound;
        return rc;
    }
    return MOIRE_OK;
}
