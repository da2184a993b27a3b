/* SPDX-License-Identifier: Apache-2.0
 * report_choices.c - the section "How moire chose": the fronts of tuned models, the blocks that were formed
 * and why, the pressure and the versions that ran under it, and what that gained or lost against one version.
 *
 * From a result's "choices" (bench/choice/choices.h), and from the document's "fronts"; what the choice was
 * worth is in report_versus.c. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "bench/report/choices_plot.h"
#include "bench/report/plot.h"
#include "bench/report/report_page.h"

enum { LAYERS_SHOWN = 2, TENANTS_SHOWN = 2, VERSIONS_SHOWN = 5 };

/* The result that describes its decisions: that of `moire` where there is one. */
static const json_t *telling(const json_t *document) {
    size_t i;
    json_t *result;
    const json_t *first = NULL;
    json_array_foreach(json_object_get(document, "results"), i, result) {
        const json_t *choices = json_object_get(result, "choices");
        if (!choices) continue;
        if (!strcmp(mo_json_text(result, "policy"), "moire")) return choices;
        if (!first) first = choices;
    }
    return first;
}

/* How many elements of a list are as asked. */
static int count(const json_t *list, bool (*is)(const json_t *element)) {
    size_t i;
    json_t *element;
    int n = 0;
    json_array_foreach((json_t *)list, i, element) n += is(element);
    return n;
}

static bool has_choices(const json_t *tenant) {
    return mo_json_number(tenant, "choices") > 0;
}
static int any_choice(const json_t *choices) {
    return count(json_object_get(choices, "tenants"), has_choices);
}

/* --- fronts ------------------------------------------------------------------------------------------- */
static bool is_version(const json_t *point) {
    return json_is_integer(json_object_get(point, "version"));
}
static int kept(const json_t *layer) {
    return count(json_object_get(layer, "points"), is_version);
}

/* Layers with most versions first; of these, by their time in the first version, as often as the model has
 * it.
 */
static double layer_rank(const json_t *layer) {
    const json_t *first = json_array_get(json_object_get(layer, "points"), 0);
    double us = json_number_value(json_array_get(json_object_get(first, "us"), 0));
    return kept(layer) * 1e9 + us * mo_json_number(layer, "uses");
}

static bool has_several(const json_t *layer) {
    return kept(layer) > 1;
}
/* Models with most layers that have a choice; of tenants only those that ran. */
static double front_rank(const json_t *front) {
    return count(json_object_get(front, "layers"), has_several);
}

static double tenant_rank(const json_t *tenant) {
    return mo_json_number(tenant, "blocks") > 0 ? mo_json_number(tenant, "choices") : -1;
}

/* The element that comes behind `before` in falling order of rank, the earlier first; NULL: the first of all,
 * or there is none. */
static const json_t *next_by(double (*rank)(const json_t *), const json_t *list, const json_t *before) {
    const json_t *best = NULL;
    double most = 0, limit = before ? rank(before) : 0;
    bool behind = false; /* `before` stands further up in the list */
    size_t i;
    json_t *element;
    json_array_foreach((json_t *)list, i, element) {
        double r = rank(element);
        bool comes = !before || r < limit || (behind && r == limit);
        behind |= element == before;
        if (element == before || !comes || (best && r <= most)) continue;
        best = element;
        most = r;
    }
    return best;
}

/* The number behind a key of a signature; 0 = it has none. */
static long part(const char *signature, const char *key) {
    const char *at = strstr(signature, key);
    return at ? strtol(at + strlen(key), NULL, 10) : 0;
}

/* "1x1, 256 to 1024, 14x14" of a convolution: filter, channels, map; else the signature's beginning. */
static void short_name(const char *signature, char *out, size_t n) {
    const char *filter = strstr(signature, ":k");
    if (!strncmp(signature, "conv:", 5) && filter)
        snprintf(out, n, "%.*s, %ld to %ld, %ldx%ld", (int)strcspn(filter + 2, ":"), filter + 2,
                 part(signature, ":c"), part(signature, ":o"), part(signature, ":h"), part(signature, ":w"));
    else
        snprintf(out, n, "%.32s", signature);
}

static void front_summary(FILE *out, const json_t *front, const char *name) {
    const json_t *layers = json_object_get(front, "layers");
    size_t n = json_array_size(layers), i;
    int with[VERSIONS_SHOWN + 1] = {0};
    json_t *layer;
    json_array_foreach((json_t *)layers, i, layer) {
        int versions = kept(layer);
        with[versions < VERSIONS_SHOWN ? versions : VERSIONS_SHOWN]++;
    }
    fprintf(out, "<p><b>");
    mo_html_text(out, name);
    fprintf(out, "</b>: %zu kind%s of layers tuned", n, n == 1 ? "" : "s");
    for (int k = 1; k <= VERSIONS_SHOWN; k++)
        if (with[k]) fprintf(out, ", %d with %d version%s", with[k], k, k == 1 ? "" : "s");
    fprintf(out, ". Below, those with most to choose among.</p>\n");
}

