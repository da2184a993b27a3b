/* SPDX-License-Identifier: Apache-2.0
 * report_page.h - the parts of the HTML page, and how they read the document. */
#ifndef MO_BENCH_REPORT_PAGE_H
#define MO_BENCH_REPORT_PAGE_H
#include <jansson.h>
#include <stdio.h>
#include "bench/data/json_read.h"
#include "runtime/base/env.h"

/* One curve of the load charts: a system's points, averaged over seeds, in order of load. */
enum { MO_CURVE_POINTS = 96, MO_CURVES = 24 };
struct mo_curve {
    const char *name;
    int moire; /* a policy of moire, not a peer */
    double load[MO_CURVE_POINTS], overall[MO_CURVE_POINTS], worst[MO_CURVE_POINTS];
    int seeds[MO_CURVE_POINTS], n;
    double max_overall, max_every; /* means over seeds; -1 = not searched */
};
/* Fills curves from the document's results; returns how many. */
int mo_doc_curves(const json_t *document, struct mo_curve *curves);
/* The best value among policies of moire (or peers), and of one system; -1 = none.  every: of every tenant's.
 */
double mo_doc_best(const struct mo_curve *curves, int n, int moire, int every);
double mo_doc_of(const struct mo_curve *curves, int n, const char *name, int every);
/* The highest load at which most systems were measured; 0 = none. */
double mo_doc_common_load(const json_t *document);
/* The point of a result at a load; NULL = not measured there. */
const json_t *mo_doc_point(const json_t *result, double load);

/* The warning that a disturbed calibration owes: a red banner, or the first lines of a text; nothing
 * otherwise. */
void mo_page_trust(FILE *out, const json_t *document);
void mo_text_trust(FILE *out, const json_t *document);
void mo_page_timeline(FILE *out, const json_t *document);
/* How moire chose blocks and versions; nothing where no result tells. */
void mo_page_choices(FILE *out, const json_t *document);

/* The head of a page with its title, and what it is about; the table of the document's "experiment". */
void mo_page_begin(FILE *out, const char *title, const char *about);
void mo_page_experiment(FILE *out, const json_t *document);
/* Writes what `draw` prints to a file that appears whole or not at all. */
int mo_page_write(const struct mo_env *env, const json_t *document, struct mo_curve *curves,
                  void (*draw)(FILE *out, const json_t *document, struct mo_curve *curves), const char *path,
                  moire_error *err);
#endif
