/* SPDX-License-Identifier: Apache-2.0
 * fold_work.c - how long it would take to compute a node while a model is loaded.
 *
 * Most operators take a few steps an element, which the limits of a constant's size bound.  A few take many:
 * a file of 200 bytes can ask for the product of two vectors of a million ones, each with each.  These are
 * rated here, from above; the steps of all nodes that are folded stay below the limit fold_steps. */
#include <string.h>
#include "codegen/prepare.h"
#include "runtime/plan/cost.h"

enum kind { WINDOW, ACROSS, TRANSFORM, MATRIX, BOXES, UNBOUNDED };

static const struct {
    const char *op;
    enum kind kind;
} rows[] = {
    {"MaxPool", WINDOW},
    {"AveragePool", WINDOW},
    {"LpPool", WINDOW},
    {"LRN", ACROSS},
    {"DFT", TRANSFORM},
    {"STFT", TRANSFORM},
    {"Det", MATRIX},
    {"RoiAlign", UNBOUNDED},
    {"NonMaxSuppression", BOXES},
    {"TfIdfVectorizer", UNBOUNDED},
};

static int64_t longest(const struct mo_tensor *t) {
    int64_t n = 1;
    for (int i = 0; t && i < t->shape.rank; i++)
        if (t->shape.d[i] > n) n = t->shape.d[i];
    return n;
}

static int64_t window(const struct mo_node *node) {
    int64_t n = 1, size[MOIRE_MAX_RANK];
    int rank = mo_attr_ints(node, "kernel_shape", size, MOIRE_MAX_RANK);
    for (int i = 0; i < rank && i < MOIRE_MAX_RANK; i++)
        n = mo_cost_times(n, size[i] > 0 ? size[i] : 1);
    return n;
}

/* Each box of a class may be compared with every other. */
static int64_t pairs_of_boxes(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *boxes = mo_node_in(g, node, 0), *scores = mo_node_in(g, node, 1);
    int64_t n = boxes && boxes->shape.rank == 3 ? boxes->shape.d[1] : 0;
    return mo_cost_times(mo_cost_elements(scores), n);
}

static int64_t steps_of(const struct mo_graph *g, const struct mo_node *node, enum kind kind) {
    const struct mo_tensor *x = mo_node_in(g, node, 0), *y = mo_node_out(g, node, 0);
    switch (kind) {
    case WINDOW:
        return mo_cost_times(mo_cost_elements(y), window(node));
    case ACROSS:
        return mo_cost_times(mo_cost_elements(y), longest(x));
    case TRANSFORM: /* half of a spectrum may be left out */
        return mo_cost_times(mo_cost_elements(y),
                             mo_cost_times(2, longest(x) > longest(y) ? longest(x) : longest(y)));
    case MATRIX:
        return mo_cost_times(mo_cost_elements(x), longest(x));
    case BOXES:
        return pairs_of_boxes(g, node);
    case UNBOUNDED: /* what it takes is in the contents */
        return INT64_MAX;
    }
    return 0;
}

int64_t mo_fold_steps(const struct mo_graph *g, const struct mo_node *node) {
    int64_t flops, bytes;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!*node->domain && !strcmp(node->op_type, rows[i].op)) return steps_of(g, node, rows[i].kind);
    if (!mo_plan_multiplies(node)) return 0;
    mo_plan_cost(g, node, &flops, &bytes);
    return flops;
}
