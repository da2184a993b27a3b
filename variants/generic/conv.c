/* SPDX-License-Identifier: Apache-2.0
 * conv.c - the families of built-in convolutions: which layer each takes and in which layouts. */
#include "variants/generic/conv_walk.h"

enum { FIRST_MAX_CHANNELS = 8 };

static const char *const direct_names[MO_ISA_COUNT] = MO_LEVEL_NAMES("conv direct");
static const char *const pointwise_names[MO_ISA_COUNT] = MO_LEVEL_NAMES("conv 1x1");
static const char *const depthwise_names[MO_ISA_COUNT] = MO_LEVEL_NAMES("conv depthwise");
static const char *const first_names[MO_ISA_COUNT] = MO_LEVEL_NAMES("conv first");
static const char *const grouped_names[MO_ISA_COUNT] = MO_LEVEL_NAMES("conv grouped");

static bool is_pointwise(const struct mo_conv *c) {
    return c->kh == 1 && c->kw == 1 && c->groups == 1 && c->merge == 1;
}
static bool is_direct(const struct mo_conv *c) {
    return !is_pointwise(c) && c->groups == 1 && c->merge == 1;
}
static bool is_grouped(const struct mo_conv *c) {
    return !c->depthwise && (c->groups > 1 || c->merge > 1);
}
static bool is_depthwise(const struct mo_conv *c) {
    return c->depthwise;
}
static bool is_first(const struct mo_conv *c) {
    return c->groups == 1 && c->merge == 1 && c->c <= FIRST_MAX_CHANNELS && !c->gate;
}

static unsigned layouts(const struct mo_graph *graph, const struct mo_node *node,
                        bool (*is)(const struct mo_conv *), unsigned can) {
    struct mo_conv c;
    return mo_conv_read(graph, node, &c) && is(&c) ? can : 0;
}

static int bind(const struct mo_binder *binder, const struct mo_node *node,
                bool (*is)(const struct mo_conv *), enum mo_conv_kind kind,
                const char *const names[MO_ISA_COUNT], struct mo_step *step, moire_error *err) {
    struct mo_conv c;
    if (!mo_conv_read(binder->graph, node, &c) || !is(&c)) return MOIRE_EUNSUPPORTED;
    enum mo_layout in = kind == MO_CONV_FIRST ? MO_PLAIN : MO_C16;
    if (c.x->layout != in || c.y->layout != MO_C16) return MOIRE_EUNSUPPORTED;
    if (c.residual && c.residual->layout != MO_C16) return MOIRE_EUNSUPPORTED;
    if (c.gate && (c.gate->layout != MO_C16 || c.gate->data)) return MOIRE_EUNSUPPORTED;
    return mo_conv_walk_bind(binder, node, &c, kind, names, step, err);
}

static unsigned direct_layouts(const struct mo_graph *graph, const struct mo_node *node) {
    return layouts(graph, node, is_direct, MO_CAN_C16);
}
static int direct_bind(const struct mo_binder *b, const struct mo_node *node, struct mo_step *step,
                       moire_error *err) {
    return bind(b, node, is_direct, MO_CONV_BLOCKED, direct_names, step, err);
}

static unsigned pointwise_layouts(const struct mo_graph *graph, const struct mo_node *node) {
    return layouts(graph, node, is_pointwise, MO_CAN_C16);
}
static int pointwise_bind(const struct mo_binder *b, const struct mo_node *node, struct mo_step *step,
                          moire_error *err) {
    return bind(b, node, is_pointwise, MO_CONV_BLOCKED, pointwise_names, step, err);
}

static unsigned depthwise_layouts(const struct mo_graph *graph, const struct mo_node *node) {
    return layouts(graph, node, is_depthwise, MO_CAN_C16);
}
static int depthwise_bind(const struct mo_binder *b, const struct mo_node *node, struct mo_step *step,
                          moire_error *err) {
    return bind(b, node, is_depthwise, MO_CONV_DEPTHWISE, depthwise_names, step, err);
}

static unsigned first_layouts(const struct mo_graph *graph, const struct mo_node *node) {
    return layouts(graph, node, is_first, MO_CAN_ENTER);
}
static int first_bind(const struct mo_binder *b, const struct mo_node *node, struct mo_step *step,
                      moire_error *err) {
    return bind(b, node, is_first, MO_CONV_FIRST, first_names, step, err);
}

static unsigned grouped_layouts(const struct mo_graph *graph, const struct mo_node *node) {
    return layouts(graph, node, is_grouped, MO_CAN_C16);
}
static int grouped_bind(const struct mo_binder *b, const struct mo_node *node, struct mo_step *step,
                        moire_error *err) {
    return bind(b, node, is_grouped, MO_CONV_BLOCKED, grouped_names, step, err);
}

extern const struct mo_family mo_family_conv_direct, mo_family_conv_pointwise, mo_family_conv_depthwise,
    mo_family_conv_first, mo_family_conv_grouped;
const struct mo_family mo_family_conv_direct = {"direct", direct_layouts, direct_bind};
const struct mo_family mo_family_conv_pointwise = {"pointwise", pointwise_layouts, pointwise_bind};
const struct mo_family mo_family_conv_depthwise = {"depthwise", depthwise_layouts, depthwise_bind};
const struct mo_family mo_family_conv_first = {"first", first_layouts, first_bind};
const struct mo_family mo_family_conv_grouped = {"grouped", grouped_layouts, grouped_bind};