static void front_plots(FILE *out, const json_t *front) {
    const json_t *layer = NULL, *layers = json_object_get(front, "layers");
    char name[64];
    fprintf(out, "<div class=\"row\" style=\"grid-template-columns:"
                 "repeat(auto-fill,minmax(min(100%%,480px),1fr))\">\n");
    for (int k = 0; k < LAYERS_SHOWN && (layer = next_by(layer_rank, layers, layer)) && kept(layer); k++) {
        short_name(mo_json_text(layer, "layer"), name, sizeof name);
        fprintf(out, "<div class=\"row\" style=\"grid-template-columns:1fr 1fr\"><div class=\"card\">");
        mo_plot_front(out, layer, name);
        fprintf(out, "</div><div class=\"card\">");
        mo_plot_front_times(out, layer, name);
        fprintf(out, "</div></div>\n");
    }
    fprintf(out, "</div>\n");
}

static void fronts(FILE *out, const struct mo_page_view *view) {
    const json_t *list = json_object_get(view->document, "fronts"), *front = NULL;
    size_t n = json_array_size(list);
    for (int k = 0; k < TENANTS_SHOWN && (front = next_by(front_rank, list, front)); k++) {
        front_summary(out, front, mo_json_text(front, "tenant"));
        front_plots(out, front);
    }
    if (n > TENANTS_SHOWN)
        fprintf(
            out,
            "<p>%zu more of the models have tuned layers: their own, or such as they share with these.</p>\n",
            n - TENANTS_SHOWN);
}

/* --- blocks ------------------------------------------------------------------------------------------- */
static const struct {
    const char *key, *text;
} reasons[] = {
    {"bound", "one layer more would have exceeded the bound on a block's time"},
    {"model", "the model ended"},
    {"meet", "ended early, together with a block on other cores, so that these come free at once"},
    {"pivot", "the next layer is a pivot: it needs clearly more cores than the model's average"},
    {"conflict", "fewer cores were free than it needs: its first layer alone"},
    {"size", "a fixed number of layers"},
    {"untold", "whole models, or for a reason that the policy does not tell"},
};

static void cuts(FILE *out, const json_t *tenant, const char *name) {
    const json_t *by = json_object_get(tenant, "cuts");
    double all = mo_json_number(tenant, "blocks");
    fprintf(out, "<table><tr><th>why blocks of ");
    mo_html_text(out, name);
    fprintf(out, " ended</th><th>blocks</th><th>share</th></tr>\n");
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        double n = mo_json_number(by, reasons[i].key);
        if (n > 0)
            fprintf(out, "<tr><td>%s</td><td>%.0f</td><td>%.0f %%</td></tr>\n", reasons[i].text, n,
                    100 * n / all);
    }
    fprintf(out, "</table>\n");
}

static double sum(const json_t *list, double above, int *n) {
    double total = 0;
    size_t i;
    json_t *v;
    *n = 0;
    json_array_foreach((json_t *)list, i, v) {
        total += json_number_value(v);
        *n += json_number_value(v) > above;
    }
    return total;
}

static double target_ms(const json_t *document, const char *name) {
    size_t i;
    json_t *t;
    json_array_foreach(json_object_get(json_object_get(document, "calibration"), "tenants"), i,
                       t) if (!strcmp(mo_json_text(t, "name"), name)) return mo_json_number(t, "qos_ms");
    return 0;
}

/* The layers that fill a block by themselves, and pivots: where one core is enough for the whole model, every
 * layer needs one, and none needs more than the average. */
static void threshold(FILE *out, const json_t *document, const json_t *tenant, double bound_ms) {
    int alone, queries = (int)json_number_value(json_array_get(json_object_get(tenant, "begins"), 0));
    double ms = sum(json_object_get(tenant, "one_core_us"), bound_ms * 1e3, &alone) * 1e-3,
           target = target_ms(document, mo_json_text(tenant, "name"));
    if (queries > 0)
        fprintf(out, "<p>%d quer%s began; %.1f blocks a query. ", queries, queries == 1 ? "y" : "ies",
                mo_json_number(tenant, "blocks") / queries);
    fprintf(out, "%d of its %.0f layers take longer than the bound and fill a block alone. ", alone,
            mo_json_number(tenant, "layers"));
    if (target > 0 && ms <= 0.9 * target)
        fprintf(
            out,
            "On one core it takes %.1f ms of the %.1f ms that it has: one core is enough for every layer, so "
            "none is a pivot (a layer that needs more cores than its model's average).",
            ms, target);
    else if (target > 0)
        fprintf(out, "One core (%.1f ms) is not enough for its target of %.1f ms: it needs more of them.", ms,
                target);
    fprintf(out, "</p>\n");
}

