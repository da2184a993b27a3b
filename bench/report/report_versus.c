/* SPDX-License-Identifier: Apache-2.0
 * report_versus.c - what a policy gained or lost against another in turns, and what choosing versions did
 * beside a neighbour, on the page and in the text.
 *
 * From the document's "versus" (bench/choice/versus.h) and "neighbour" (bench/choice/beside.h). */
#include <stdbool.h>
#include <string.h>
#include "bench/report/choices_plot.h"
#include "bench/report/plot.h"
#include "bench/report/report_page.h"

/* --- measures ----------------------------------------------------------------------------------------- */
/* share: a difference of shares, of which more is better; else a quotient, of which less is. */
static const struct {
    const char *key, *text;
    bool share;
} measures[] = {{"within_points", "queries in time", true},
                {"latency_ratio", "mean latency", false},
                {"core_time_ratio", "core time of a query in kernels", false}};
enum { MEASURES = sizeof measures / sizeof *measures };

/* 1 a gain, -1 a loss, 0 noise: the interval holds what no difference is. */
static int reading(const json_t *versus, int i) {
    const json_t *v = json_object_get(versus, measures[i].key), *low = json_object_get(v, "low"),
                 *high = json_object_get(v, "high");
    double same = measures[i].share ? 0 : 1;
    int more = measures[i].share ? 1 : -1;
    if (!json_is_number(low) || !json_is_number(high)) return 0;
    return json_number_value(low) > same ? more : json_number_value(high) < same ? -more : 0;
}

/* --- two policies ------------------------------------------------------------------------------------- */
/* subject: whose gain it is. */
static void conclusion(FILE *out, const json_t *versus, const char *subject) {
    bool gain = false, loss = false;
    for (int i = 0; i < MEASURES; i++) {
        gain |= reading(versus, i) > 0;
        loss |= reading(versus, i) < 0;
    }
    fprintf(out, "<p><b>In this run ");
    mo_html_text(out, subject);
    fprintf(out, " %s</b></p>\n",
            gain && loss ? "gained by one measure and lost by another."
            : gain       ? "gained."
            : loss       ? "lost."
                         : "made no difference that can be told from noise.");
}

static void versus_row(FILE *out, const json_t *versus, int i) {
    static const char *const words[] = {"loss", "noise: the interval holds \"no difference\"", "gain"};
    const json_t *v = json_object_get(versus, measures[i].key);
    double part[3] = {mo_json_number(v, "mean"), mo_json_number(v, "low"), mo_json_number(v, "high")};
    for (int k = 0; k < 3 && !measures[i].share; k++)
        part[k] = 100 * (part[k] - 1);
    fprintf(out, "<tr><td>%s</td><td>%+.2f %s</td><td>%+.2f to %+.2f</td><td>%s</td></tr>\n",
            measures[i].text, part[0], measures[i].share ? "points" : "%", part[1], part[2],
            words[1 + reading(versus, i)]);
}

void mo_page_versus(FILE *out, const struct mo_page_view *view) {
    const json_t *v = json_object_get(view->document, "versus");
    const char *policy = mo_json_text(v, "policy"), *against = mo_json_text(v, "against");
    bool one = !json_is_object(v) || !strcmp(against, "moire-no-versions");
    fprintf(out, "<h3 style=\"margin-top:18px\">%s</h3>\n",
            one ? "Gained or lost against one version" : "Against another policy");
    if (!json_is_object(v)) {
        fprintf(out, "<p>Not measured in this run: add <code>--against moire-no-versions</code>.</p>\n");
        return;
    }
    conclusion(out, v, one ? "choosing among versions" : policy);
    fprintf(out, "<p>");
    mo_html_text(out, policy);
    fprintf(out, " and ");
    mo_html_text(out, against);
    fprintf(out,
            "%s served the same arrivals in turns at load %.2f: %.0f pairs of turns of %.1f s, %.0f queries. "
            "The intervals hold the mean over pairs with 95 %% confidence.</p>\n<div class=\"card\"><table>"
            "<tr><th>first against second</th><th>difference</th><th>interval</th><th>reading</th></tr>\n",
            one ? " (every layer in its fastest version)" : "", mo_json_number(v, "load"),
            mo_json_number(v, "pairs"), mo_json_number(v, "seconds"), mo_json_number(v, "queries"));
    for (int i = 0; i < MEASURES; i++)
        versus_row(out, v, i);
    fprintf(out, "</table></div>\n");
}

/* --- beside a neighbour ------------------------------------------------------------------------------- */
/* What the neighbour does at a level, as measured; NULL = it was not. */
static const json_t *level_of(const json_t *neighbour, double level) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(neighbour, "levels"), i, row) {
        if (mo_json_number(row, "level") == level) return row;
    }
    return NULL;
}

