/* SPDX-License-Identifier: Apache-2.0
 * inspect_text.c - layers in words, and the report of `moire inspect` for the terminal.
 * Names come from the model: control characters are shown as '?', so a name cannot steer the terminal. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "runtime/ops/op.h"
#include "tools/moire/inspect.h"

const char *mo_act_text(enum mo_act act) {
    static const char *const names[MO_ACT_COUNT] = {"",     "relu",     "clip",   "leaky", "sigmoid",
                                                    "silu", "hsigmoid", "hswish", "tanh",  "gelu"};
    return act >= 0 && act < MO_ACT_COUNT ? names[act] : "";
}

int64_t mo_step_macs(const struct mo_step *step) {
    static const char *const products[] = {"Conv", "ConvTranspose", "MatMul", "Gemm", "Attention"};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        if (!strcmp(step->node->op_type, products[i])) return step->flops / 2;
    return 0;
}

void mo_tensor_text(const struct mo_tensor *t, char *out, size_t n) {
    char shape[160];
    snprintf(out, n, "%s %s", mo_dtype_name(t->dtype), mo_shape_text(&t->shape, shape, sizeof shape));
}

struct text {
    char *at;
    size_t left;
};

static void put(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct text *t, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(t->at, t->left, format, ap);
    va_end(ap);
    size_t used = n < 0 ? 0 : (size_t)n < t->left ? (size_t)n : t->left - 1;
    t->at += used;
    t->left -= used;
}

/* "3x3", from the kernel_shape attribute or the weights. */
static void put_window(struct text *t, const struct mo_graph *g, const struct mo_node *node) {
    int64_t k[MOIRE_MAX_RANK], s[MOIRE_MAX_RANK];
    int n = mo_attr_ints(node, "kernel_shape", k, MOIRE_MAX_RANK);
    const struct mo_tensor *w = node->n_in > 1 && node->in[1] >= 0 ? g->tensors[node->in[1]] : NULL;
    if (n < 1 && !strncmp(node->op_type, "Conv", 4) && w)
        for (n = 0; n + 2 < w->shape.rank; n++)
            k[n] = w->shape.d[2 + n];
    for (int i = 0; i < n && i < MOIRE_MAX_RANK; i++)
        put(t, "%s%lld", i ? "x" : " ", (long long)k[i]);
    if (mo_attr_ints(node, "strides", s, MOIRE_MAX_RANK) > 0 && s[0] != 1) put(t, "/%lld", (long long)s[0]);
    int64_t group = mo_attr_int(node, "group", 1);
    if (group > 1) put(t, " g%lld", (long long)group);
}

/* Operator names reach this point only when they are in the operator table, so they are our own text. */
void mo_layer_text(const struct mo_graph *g, const struct mo_node *node, char *out, size_t n) {
    struct text t = {out, n};
    out[0] = 0;
    bool bare = !strcmp(node->op_type, "Activation");
    put(&t, "%s", bare ? mo_act_text(node->fuse.act) : node->op->name);
    put_window(&t, g, node);
    if (node->fuse.residual >= 0 && !node->fuse.residual_last) put(&t, " +add");
    if (node->fuse.act != MO_ACT_NONE && !bare) put(&t, " +%s", mo_act_text(node->fuse.act));
    if (node->fuse.residual >= 0 && node->fuse.residual_last) put(&t, " +add");
}

/* --- report -------------------------------------------------------------------------------------------- */

static void print_safe(const char *s) {
    for (; *s; s++)
        putchar((unsigned char)*s < 32 || *s == 127 ? '?' : *s);
}

static void print_ports(const struct mo_graph *g, const char *title, const int *ids, int n) {
    char text[220];
    for (int i = 0; i < n; i++) {
        const struct mo_tensor *t = g->tensors[ids[i]];
        mo_tensor_text(t, text, sizeof text);
        printf("%-10s", i ? "" : title);
        print_safe(t->name);
        printf("  %s\n", text);
    }
}

static void print_census(const char *title, int total, const struct mo_op_count *rows, int n) {
    printf("%s: %d  (", title, total);
    for (int i = 0; i < n; i++)
        printf("%s%s %d", i ? ", " : "", rows[i].op, rows[i].n);
    printf(")\n");
}

static void print_layer(const struct mo_plan *plan, int i) {
    const struct mo_step *step = &plan->steps[i];
    const struct mo_tensor *y =
        step->node->n_out && step->node->out[0] >= 0 ? plan->graph->tensors[step->node->out[0]] : NULL;
    char layer[80], shape[100] = "-";
    mo_layer_text(plan->graph, step->node, layer, sizeof layer);
    if (y) mo_shape_text(&y->shape, shape, sizeof shape);
    printf("%5d  %-34s %-22s %-5s", i, layer, shape, y && y->layout == MO_C16 ? "c16" : "plain");
    printf(" %10.2f %9.3f  %s", (double)mo_step_macs(step) / 1e6, (double)step->bytes / 1e6, step->kernel);
    printf("%s%s\n", strcmp(step->kind, step->kernel) ? ", " : "",
           strcmp(step->kind, step->kernel) ? step->kind : "");
}

void mo_inspect_text(const struct mo_inspection *in) {
    const struct mo_plan *plan = in->plan;
    double lower = plan->arena_lower > 0 ? (double)plan->arena_lower : 1;
    printf("%s: opset %d\n", in->file, in->before->opset);
    print_ports(in->before, "inputs", in->before->inputs, in->before->n_inputs);
    print_ports(in->before, "outputs", in->before->outputs, in->before->n_outputs);
    print_census("nodes before the passes", in->before->n_nodes, in->ops_before, in->n_before);
    print_census("layers after", plan->n_steps, in->ops_after, in->n_after);
    printf("\nlayer  %-34s %-22s %-5s %10s %9s  kernel\n", "operator", "output", "form", "MMAC", "MB");
    for (int i = 0; i < plan->n_steps; i++)
        print_layer(plan, i);
    printf("\nparameters %.3f M (%.1f MB), multiply-adds %.3f G\n", (double)in->parameters / 1e6,
           (double)in->parameter_bytes / 1e6, (double)in->macs / 1e9);
    printf("activations %.2f MB a query, lower bound %.2f MB (%.2fx); packed weights %.1f MB\n",
           (double)plan->arena_bytes / 1e6, (double)plan->arena_lower / 1e6,
           (double)plan->arena_bytes / lower, (double)plan->weight_bytes / 1e6);
}
