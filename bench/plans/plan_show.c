/* SPDX-License-Identifier: Apache-2.0
 * plan_show.c - see plan_show.h. */
#include "bench/plans/plan_show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "bench/report/headline.h"
#include "bench/report/plot.h"
#include "runtime/base/text.h"
#include "runtime/planner/rate_bound.h"

enum { HALVINGS = 14 };

/* --- the nearest feasible rates ------------------------------------------------------------------------- */
static int try_rate(struct mo_bench_plan_view *v, const struct mo_planner *planner, int tenant, double rate,
                    struct mo_lets_plan *spare, bool *placed, moire_error *err) {
    v->tenants[tenant].rate = rate;
    int code = mo_plan_make(planner, &v->view, v->scratch, v->scratch_bytes, spare, err);
    *placed = !code && spare->tenants[tenant].reason == MO_PLAN_PLACED && spare->complete;
    return code;
}

int mo_bench_plan_nearest(struct mo_bench_plan_view *v, const struct mo_planner *planner,
                          const struct mo_lets_plan *plan, struct mo_lets_plan *spare, double *nearest,
                          moire_error *err) {
    double asked[MO_PLAN_TENANTS];
    int n = v->view.n_tenants, code = MOIRE_OK;
    for (int t = 0; t < n; t++) {
        asked[t] = nearest[t] = v->tenants[t].rate;
        v->tenants[t].rate = fmin(plan->tenants[t].placed, asked[t]);
    }
    for (int t = 0; !code && t < n; t++) {
        double low = v->tenants[t].rate, high = asked[t], mine = low;
        if (plan->tenants[t].reason == MO_PLAN_PLACED || v->tenants[t].best_effort) continue;
        for (int i = 0; !code && i < HALVINGS; i++) {
            double middle = (low + high) / 2;
            bool placed;
            code = try_rate(v, planner, t, middle, spare, &placed, err);
            if (placed)
                low = middle;
            else
                high = middle;
        }
        nearest[t] = low;
        v->tenants[t].rate = mine;
    }
    for (int t = 0; t < n; t++)
        v->tenants[t].rate = asked[t];
    return code;
}

/* --- the document --------------------------------------------------------------------------------------- */
static json_t *let_json(const struct mo_bench_plan_view *v, const struct mo_planned_let *let) {
    json_t *list = json_array();
    for (int e = 0; e < let->n_entries; e++) {
        const struct mo_let_entry *entry = &let->entries[e];
        const struct mo_plan_tenant *t = &v->tenants[entry->tenant];
        json_array_append_new(list, json_pack("{s:s, s:i, s:f, s:f, s:f, s:f}", "tenant", t->name, "batch",
                                              entry->batch, "rate", entry->rate, "batch_ms",
                                              (double)entry->latency_ns * 1e-6, "worst_ms",
                                              (double)(let->duty_ns + entry->latency_ns) * 1e-6, "target_ms",
                                              (double)t->target_ns * 1e-6));
    }
    return json_pack("{s:i, s:i, s:i, s:f, s:o}", "gpu", let->gpu, "first", let->first, "units", let->units,
                     "duty_ms", (double)let->duty_ns * 1e-6, "tenants", list);
}

static json_t *tenant_json(const struct mo_bench_plan_view *v, const struct mo_lets_plan *plan, int tenant,
                           double nearest) {
    char why[320];
    mo_plan_why(&v->view, plan, tenant, why, sizeof why);
    json_t *t = json_pack("{s:s, s:f, s:f}", "name", v->tenants[tenant].name, "rate",
                          plan->tenants[tenant].rate, "placed", plan->tenants[tenant].placed);
    if (t && why[0]) {
        json_object_set_new(t, "why", json_string(why));
        json_object_set_new(t, "nearest_rate", json_real(nearest));
    }
    return t;
}