static const char *condition_name(const json_t *condition, char name[32]) {
    const int level = (int)mo_json_number(condition, "level");
    if (json_is_true(json_object_get(condition, "changing")))
        snprintf(name, 32, "changing");
    else if (level)
        snprintf(name, 32, "level %d", level);
    else
        snprintf(name, 32, "none");
    return name;
}

/* Part of the layers with a choice that ran a version other than the fastest alone; -1 = none had one. */
static double others(const json_t *choices) {
    const json_t *layers = json_object_get(choices, "layers");
    double all = 0;
    for (size_t v = 0; v < json_array_size(layers); v++)
        all += json_number_value(json_array_get(layers, v));
    return all > 0 ? 1 - json_number_value(json_array_get(layers, 0)) / all : -1;
}

/* How often a layer ran in another version than the time before; -1 = none ran twice. */
static double changed(const json_t *choices) {
    const double again = mo_json_number(choices, "again");
    return again > 0 ? mo_json_number(choices, "changed") / again : -1;
}

/* The parts of a row that are numbers of one condition. */
enum { EFFECTS = 5 };
static void effects(const json_t *neighbour, const json_t *condition, double value[EFFECTS]) {
    const json_t *choices = json_object_get(condition, "choices"),
                 *pressure = json_object_get(choices, "pressure");
    const double level = mo_json_number(condition, "level");
    const json_t *row = json_is_true(json_object_get(condition, "changing")) || !(level > 0)
                            ? NULL
                            : level_of(neighbour, level);
    const double other = others(choices), change = changed(choices);
    value[0] = row ? mo_json_number(row, "gbs") : -1;
    value[1] = row ? mo_json_number(row, "victim_slowdown") : -1;
    value[2] = json_is_number(pressure) ? json_number_value(pressure) : -1;
    value[3] = other < 0 ? -1 : 100 * other;
    value[4] = change < 0 ? -1 : 100 * change;
}

/* "+1.2 (-0.3 to +2.7) gain": in points or per cent. */
static const char *measure_text(const json_t *condition, int i, char text[64]) {
    static const char *const words[] = {" loss", "", " gain"};
    const json_t *v = json_object_get(condition, measures[i].key);
    double part[3] = {mo_json_number(v, "mean"), mo_json_number(v, "low"), mo_json_number(v, "high")};
    for (int k = 0; k < 3 && !measures[i].share; k++)
        part[k] = 100 * (part[k] - 1);
    snprintf(text, 64, "%+.1f (%+.1f to %+.1f)%s", part[0], part[1], part[2],
             words[1 + reading(condition, i)]);
    return text;
}

/* All conditions together, as the drawing of versions by pressure wants them; a new reference. */
static json_t *sum_bins(const json_t *conditions) {
    json_t *bins =
        json_deep_copy(json_object_get(json_object_get(json_array_get(conditions, 0), "choices"), "bins"));
    for (size_t c = 1; c < json_array_size(conditions); c++) {
        const json_t *more =
            json_object_get(json_object_get(json_array_get(conditions, c), "choices"), "bins");
        for (size_t k = 0; k < json_array_size(bins); k++) {
            json_t *bin = json_array_get(bins, k), *layers = json_object_get(bin, "layers");
            const json_t *other = json_array_get(more, k);
            for (size_t v = 0; v < json_array_size(layers); v++)
                json_array_set_new(
                    layers, v,
                    json_real(json_number_value(json_array_get(layers, v)) +
                              json_number_value(json_array_get(json_object_get(other, "layers"), v))));
            json_object_set_new(bin, "blocks",
                                json_real(mo_json_number(bin, "blocks") + mo_json_number(other, "blocks")));
        }
    }
    return json_pack("{s:o}", "bins", bins ? bins : json_array());
}

static void page_policy(FILE *out, const json_t *neighbour, const json_t *compared) {
    const json_t *conditions = json_object_get(compared, "conditions"),
                 *first = json_array_get(conditions, 0);
    size_t i;
    json_t *c;
    char text[64];
    fprintf(out, "<h3 style=\"margin-top:18px\">");
    mo_html_text(out, mo_json_text(compared, "policy"));
    fprintf(out, " beside a neighbour, with the choice of versions and without</h3>\n<p>");
    mo_html_text(out, mo_json_text(compared, "policy"));
    fprintf(out, " and ");
    mo_html_text(out, mo_json_text(compared, "against"));
    fprintf(
        out,
        " (every layer in the version that is fastest alone) served the same arrivals in turns at load "
        "%.2f: under each condition %.0f pairs of turns of %.1f s. The neighbour: %.0f thread%s of <code>"
        "moire stress</code>%s. Intervals hold the mean over pairs with 95 %% confidence; where nothing "
        "is said, they hold no difference.</p>\n<div class=\"card\"><table><tr><th>neighbour</th>"
        "<th>GB/s</th><th>slows a victim</th><th>mean pressure</th><th>in another version, %%</th>"
        "<th>changed, %%</th>",
        mo_json_number(compared, "load"), mo_json_number(first, "pairs"), mo_json_number(compared, "seconds"),
        mo_json_number(neighbour, "threads"), mo_json_number(neighbour, "threads") == 1 ? "" : "s",
        json_is_true(json_object_get(neighbour, "same_core")) ? ", on the same cores" : " on other cores");
    for (int k = 0; k < MEASURES; k++)
        fprintf(out, "<th>%s, %s</th>", measures[k].text, measures[k].share ? "points" : "%");
    fprintf(out, "</tr>\n");
    json_array_foreach((json_t *)conditions, i, c) {
        double value[EFFECTS];
        effects(neighbour, c, value);
        fprintf(out, "<tr><td>%s</td>", condition_name(c, text));
        for (int k = 0; k < EFFECTS; k++)
            mo_page_number(out, value[k], k < 3 ? 2 : 1);
        for (int k = 0; k < MEASURES; k++)
            fprintf(out, "<td>%s</td>", measure_text(c, k, text));
        fprintf(out, "</tr>\n");
    }
    json_t *sum = sum_bins(conditions);
    fprintf(out, "</table></div>\n<div class=\"card\">");
    mo_plot_bins(out, sum);
    fprintf(out, "</div>\n");
    json_decref(sum);
}

