/* SPDX-License-Identifier: Apache-2.0
 * report_answers.c - what the page says first: the headline, and a row a system. */
#include <math.h>
#include <string.h>
#include "bench/report/headline.h"
#include "bench/report/plot.h"

void mo_page_headline(FILE *out, const struct mo_page_view *view) {
    char lines[MO_HEADLINES][MO_HEADLINE];
    const json_t *document = view->document;
    int n = mo_headline(document, view->curves, view->n_curves, lines);
    mo_page_begin(out, mo_json_text(document, "scenario"), mo_json_text(document, "about"));
    mo_page_trust(out, document);
    for (int i = 0; i < n; i++)
        mo_page_answer(out, lines[i], i == 0);
    fprintf(out,
            "<p>Load 1 is: %s. Arrivals do not wait for answers and are the same for every system; latency "
            "counts from the scheduled arrival; queries that are shed or not answered count as late.</p>\n",
            mo_doc_load_one(document));
}

/* --- a row a system ----------------------------------------------------------------------------------- */
static void found_cell(FILE *out, double load, const double range[2]) {
    if (load < 0)
        fprintf(out, "<td>&ndash;</td>");
    else if (load == 0)
        fprintf(out, "<td>none of those tried</td>");
    else if (range[1] > range[0] + 1e-9)
        fprintf(out, "<td>%.2f <span class=\"soft\">%.2f to %.2f</span></td>", load, range[0], range[1]);
    else
        fprintf(out, "<td>%.2f</td>", load);
}

static void share_cell(FILE *out, const struct mo_curve *c, double load, bool worst) {
    int i = mo_curve_at(c, load);
    if (i < 0) {
        fprintf(out, "<td>&ndash;</td>");
        return;
    }
    const double *range = worst ? &c->worst_range[2 * i] : &c->overall_range[2 * i];
    fprintf(out, "<td>%.1f %% <span class=\"soft\">", 100 * (worst ? c->worst[i] : c->overall[i]));
    mo_page_interval(out, range);
    fprintf(out, "</span></td>");
}

static void left_out(FILE *out, const json_t *document) {
    size_t i;
    json_t *r;
    json_array_foreach(json_object_get(document, "left_out"), i, r) {
        fprintf(out, "<p>Left out: ");
        mo_html_text(out, mo_json_text(r, "system"));
        fprintf(out, ": ");
        mo_html_text(out, mo_json_text(r, "why"));
        fprintf(out, "</p>\n");
    }
}

static void remarks(FILE *out, const json_t *document,
                    int (*tell)(const json_t *, char (*)[MO_HEADLINE], int)) {
    char lines[MO_HEADLINES][MO_HEADLINE];
    int n = tell(document, lines, MO_HEADLINES);
    for (int i = 0; i < n; i++) {
        fprintf(out, "<p>");
        mo_html_text(out, lines[i]);
        fprintf(out, "</p>\n");
    }
}

/* With one tenant, its share is that of all. */
static void answers_head(FILE *out, double goal, const double *loads, int n, bool one) {
    fprintf(out, "<h2>Systems</h2><div class=\"card\"><table>\n<tr><th>system</th><th class=\"l about\">what "
                 "it is</th>");
    if (goal > 0 && !one) fprintf(out, "<th>every tenant at %.4g %%,<br>up to load</th>", 100 * goal);
    if (goal > 0) fprintf(out, "<th>all queries at %.4g %%,<br>up to load</th>", 100 * goal);
    for (int k = 0; k < n; k++) {
        fprintf(out, "<th>in time<br>at load %.2f</th>", loads[k]);
        if (!one) fprintf(out, "<th>worst tenant<br>at load %.2f</th>", loads[k]);
    }
    fprintf(out, "</tr>\n");
}

static void answers_row(FILE *out, const struct mo_curve *c, double goal, const double *loads, int n,
                        bool one) {
    fprintf(out, "<tr>");
    mo_page_system_cell(out, c->name);
    fprintf(out, "<td class=\"l soft about\">");
    mo_html_text(out, c->about);
    fprintf(out, "</td>");
    if (goal > 0 && !one) found_cell(out, c->max_every, c->max_every_range);
    if (goal > 0) found_cell(out, c->max_overall, c->max_overall_range);
    for (int k = 0; k < n; k++) {
        share_cell(out, c, loads[k], false);
        if (!one) share_cell(out, c, loads[k], true);
    }
    fprintf(out, "</tr>\n");
}

void mo_page_answers(FILE *out, const struct mo_page_view *view) {
    const json_t *document = view->document;
    const bool one = mo_doc_one_tenant(document);
    double goal = mo_json_number(document, "goal"), loads[MO_SHOWN_LOADS];
    int n = mo_page_loads_shown(view, loads),
        seeds = (int)json_array_size(json_object_get(document, "seeds"));
    if (!view->n_curves) return;
    if (goal > 0 && n > 1) n = 1; /* the answer is the load that was found */
    answers_head(out, goal, loads, n, one);
    for (int i = 0; i < view->n_curves; i++)
        answers_row(out, &view->curves[i], goal, loads, n, one);
    fprintf(out, "</table><p class=\"soft\">Small numbers: ");
    if (seeds > 1)
        fprintf(out, "the lowest and the highest of %d seeds.</p></div>\n", seeds);
    else
        fprintf(out, "the 95 %% interval of a share, by the number of its queries (Wilson).</p></div>\n");
    remarks(out, document, mo_doc_few);
    remarks(out, document, mo_doc_stalls);
    remarks(out, document, mo_doc_energy);
    left_out(out, document);
}
