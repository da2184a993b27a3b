/* SPDX-License-Identifier: Apache-2.0
 * slow.c - see slow.h.  Reasons are text of our own: an operator's name in the table, shapes, types. */
#include "runtime/plan/slow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/text.h"
#include "runtime/plan/estimate.h"
#include "runtime/plan/plan_impl.h"

static const double LEAST_SHARE = 0.05, LEAST_REASON = 0.01, LEAST_NS = 20000;
enum { REASONS = 40 }; /* told apart; what comes later joins the last */

/* --- reasons -------------------------------------------------------------------------------------------- */
static bool is(const struct mo_node *node, const char *op) {
    return !strcmp(node->op_type, op);
}

/* Dimensions of the map that a Conv, Pool or Resize works on; 2 for all others. */
static int spatial(const struct mo_tensor *x, const struct mo_node *node) {
    bool maps = strstr(node->op_type, "Conv") || strstr(node->op_type, "Pool") || is(node, "Resize");
    return maps && x && x->shape.rank > 2 ? x->shape.rank - 2 : 2;
}

static bool is_int8(const struct mo_node *node) {
    return strstr(node->op_type, "QLinear") || strstr(node->op_type, "Quantize") ||
           strstr(node->op_type, "Dequantize") || is(node, "ConvInteger") || is(node, "MatMulInteger");
}

/* Why no kernel took a layer that multiplies, beyond its rank; "" when there is nothing to add. */
static void put_product(struct mo_text *t, const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *x = mo_node_in(g, node, 0), *w = mo_node_in(g, node, 1);
    int64_t group = mo_attr_int(node, "group", 1);
    if (x && x->dtype != MOIRE_F32 && x->dtype != MOIRE_NONE)
        mo_text_put(t, " in %s", mo_dtype_name(x->dtype));
    else if (!strncmp(node->op_type, "Conv", 4) && w && !mo_plan_is_constant(g, w->id))
        mo_text_put(t, " with computed filters");
    else if (group > 1 && w && w->shape.rank > 1 && x && x->shape.rank > 1)
        mo_text_put(t, " of %lld channels a group", (long long)(x->shape.d[1] / group));
}

static void reason(const struct mo_graph *g, const struct mo_step *step, char out[MO_SLOW_WHAT]) {
    const struct mo_node *node = step->node;
    const struct mo_tensor *x = mo_node_in(g, node, 0);
    const char *name = node->op ? node->op->name : "?";
    struct mo_text t = mo_text_in(out, MO_SLOW_WHAT);
    int dims = spatial(x, node);
    if (is(node, "QuantizeLinear") || is(node, "DequantizeLinear")) name = "QuantizeLinear/DequantizeLinear";
    if (dims != 2 && !step->dynamic) mo_text_put(&t, "%d-D ", dims);
    if (is_int8(node)) mo_text_put(&t, "int8 ");
    if (mo_attr_int(node, "group", 1) > 1 && dims == 2 && !step->dynamic) mo_text_put(&t, "grouped ");
    mo_text_put(&t, "%s", name);
    if (step->dynamic)
        mo_text_put(&t, " of a shape known at run time");
    else if (mo_plan_multiplies(node) && !is_int8(node) && dims == 2)
        put_product(&t, g, node);
}

/* --- what there is to say ------------------------------------------------------------------------------- */
struct reasons {
    struct mo_slow_row row[REASONS]; /* share: ns */
    int n;
};

static struct mo_slow_row *find(struct reasons *r, const char *what) {
    for (int i = 0; i < r->n; i++)
        if (!strcmp(r->row[i].what, what)) return &r->row[i];
    if (r->n == REASONS) return &r->row[REASONS - 1];
    struct mo_slow_row *row = &r->row[r->n++];
    snprintf(row->what, sizeof row->what, "%s", r->n == REASONS ? "other operators" : what);
    return row;
}

/* Time of all layers; those of references by reason. */
static double sort_layers(const struct mo_plan *plan, const int64_t *ns, struct reasons *r) {
    double all = 0;
    for (int i = 0; i < plan->n_steps; i++) {
        const struct mo_step *step = &plan->steps[i];
        double time = ns ? (double)ns[i] : mo_step_estimate(plan->graph, step);
        char what[MO_SLOW_WHAT];
        all += time;
        if (step->run || !step->units || mo_plan_has_bodies(plan, step->node)) continue;
        bool unknown = !ns && step->dynamic;
        if (unknown && !mo_plan_multiplies(step->node)) continue;
        reason(plan->graph, step, what);
        struct mo_slow_row *row = find(r, what);
        row->layers++;
        row->share += unknown ? 0 : time;
    }
    return all;
}

static int by_share(const void *a, const void *b) {
    const struct mo_slow_row *x = a, *y = b;
    if (x->share != y->share) return x->share > y->share ? -1 : 1;
    return strcmp(x->what, y->what);
}

struct mo_slow mo_slow_find(const struct mo_plan *plan, const int64_t *ns) {
    struct reasons r = {.n = 0};
    struct mo_slow s = {.of = plan->n_steps, .measured = ns != NULL};
    double all = sort_layers(plan, ns, &r), slow = 0;
    bool unknown = false;
    qsort(r.row, (size_t)r.n, sizeof *r.row, by_share);
    for (int i = 0; i < r.n; i++) {
        struct mo_slow_row *row = &r.row[i];
        unknown = unknown || !(row->share > 0);
        if (row->share > 0 && row->share < LEAST_REASON * all) continue;
        slow += row->share;
        s.layers += row->layers;
        if (s.n_rows < MO_SLOW_ROWS)
            s.row[s.n_rows++] = *row;
        else
            s.others += row->layers;
    }
    if (!s.layers || (!unknown && (slow < LEAST_SHARE * all || slow < LEAST_NS)))
        return (struct mo_slow){.of = plan->n_steps, .measured = ns != NULL};
    s.share = all > 0 && slow >= LEAST_SHARE * all ? slow / all : 0;
    for (int i = 0; i < s.n_rows; i++)
        s.row[i].share = all > 0 ? s.row[i].share / all : 0;
    return s;
}

void mo_slow_text(const struct mo_slow *s, char *out, size_t n) {
    struct mo_text t = mo_text_in(out, n);
    if (!s->layers) return;
    mo_text_put(&t, "%d of %d layers, ", s->layers, s->of);
    if (s->share > 0)
        mo_text_put(&t, "%.0f %% of the work, ", 100 * s->share);
    else
        mo_text_put(&t, "of unknown work, ");
    mo_text_put(&t, "run by the slow reference: ");
    for (int i = 0; i < s->n_rows; i++)
        mo_text_put(&t, "%s%s (%d)", i ? ", " : "", s->row[i].what, s->row[i].layers);
    if (s->others) mo_text_put(&t, ", others (%d)", s->others);
}