json_t *mo_bench_plan_json(const struct mo_bench_plan_view *v, const struct mo_lets_plan *plan,
                           const char *planner, double load, const double *nearest) {
    struct mo_planner_bound bound;
    json_t *gpus = json_array(), *lets = json_array(), *tenants = json_array();
    mo_planner_bound(&v->view, &bound);
    for (int g = 0; g < v->view.n_gpus; g++) {
        const struct mo_plan_kind *k = &v->kinds[v->gpu_kind[g]];
        json_array_append_new(gpus, json_pack("{s:s, s:i}", "type", k->name, "units", k->units));
    }
    for (int l = 0; l < plan->n_lets; l++)
        json_array_append_new(lets, let_json(v, &plan->lets[l]));
    for (int t = 0; t < plan->n_tenants; t++)
        json_array_append_new(tenants, tenant_json(v, plan, t, nearest[t]));
    json_t *floor = isfinite(bound.duty) ? json_real(bound.duty) : json_null();
    return json_pack("{s:s, s:s, s:s, s:s, s:f, s:b, s:b, s:b, s:b, s:I, s:o, s:o, s:o, s:o}", "kind", "plan",
                     "planner", planner, "scenario", v->scenario.name, "machine", v->machine.name, "load",
                     load, "complete", (int)plan->complete, "kept", (int)plan->kept, "cut_short",
                     (int)plan->cut_short, "side_by_side", (int)plan->side_by_side, "steps",
                     (json_int_t)plan->steps, "bound_gpus", floor, "gpus", gpus, "lets", lets, "tenants",
                     tenants);
}

/* --- text ----------------------------------------------------------------------------------------------- */
static const json_t *gpu_of(const json_t *document, const json_t *let) {
    return json_array_get(json_object_get(document, "gpus"), (size_t)mo_json_number(let, "gpu"));
}

/* Is everything placed, and how many GPUs it takes at least. */
static void answer(const json_t *document, char text[MO_HEADLINE]) {
    struct mo_text t = mo_text_in(text, MO_HEADLINE);
    mo_text_put(&t, "%s on %s, load %g, %s: %s; ", mo_json_text(document, "scenario"),
                mo_json_text(document, "machine"), mo_json_number(document, "load"),
                mo_json_text(document, "planner"),
                json_is_true(json_object_get(document, "complete")) ? "everything is placed"
                                                                    : "not everything is placed");
    if (json_is_null(json_object_get(document, "bound_gpus")))
        mo_text_put(&t, "no number of GPUs would do by the bound");
    else
        mo_text_put(&t, "%.2f of %zu GPUs at least by the bound", mo_json_number(document, "bound_gpus"),
                    json_array_size(json_object_get(document, "gpus")));
}

static void print_head(FILE *out, const json_t *document) {
    char text[MO_HEADLINE];
    answer(document, text);
    fprintf(out, "%s\n\n", text);
    fprintf(out, "%4s %-8s %6s %9s  %-24s %6s %10s %9s %9s %9s\n", "GPU", "type", "share", "duty ms",
            "tenant", "batch", "queries/s", "batch ms", "worst ms", "target");
}

void mo_bench_plan_print(FILE *out, const json_t *document) {
    const json_t *lets = json_object_get(document, "lets"), *tenants = json_object_get(document, "tenants");
    size_t i, k;
    json_t *let, *t;
    print_head(out, document);
    json_array_foreach((json_t *)lets, i, let) {
        json_array_foreach(json_object_get(let, "tenants"), k, t) {
            const json_t *gpu = gpu_of(document, let);
            if (k == 0 && json_is_true(json_object_get(document, "side_by_side")))
                fprintf(out, "%4.0f %-8.8s    all %9.3f", mo_json_number(let, "gpu"),
                        mo_json_text(gpu, "type"), mo_json_number(let, "duty_ms"));
            else if (k == 0)
                fprintf(out, "%4.0f %-8.8s %5.0f%% %9.3f", mo_json_number(let, "gpu"),
                        mo_json_text(gpu, "type"),
                        100 * mo_json_number(let, "units") / mo_json_number(gpu, "units"),
                        mo_json_number(let, "duty_ms"));
            else
                fprintf(out, "%30s", "");
            fprintf(out, "  %-24.24s %6.0f %10.1f %9.3f %9.3f %9.3f\n", mo_json_text(t, "tenant"),
                    mo_json_number(t, "batch"), mo_json_number(t, "rate"), mo_json_number(t, "batch_ms"),
                    mo_json_number(t, "worst_ms"), mo_json_number(t, "target_ms"));
        }
    }
    json_array_foreach((json_t *)tenants, i, t) if (json_object_get(t, "why"))
        fprintf(out, "\n%s; beside the others as they are placed it could have %.1f\n",
                mo_json_text(t, "why"), mo_json_number(t, "nearest_rate"));
}

