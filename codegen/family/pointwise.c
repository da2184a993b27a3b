/* SPDX-License-Identifier: Apache-2.0
 * pointwise.c - 1x1 convolution on blocked input; rows are joined into one when nothing forbids it. */
#include "codegen/family/walk.h"

static bool takes(const struct mo_problem *p) {
    return p->kh == 1 && p->kw == 1 && p->groups == 1 && p->in_layout == MO_C16 && p->out_layout == MO_C16;
}

static int points(const struct mo_problem *p, struct mo_point *out, int cap) {
    return mo_walk_points(p, MO_WALK_BLOCKED, out, cap);
}

static int emit(const struct mo_problem *p, const struct mo_point *point, FILE *out, moire_error *err) {
    return mo_walk_emit_point(p, MO_WALK_BLOCKED, "pointwise", point, out, err);
}

const struct mo_emit_family mo_emit_family_pointwise = {"pointwise", MO_WALK_KNOBS, takes, points, emit};
