/* SPDX-License-Identifier: Apache-2.0
 * report_page.h - the parts of an HTML page, and how they read the document.
 *
 * A page is a list of sections, one function each (report_html.c has that of a served or simulated scenario).
 * A section prints a heading and what belongs under it, or nothing when the document has nothing for it. */
#ifndef MO_BENCH_REPORT_PAGE_H
#define MO_BENCH_REPORT_PAGE_H
#include <jansson.h>
#include <stdio.h>
#include "bench/data/json_read.h"
#include "bench/report/merge.h"
#include "runtime/base/env.h"

/* One curve of the load charts: a system's points, all seeds together, in order of load. */
enum { MO_CURVE_POINTS = 96, MO_CURVES = 24 };
struct mo_curve {
    const char *name, *about;
    int moire; /* a policy of moire, not a peer */
    int limit; /* no system that could run: a bound, or a schedule that knows the future */
    double load[MO_CURVE_POINTS], overall[MO_CURVE_POINTS], worst[MO_CURVE_POINTS];
    /* What an error bar spans: the seeds, or with one seed Wilson's 95 % interval. */
    double overall_range[2 * MO_CURVE_POINTS], worst_range[2 * MO_CURVE_POINTS];
    int seeds[MO_CURVE_POINTS], n;
    double max_overall, max_every; /* means over seeds; -1 = not searched */
    double max_overall_range[2], max_every_range[2];
};
/* Fills curves from the document's results; returns how many. */
int mo_doc_curves(const json_t *document, struct mo_curve *curves);
/* The point of a curve at a load; -1 = not measured there. */
int mo_curve_at(const struct mo_curve *curve, double load);
/* The highest load at which most systems were measured, best to the end; 0 = none. */
double mo_doc_common_load(const json_t *document);
/* Then its share is that of all queries. */
bool mo_doc_one_tenant(const json_t *document);
/* What load 1 is: "all cores busy at the fastest system's speed". */
const char *mo_doc_load_one(const json_t *document);
/* Whether queries of a tenant have a target; those of one in a closed loop have none, and are not scored. */
bool mo_doc_has_target(const json_t *document, const char *tenant);
/* The point of a result at a load; NULL = not measured there. */
const json_t *mo_doc_point(const json_t *result, double load);

/* What the sections of a page share. */
struct mo_page_view {
    const json_t *document; /* its tenants go by short names */
    struct mo_curve *curves;
    int n_curves;
};
typedef void (*mo_page_section)(FILE *out, const struct mo_page_view *view);
/* Short names and curves of a result; to be closed, also after an error. */
int mo_page_view_open(const struct mo_env *env, const json_t *document, struct mo_page_view *view,
                      moire_error *err);
void mo_page_view_close(const struct mo_env *env, struct mo_page_view *view);
/* The list of the document's tenants, in the scenario's order. */
json_t *mo_page_tenant_list(const struct mo_page_view *view);

/* Loads that have tables: first the one that the headline names, or that most systems saw; then others that
 * several saw, the highest first. */
enum { MO_SHOWN_LOADS = 5 };
int mo_page_loads_shown(const struct mo_page_view *view, double loads[MO_SHOWN_LOADS]);

/* Sections. */
void mo_page_headline(FILE *out, const struct mo_page_view *view);
void mo_page_answers(FILE *out, const struct mo_page_view *view);
void mo_page_tenants(FILE *out, const struct mo_page_view *view);
void mo_page_loads(FILE *out, const struct mo_page_view *view);
void mo_page_latency(FILE *out, const struct mo_page_view *view);
void mo_page_choices(FILE *out, const struct mo_page_view *view);
void mo_page_versus(FILE *out, const struct mo_page_view *view); /* a part of the former */
void mo_page_neighbour(FILE *out, const struct mo_page_view *view);
void mo_page_timeline(FILE *out, const struct mo_page_view *view);
void mo_page_targets(FILE *out, const struct mo_page_view *view);
void mo_page_cost(FILE *out, const struct mo_page_view *view);

/* The warning that a disturbed machine owes: a red banner, or the first lines of a text; nothing
 * otherwise. */
void mo_page_trust(FILE *out, const json_t *document);
void mo_text_trust(FILE *out, const json_t *document);
/* What choosing versions was worth beside a neighbour; nothing where that was not measured. */
void mo_text_neighbour(FILE *out, const json_t *document);

/* The head of a page with its title, and what it is about; its end. */
void mo_page_begin(FILE *out, const char *title, const char *about);
void mo_page_end(FILE *out);
/* A sentence of the answer: the first is large. */
void mo_page_answer(FILE *out, const char *sentence, bool first);
/* All sentences of a list, which it releases. */
void mo_page_lines(FILE *out, json_t *lines);
/* The document's "experiment" in words: machine, software, command. */
void mo_page_experiment(FILE *out, const json_t *document);
/* The line that stands for a system in a legend or table, and a cell with it and the system's name. */
void mo_page_swatch(FILE *out, const char *system);
void mo_page_system_cell(FILE *out, const char *system);
void mo_page_legend(FILE *out, const struct mo_page_view *view, bool with_bounds);
/* A cell with a number of so many digits; a dash when it is negative (not known). */
void mo_page_number(FILE *out, double value, int digits);
/* "91 to 98", in percent; with a digit behind the point where the interval is narrow. */
void mo_page_interval(FILE *out, const double interval[2]);
/* Writes what `draw` prints of `what` to a file that appears whole or not at all. */
int mo_page_write(const struct mo_env *env, void (*draw)(FILE *out, const void *what), const void *what,
                  const char *path, moire_error *err);
#endif
