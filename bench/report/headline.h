/* SPDX-License-Identifier: Apache-2.0
 * headline.h - what a result says, in a few sentences: first on the page, in the terminal and in the JSON.
 *
 * After a search: up to what load moire keeps every tenant, and the best of its rivals.  Without one: what
 * share is in time at each load.  Rivals are the peers, or moire's other policies where no peer ran. */
#ifndef MO_BENCH_HEADLINE_H
#define MO_BENCH_HEADLINE_H
#include "bench/report/report_page.h"

enum { MO_HEADLINES = 6, MO_HEADLINE = 256 };

/* Writes the sentences, the main one first; returns how many, at least one. */
int mo_headline(const json_t *document, const struct mo_curve *curves, int n, char (*lines)[MO_HEADLINE]);
/* The same from the document alone, as a JSON list; NULL = out of memory. */
json_t *mo_headline_json(const struct mo_env *env, const json_t *document);
/* A new document that has these lines as "headline" before everything else that is in `document`; takes
 * `lines`, which may be NULL; NULL = out of memory. */
json_t *mo_headline_before(json_t *lines, const json_t *document);
/* The same with what the result of a scenario says. */
json_t *mo_headline_first(const struct mo_env *env, const json_t *document);
/* The system that the page is about: moire's own policy, else its first one; NULL = only peers. */
const struct mo_curve *mo_headline_lead(const struct mo_curve *curves, int n);
/* A sentence for each system whose highest load rests on few queries of some tenant, of its first such seed;
 * returns how many, `most` at most. */
int mo_doc_few(const json_t *document, char (*lines)[MO_HEADLINE], int most);
/* Likewise, for each system during whose runs blocks were late or the machine was slow. */
int mo_doc_stalls(const json_t *document, char (*lines)[MO_HEADLINE], int most);
/* Joules of a run of each system that tells them, measured or modelled, and by what: likewise. */
int mo_doc_energy(const json_t *document, char (*lines)[MO_HEADLINE], int most);
#endif
