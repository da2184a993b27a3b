/* SPDX-License-Identifier: Apache-2.0
 * graph_svg.h - a plan's graph of layers as a drawing, without any outside tool: what each layer is, or how
 * long it takes. */
#ifndef MO_GRAPH_SVG_H
#define MO_GRAPH_SVG_H
#include "runtime/plan/plan.h"

struct mo_graph_drawing {
    const struct mo_env *env;
    const struct mo_plan *plan;
    const char *title; /* untrusted text: the model's file */
    /* Time of each layer in ns, which colours the boxes; NULL: boxes are coloured by what the layers are. */
    const int64_t *ns;
    int threads; /* that ns was measured on */
};

/* Writes the drawing to `path`.  MOIRE_OK, MOIRE_ENOMEM, or MOIRE_EIO when it cannot be written. */
int mo_graph_draw(const struct mo_graph_drawing *drawing, const char *path, moire_error *err);
#endif