void mo_page_neighbour(FILE *out, const struct mo_page_view *view) {
    const json_t *neighbour = json_object_get(view->document, "neighbour");
    size_t i;
    json_t *compared;
    if (!json_is_object(neighbour)) return;
    fprintf(out, "<h2>Beside a neighbour</h2>\n");
    json_array_foreach(json_object_get(neighbour, "compared"), i, compared)
        page_policy(out, neighbour, compared);
}

/* --- as text ------------------------------------------------------------------------------------------ */
static void text_number(FILE *out, double value, int digits) {
    if (value < 0)
        fprintf(out, " %9s", "-");
    else
        fprintf(out, " %9.*f", digits, value);
}

static void text_bins(FILE *out, const json_t *conditions) {
    json_t *sum = sum_bins(conditions), *bin;
    size_t i;
    fprintf(out, "  %-14s %9s  %s\n", "pressure", "layers", "% of them in version 1 (fastest alone), 2, ...");
    json_array_foreach(json_object_get(sum, "bins"), i, bin) {
        const json_t *layers = json_object_get(bin, "layers");
        double all = 0;
        for (size_t v = 0; v < json_array_size(layers); v++)
            all += json_number_value(json_array_get(layers, v));
        if (!(all > 0)) continue;
        fprintf(out, "  %.1f to %.1f     %9.0f ", mo_json_number(bin, "from"), mo_json_number(bin, "to"),
                all);
        for (size_t v = 0; v < json_array_size(layers); v++)
            fprintf(out, " %5.1f", 100 * json_number_value(json_array_get(layers, v)) / all);
        fprintf(out, "\n");
    }
    json_decref(sum);
}

static void text_policy(FILE *out, const json_t *neighbour, const json_t *compared) {
    const json_t *conditions = json_object_get(compared, "conditions");
    double most = -1, value[EFFECTS];
    size_t i;
    json_t *c;
    char text[64];
    fprintf(out,
            "\n%s against %s beside a neighbour (%.0f thread%s%s), %.0f pairs of turns of %.1f s at load "
            "%.2f\n",
            mo_json_text(compared, "policy"), mo_json_text(compared, "against"),
            mo_json_number(neighbour, "threads"), mo_json_number(neighbour, "threads") == 1 ? "" : "s",
            json_is_true(json_object_get(neighbour, "same_core")) ? " on the same cores" : "",
            mo_json_number(json_array_get(conditions, 0), "pairs"), mo_json_number(compared, "seconds"),
            mo_json_number(compared, "load"));
    fprintf(out, "  %-10s %9s %9s %9s %9s %9s  %-30s %-30s %s\n", "neighbour", "GB/s", "slows", "pressure",
            "other, %", "changed,%", "in time, points", "mean latency, %", "core time of a query, %");
    json_array_foreach((json_t *)conditions, i, c) {
        effects(neighbour, c, value);
        if (value[3] > most) most = value[3];
        fprintf(out, "  %-10s", condition_name(c, text));
        for (int k = 0; k < EFFECTS; k++)
            text_number(out, value[k], k < 3 ? 2 : 1);
        for (int k = 0; k < MEASURES; k++)
            fprintf(out, "  %-*s", k + 1 < MEASURES ? 30 : 1, measure_text(c, k, text));
        fprintf(out, "\n");
    }
    if (most < 0)
        fprintf(out, "  no layer has versions to choose among: `moire tune` the models first\n");
    else
        text_bins(out, conditions);
}

void mo_text_neighbour(FILE *out, const json_t *document) {
    const json_t *neighbour = json_object_get(document, "neighbour");
    size_t i;
    json_t *compared;
    json_array_foreach(json_object_get(neighbour, "compared"), i, compared)
        text_policy(out, neighbour, compared);
}
