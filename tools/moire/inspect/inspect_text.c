/* SPDX-License-Identifier: Apache-2.0
 * inspect_text.c - the report of `moire inspect` for the terminal.
 * Names come from the model: control characters are shown as '?', so a name cannot steer the terminal. */
#include <stdio.h>
#include <string.h>
#include "runtime/ops/op.h"
#include "runtime/plan/versions.h"
#include "tools/moire/inspect/inspect.h"

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

/* The version that so many cores run, when it is another than the first. */
static void print_widest(const struct mo_step *step, int cores) {
    int chosen = step->n_versions > 1 ? mo_version_choose(step, 0, cores) : 0;
    if (chosen > 0)
        printf("%*s on %d cores: %s, %lld units\n", 95, "", cores, step->version[chosen].kernel,
               (long long)step->version[chosen].units);
}

static const char *const forms[] = {[MO_PLAIN] = "plain", [MO_C16] = "c16", [MO_C16_HALVES] = "c16h"};

static void print_layer(const struct mo_inspection *in, int i) {
    const struct mo_plan *plan = in->plan;
    const struct mo_step *step = &plan->steps[i];
    const struct mo_tensor *y =
        step->node->n_out && step->node->out[0] >= 0 ? plan->graph->tensors[step->node->out[0]] : NULL;
    char layer[80], shape[100] = "-";
    mo_layer_text(plan->graph, step->node, layer, sizeof layer);
    if (y) mo_shape_text(&y->shape, shape, sizeof shape);
    printf("%5d  %-34s %-22s %-5s", i, layer, shape, y ? forms[y->layout] : "plain");
    printf(" %10.2f %9.3f %6lld  ", (double)mo_step_macs(step) / 1e6, (double)step->bytes / 1e6,
           (long long)(step->units > 1 ? step->units : 1));
    print_choice(step, in->families[i]);
    if (in->cores) print_widest(step, in->cores);
}

/* Why a team of that many cores does not get a share each; NULL when it does. */
static const char *narrow(const struct mo_step *step, int cores) {
    int workers = mo_step_workers(step, cores);
    if (workers == cores) return NULL;
    if (!step->run && !step->units) return "only another view of what is there";
    if (!step->run) return "the reference runs on one core";
    if (workers >= mo_step_useful(step))
        return "too little work: a smaller share is not worth a barrier (1 us)";
    return step->units < 2 && !step->rounds ? "one piece" : "fewer pieces than cores";
}

/* Layers that cannot feed a team of in->cores, by reason, and their part of the work. */
static void print_cores(const struct mo_inspection *in) {
    int left = 0;
    for (int i = 0; i < in->plan->n_steps; i++) {
        const char *why = narrow(&in->plan->steps[i], in->cores);
        int64_t macs = 0, least = 0;
        int n = 0;
        for (int k = 0; why && k < in->plan->n_steps; k++) {
            const char *other = narrow(&in->plan->steps[k], in->cores);
            if (!other || strcmp(other, why)) continue;
            if (k < i) break; /* printed with layer k */
            macs += mo_step_macs(&in->plan->steps[k]);
            int workers = mo_step_workers(&in->plan->steps[k], in->cores);
            if (!n++ || workers < least) least = workers;
        }
        left += why != NULL;
        if (n)
            printf("%s%5d  %s: %.2f %% of the multiply-adds, at least %lld core%s\n",
                   left == 1 ? "layers that do not feed all cores:\n" : "", n, why,
                   in->macs ? 100 * (double)macs / (double)in->macs : 0, (long long)least,
                   least > 1 ? "s" : "");
    }
    printf("%d of %d layers give each of %d cores a share\n", in->plan->n_steps - left, in->plan->n_steps,
           in->cores);
}

/* What the versions of a tuned model take, all of them in memory. */
static void print_versions(const struct mo_plan *plan) {
    int tuned = 0, most = 0;
    for (int i = 0; i < plan->n_steps; i++) {
        int n = plan->steps[i].n_versions;
        tuned += n > 1;
        if (n > most) most = n;
    }
    if (!tuned || !plan->packed_bytes) return;
    printf("versions: %d layers have several, at most %d; packed weights %.2f times those of one version a "
           "layer when all have run\n",
           tuned, most, 1 + (double)mo_plan_version_bytes(plan) / (double)plan->packed_bytes);
}

/* What `moire compile` found in this model. */
static void print_verified(const struct mo_inspection *in) {
    const struct mo_store_stamp *s = &in->stamp;
    if (!s->model[0]) return;
    if (!in->stamp_current)
        printf("verified: other kernels than these; run `moire compile` again\n");
    else if (s->verified)
        printf("verified: %d of %d compiled layers against built-in kernels in this plan, largest error %.1e "
               "of the range in '%s'\n",
               s->verified, s->verified + s->unverified, s->error, s->error_layer);
}

void mo_inspect_text(const struct mo_inspection *in) {
    const struct mo_plan *plan = in->plan;
    double lower = plan->arena_lower > 0 ? (double)plan->arena_lower : 1;
    printf("%s: opset %d\n", in->file, in->before->opset);
    print_ports(in->before, "inputs", in->before->inputs, in->before->n_inputs);
    print_ports(in->before, "outputs", in->before->outputs, in->before->n_outputs);
    print_census("nodes before the passes", in->before->n_nodes, in->ops_before, in->n_before);
    print_census("layers after", plan->n_steps, in->ops_after, in->n_after);
    printf("\nlayer  %-34s %-22s %-5s %10s %9s %6s  kernel\n", "operator", "output", "form", "MMAC", "MB",
           "units");
    for (int i = 0; i < plan->n_steps; i++)
        print_layer(in, i);
    printf("\nparameters %.3f M (%.1f MB), multiply-adds %.3f G\n", (double)in->parameters / 1e6,
           (double)in->parameter_bytes / 1e6, (double)in->macs / 1e9);
    printf("activations %.2f MB a query, lower bound %.2f MB (%.2fx); packed weights %.1f MB; "
           "scratch %.2f MB a core\n",
           (double)plan->arena_bytes / 1e6, (double)plan->arena_lower / 1e6,
           (double)plan->arena_bytes / lower, (double)plan->weight_bytes / 1e6,
           (double)plan->scratch_bytes / 1e6);
    print_versions(plan);
    print_verified(in);
    if (in->before->n_halves)
        printf("half precision: %d constants became float32 at load, and so is what is computed\n",
               in->before->n_halves);
    if (in->cores) print_cores(in);
}
