/* SPDX-License-Identifier: Apache-2.0
 * bind_parts.c - operators of independent parts whose parts run faster in vectors than by the reference. What
 * a kernel does not do (types, modes, sizes) it hands to the reference part by part: nothing is refused here.
 */
#include <string.h>
#include "variants/generic/bind.h"

static mo_parts_fn *faster(const struct mo_simd_table *table, const struct mo_op *op) {
    return !strcmp(op->name, "RoiAlign") ? table->roi_align : NULL;
}

int mo_bind_parts(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                  moire_error *err) {
    const struct mo_op_parts *own = node->op ? mo_op_parts_of(node->op) : NULL;
    if (!own) return MOIRE_OK;
    mo_parts_fn *run = faster(mo_simd_of(binder->isa), node->op);
    const struct mo_op_parts parts = {own->name, own->count, run ? run : own->run};
    step->parts = mo_keep(binder, &parts, sizeof parts);
    return step->parts ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory for a layer's parts");
}
