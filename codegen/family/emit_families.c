/* SPDX-License-Identifier: Apache-2.0
 * emit_families.c - the generator's kernel families, one row each. */
#include "codegen/family/strassen.h"
#include "codegen/family/walk.h"
#include "codegen/family/winograd.h"

static const struct mo_emit_family *const families[] = {
    &mo_emit_family_pointwise, &mo_emit_family_direct,   &mo_emit_family_grouped,
    &mo_emit_family_depthwise, &mo_emit_family_first,    &mo_emit_family_gemm,
    &mo_emit_family_winograd,  &mo_emit_family_strassen, NULL,
};

const struct mo_emit_family *const *mo_emit_families(void) {
    return families;
}
