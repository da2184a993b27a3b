/* SPDX-License-Identifier: Apache-2.0
 * depthwise.c - one filter a channel, on blocked input; a tile is a vector of channels for every pixel. */
#include "codegen/family/depthwise_small.h"

static bool takes(const struct mo_problem *p) {
    if (p->dot) return mo_depthwise_small_takes(p);
    return p->groups > 1 && p->groups == p->c && p->groups == p->o && p->in_layout == MO_C16 &&
           p->out_layout == MO_C16;
}

static int points(const struct mo_problem *p, struct mo_point *out, int cap) {
    return p->dot ? mo_depthwise_small_points(p, out, cap) : mo_walk_points(p, MO_WALK_DEPTHWISE, out, cap);
}

static int emit(const struct mo_problem *p, const struct mo_point *point, FILE *out, moire_error *err) {
    return p->dot ? mo_depthwise_small_emit(p, point, out, err)
                  : mo_walk_emit_point(p, MO_WALK_DEPTHWISE, "depthwise", point, out, err);
}

const struct mo_emit_family mo_emit_family_depthwise = {"depthwise", MO_WALK_KNOBS, takes, points, emit};
