/* SPDX-License-Identifier: Apache-2.0
 * inspect_text.c - the report of `moire inspect` for the terminal.
 * Names come from the model: control characters are shown as '?', so a name cannot steer the terminal. */
#include <stdio.h>
#include <string.h>
#include "runtime/ops/op.h"
#include "tools/moire/inspect.h"

void mo_tensor_text(const struct mo_tensor *t, char *out, size_t n) {
    char shape[160];
    snprintf(out, n, "%s %s", mo_dtype_name(t->dtype), mo_shape_text(&t->shape, shape, sizeof shape));
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

/* Who runs a layer, and who else could. */
static void print_choice(const struct mo_step *step, const char *families) {
    if (!strcmp(step->kind, "reference"))
        printf("reference; no family takes it\n");
    else if (!strcmp(step->kind, "generic"))
        printf("%s, generic; %s%s\n", step->kernel, *families ? "to compile: " : "no generated family",
               families);
    else if (!strcmp(step->kind, step->kernel))
        printf("%s\n", step->kind);
    else
        printf("%s, %s\n", step->kernel, step->kind);
}

static void print_layer(const struct mo_inspection *in, int i) {
    const struct mo_plan *plan = in->plan;
    const struct mo_step *step = &plan->steps[i];
    const struct mo_tensor *y =
        step->node->n_out && step->node->out[0] >= 0 ? plan->graph->tensors[step->node->out[0]] : NULL;
    char layer[80], shape[100] = "-";
    mo_layer_text(plan->graph, step->node, layer, sizeof layer);
    if (y) mo_shape_text(&y->shape, shape, sizeof shape);
    printf("%5d  %-34s %-22s %-5s", i, layer, shape, y && y->layout == MO_C16 ? "c16" : "plain");
    printf(" %10.2f %9.3f  ", (double)mo_step_macs(step) / 1e6, (double)step->bytes / 1e6);
    print_choice(step, in->families[i]);
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
        print_layer(in, i);
    printf("\nparameters %.3f M (%.1f MB), multiply-adds %.3f G\n", (double)in->parameters / 1e6,
           (double)in->parameter_bytes / 1e6, (double)in->macs / 1e9);
    printf("activations %.2f MB a query, lower bound %.2f MB (%.2fx); packed weights %.1f MB\n",
           (double)plan->arena_bytes / 1e6, (double)plan->arena_lower / 1e6,
           (double)plan->arena_bytes / lower, (double)plan->weight_bytes / 1e6);
}
