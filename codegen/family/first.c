/* SPDX-License-Identifier: Apache-2.0
 * first.c - first layers: few input channels, read from the plain image. */
#include "codegen/family/walk.h"

static bool takes(const struct mo_problem *p) {
    return !p->dot && p->groups == 1 && p->c <= 8 && p->in_layout == MO_PLAIN && p->out_layout == MO_C16;
}

static int points(const struct mo_problem *p, struct mo_point *out, int cap) {
    return mo_walk_points(p, MO_WALK_FIRST, out, cap);
}

static int emit(const struct mo_problem *p, const struct mo_point *point, FILE *out, moire_error *err) {
    return mo_walk_emit_point(p, MO_WALK_FIRST, "first", point, out, err);
}

const struct mo_emit_family mo_emit_family_first = {"first", MO_WALK_KNOBS, takes, points, emit};
