/* SPDX-License-Identifier: Apache-2.0
 * direct.c - convolution of any filter, stride, dilation, pad and group on blocked input. */
#include "codegen/family/walk.h"

static bool takes(const struct mo_problem *p) {
    bool pointwise = p->kh == 1 && p->kw == 1 && p->groups == 1;
    bool depthwise = p->groups > 1 && p->groups == p->c && p->groups == p->o;
    return !pointwise && !depthwise && !p->rest && p->in_layout == MO_C16 && p->out_layout == MO_C16;
}

static int points(const struct mo_problem *p, struct mo_point *out, int cap) {
    return mo_walk_points(p, MO_WALK_BLOCKED, out, cap);
}

static int emit(const struct mo_problem *p, const struct mo_point *point, FILE *out, moire_error *err) {
    return mo_walk_emit_point(p, MO_WALK_BLOCKED, "direct", point, out, err);
}

const struct mo_emit_family mo_emit_family_direct = {"direct", MO_WALK_KNOBS, takes, points, emit};