/* --- drawing -------------------------------------------------------------------------------------------- */
enum { WIDTH = 900, HEAD = 30, ROW = 96, LEFT = 90, GAP = 14, LINE = 15 };

static int tenant_index(const json_t *document, const char *name) {
    size_t i;
    json_t *t;
    json_array_foreach(json_object_get(document, "tenants"), i,
                       t) if (!strcmp(mo_json_text(t, "name"), name)) return (int)i;
    return 0;
}

/* One duty cycle along the foot of the let: who runs when. */
static void draw_cycle(FILE *out, const json_t *document, const json_t *let, double x, double y, double w) {
    double duty = mo_json_number(let, "duty_ms"), at = 0;
    size_t k;
    json_t *t;
    json_array_foreach(json_object_get(let, "tenants"), k, t) {
        double ms = mo_json_number(t, "batch_ms");
        fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"12\" fill=\"%s\"><title>",
                x + w * at / duty, y, fmax(w * ms / duty, 1),
                mo_plot_colour(tenant_index(document, mo_json_text(t, "tenant"))));
        mo_html_text(out, mo_json_text(t, "tenant"));
        fprintf(out, ": %.3f of %.3f ms</title></rect>\n", ms, duty);
        at += ms;
    }
}

static void draw_let(FILE *out, const json_t *document, const json_t *let) {
    double units = mo_json_number(gpu_of(document, let), "units"), all = WIDTH - LEFT - GAP;
    double x = LEFT + all * mo_json_number(let, "first") / units,
           w = all * mo_json_number(let, "units") / units;
    double y = HEAD + GAP + ROW * mo_json_number(let, "gpu");
    /* rates have a line of their own where there is room for it */
    const bool roomy = json_array_size(json_object_get(let, "tenants")) < 3;
    size_t k;
    json_t *t;
    fprintf(out,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"none\" stroke=\"#888\"/>\n"
            "<svg x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\">\n",
            x, y, w - 2, ROW - GAP, x, y, w - 2, ROW - GAP);
    json_array_foreach(json_object_get(let, "tenants"), k, t) {
        fprintf(out, "<text x=\"6\" y=\"%d\">", LINE * (roomy ? 2 * (int)k + 1 : (int)k + 1));
        mo_html_text(out, mo_json_text(t, "tenant"));
        if (roomy) fprintf(out, "</text><text x=\"6\" y=\"%d\">", LINE * (2 * (int)k + 2));
        fprintf(out, " %.0f/s, batch %.0f</text>\n", mo_json_number(t, "rate"), mo_json_number(t, "batch"));
    }
    fprintf(out, "</svg>\n");
    draw_cycle(out, document, let, x + 2, y + ROW - GAP - 16, w - 6);
}

static void draw(FILE *out, const void *what) {
    const json_t *document = what, *gpus = json_object_get(document, "gpus");
    char text[MO_HEADLINE];
    size_t i;
    json_t *one;
    answer(document, text);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
            "font-size=\"12\" fill=\"#444\">\n",
            WIDTH, HEAD + GAP + ROW * (int)json_array_size(gpus));
    fprintf(out, "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"6\" y=\"22\" "
                 "font-weight=\"600\">");
    mo_html_text(out, text);
    fprintf(out, "</text>\n");
    json_array_foreach((json_t *)gpus, i, one) {
        fprintf(out, "<text x=\"6\" y=\"%d\">GPU %zu</text><text x=\"6\" y=\"%d\">",
                HEAD + GAP + ROW * (int)i + 20, i, HEAD + GAP + ROW * (int)i + 36);
        mo_html_text(out, mo_json_text(one, "type"));
        fprintf(out, "</text>\n");
    }
    json_array_foreach(json_object_get(document, "lets"), i, one) draw_let(out, document, one);
    fprintf(out, "</svg>\n");
}

int mo_bench_plan_svg(const struct mo_env *env, const json_t *document, const char *path, moire_error *err) {
    return mo_page_write(env, draw, document, path, err);
}
