/* SPDX-License-Identifier: Apache-2.0
 * estimate.c - see estimate.h.  Rates of references were measured on one core of a cloud machine (AVX2 class)
 * at 2^18 elements; those that are not in a table are within a factor of three of USUAL. */
#include "runtime/plan/estimate.h"

#include <string.h>
#include "runtime/plan/plan_impl.h"

struct rate {
    const char *op;
    double ns;
};

/* ns a multiply-add of float32, integers and all other types. */
static const double FLOAT_MAC = 0.6, INTEGER_MAC = 15, OTHER_MAC = 10, KERNEL_MAC = 0.02;
static const struct rate macs[] = {{"QLinearConv", 40}, {"ConvInteger", 40}, {"Einsum", 20}, {NULL, 0}};

/* ns an element of the largest operand, each of a window's taps. */
static const double USUAL = 8, MOVE = 0.2, TAP = 10;
static const struct rate elements[] = {
    {"QuantizeLinear", 50},
    {"DequantizeLinear", 20},
    {"DynamicQuantizeLinear", 50},
    {"Resize", 200},
    {"Upsample", 200},
    {"GridSample", 100},
    {"TopK", 300},
    {"LRN", 90},
    {"Softmax", 30},
    {"LogSoftmax", 30},
    {"LayerNormalization", 40},
    {"RMSNormalization", 40},
    {"Tile", 30},
    {"GatherElements", 40},
    {"Pow", 25},
    {"NonZero", 30},
    {"Gather", 0.5},
    {"Concat", 0.2},
    {"Split", 0.2},
    {NULL, 0},
};

/* Of any kernel: ns a byte that it moves, and to be called at all. */
static const double KERNEL_BYTE = 0.1, CALL = 200;

static double rate_of(const struct rate *table, const char *op, double usual) {
    for (; table->op; table++)
        if (!strcmp(table->op, op)) return table->ns;
    return usual;
}

static double mac_ns(const struct mo_graph *graph, const struct mo_node *node) {
    const struct mo_tensor *x = mo_node_in(graph, node, 0);
    double usual = !x || x->dtype == MOIRE_F32     ? FLOAT_MAC
                   : mo_dtype_bytes(x->dtype) == 1 ? INTEGER_MAC
                                                   : OTHER_MAC;
    return rate_of(macs, node->op_type, usual);
}

/* Elements of the largest operand that is no constant. */
static double largest(const struct mo_graph *graph, const struct mo_node *node) {
    int64_t most = 0;
    for (int i = 0; i < node->n_in + node->n_out; i++) {
        int id = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
        if (id < 0 || (i < node->n_in && mo_plan_is_constant(graph, id))) continue;
        int64_t n = mo_shape_count(&graph->tensors[id]->shape);
        if (n > most) most = n;
    }
    return (double)most;
}

static double element_ns(const struct mo_node *node) {
    int64_t window[MOIRE_MAX_RANK];
    if (node->op && (node->op->flags & MO_OP_VIEW)) return MOVE;
    int n = strstr(node->op_type, "Pool") ? mo_attr_ints(node, "kernel_shape", window, MOIRE_MAX_RANK) : 0;
    double ns = n > 0 ? TAP : rate_of(elements, node->op_type, USUAL);
    for (int i = 0; i < n && i < MOIRE_MAX_RANK; i++)
        ns *= (double)window[i];
    return ns;
}

static double reference_ns(const struct mo_graph *graph, const struct mo_step *step) {
    if (mo_plan_multiplies(step->node)) return (double)step->flops / 2 * mac_ns(graph, step->node);
    return largest(graph, step->node) * element_ns(step->node);
}

static double kernel_ns(const struct mo_step *step) {
    double work = (double)step->executed / 2 * KERNEL_MAC, moved = (double)step->bytes * KERNEL_BYTE;
    return work > moved ? work : moved;
}

double mo_step_estimate(const struct mo_graph *graph, const struct mo_step *step) {
    if (!step->run && !step->units) return 0; /* a view */
    return CALL + (step->run ? kernel_ns(step) : reference_ns(graph, step));
}