static void blocks(FILE *out, const struct mo_page_view *view, const json_t *choices) {
    double bound = mo_json_number(choices, "bound_ms");
    fprintf(out,
            "<h3 style=\"margin-top:18px\">Blocks, and why they end</h3><p>A query runs in blocks of "
            "consecutive layers; between two the "
            "cores are allotted anew. The bound on a block's time is %.2f ms (the threshold): a tenth of the "
            "tightest target, at most 1 ms. Bars: layers; dashed: the bound; below: how often a block began "
            "there.</p>\n",
            bound);
    const json_t *tenants = json_object_get(choices, "tenants"), *tenant = NULL;
    for (int k = 0; k < TENANTS_SHOWN && (tenant = next_by(tenant_rank, tenants, tenant)); k++) {
        if (tenant_rank(tenant) < 0) break;
        const char *name = mo_json_text(tenant, "name");
        fprintf(out, "<div class=\"card wide\" style=\"margin-bottom:14px\">");
        mo_plot_blocks(out, tenant, name, bound);
        threshold(out, view->document, tenant, bound);
        cuts(out, tenant, name);
        fprintf(out, "</div>\n");
    }
}

/* --- pressure ----------------------------------------------------------------------------------------- */
static void versions_legend(FILE *out, const json_t *choices) {
    double ran[VERSIONS_SHOWN] = {0};
    size_t i;
    json_t *bin;
    json_array_foreach(json_object_get(choices, "bins"), i, bin) for (size_t v = 0; v < VERSIONS_SHOWN; v++)
        ran[v] += json_number_value(json_array_get(json_object_get(bin, "layers"), v));
    fprintf(out, "<p class=\"legend\">");
    for (int v = 0; v < VERSIONS_SHOWN; v++)
        if (v == 0 || ran[v] > 0)
            fprintf(out, "<span><i class=\"k\" style=\"background:%s\"></i>version %d%s: %.0f layers</span>",
                    mo_plot_version_colour(v), v + 1, v ? "" : " (fastest alone)", ran[v]);
    fprintf(out, "</p>\n");
}

/* How often a layer ran in another version than the time before. */
static void changes(FILE *out, const json_t *choices) {
    double again = 0, changed = 0;
    size_t i;
    json_t *tenant;
    json_array_foreach(json_object_get(choices, "tenants"), i, tenant) {
        again += mo_json_number(tenant, "again");
        changed += mo_json_number(tenant, "changed");
    }
    if (again > 0)
        fprintf(
            out,
            "<p>Of %.0f layers with a choice that had run before, %.1f %% ran in another version then.</p>\n",
            again, 100 * changed / again);
}

static void pressure(FILE *out, const json_t *choices) {
    fprintf(out, "<h3 style=\"margin-top:18px\">Pressure, and the versions that ran under it</h3>");
    fprintf(out, "<div class=\"row\"><div class=\"card\">");
    mo_plot_pressure(out, choices);
    fprintf(
        out,
        "<p>Blue: every layer in its first version; orange: some in another.</p></div><div class=\"card\">");
    mo_plot_bins(out, choices);
    fprintf(out, "</div></div>\n");
    changes(out, choices);
}

void mo_page_choices(FILE *out, const struct mo_page_view *view) {
    const json_t *document = view->document, *choices = telling(document);
    if (!choices) return;
    fprintf(out, "<h2>How moire chose</h2>\n");
    if (any_choice(choices)) {
        fprintf(
            out,
            "<p>Of a layer, <code>moire tune</code> keeps several versions: some cut it into more "
            "independent parts (parallelism), some reuse more in the cache (locality). When a block begins, "
            "each of its layers gets the version that is fastest on the block's cores, under the pressure "
            "that its neighbours are expected to put on cache and memory: 0 is none, 1 the strongest that "
            "was measured. Grey points were sampled and not kept.</p>\n");
        versions_legend(out, choices);
        fronts(out, view);
        pressure(out, choices);
    } else {
        fprintf(out,
                "<p>Every layer has one version: no model is tuned (<code>moire tune MODEL</code>), so there "
                "was nothing to choose under pressure.</p>\n");
    }
    blocks(out, view, choices);
    if (any_choice(choices) || json_is_object(json_object_get(document, "versus"))) mo_page_versus(out, view);
}
