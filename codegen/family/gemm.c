/* SPDX-License-Identifier: Apache-2.0
 * gemm.c - matrix product of plain rows with packed weights. */
#include "codegen/family/walk.h"

static bool takes(const struct mo_problem *p) {
    return p->in_layout == MO_PLAIN && p->out_layout == MO_PLAIN;
}

static int points(const struct mo_problem *p, struct mo_point *out, int cap) {
    return mo_walk_points(p, MO_WALK_GEMM, out, cap);
}

static int emit(const struct mo_problem *p, const struct mo_point *point, FILE *out, moire_error *err) {
    return mo_walk_emit_point(p, MO_WALK_GEMM, "gemm", point, out, err);
}

const struct mo_emit_family mo_emit_family_gemm = {"gemm", MO_WALK_KNOBS, takes, points, emit};
