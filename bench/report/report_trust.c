/* SPDX-License-Identifier: Apache-2.0
 * report_trust.c - the warning at the head of a report that was measured on a disturbed machine; see
 * report_page.h.
 *
 * Every target and load of a report is a multiple of solo times.  Where these were disturbed, all shares
 * below are of the wrong targets, and the reader must know that first; likewise where runs under load were.
 */
#include "bench/report/plot.h"
#include "bench/report/report_page.h"

enum { MOST_SENTENCES = 6 }; /* the document has all */

static const char warning[] = "These numbers cannot be trusted: measure again on a quiet machine";
static const char of_calibration[] =
    "Targets and loads are multiples of times that were disturbed while they were measured.";
static const char of_runs[] = "Runs under load were disturbed.";

/* What was disturbed, as one list of sentences; NULL = nothing, or the result says nothing of it: those of
 * earlier versions, of simulations and of GPUs. */
static json_t *doubts(const json_t *document, const char **meaning) {
    static const char *const parts[] = {"calibration", "runs"}, *const meanings[] = {of_calibration, of_runs};
    json_t *all = NULL;
    for (int i = 0; i < 2; i++) {
        const json_t *part = json_object_get(document, parts[i]);
        if (!json_is_false(json_object_get(part, "trusted"))) continue;
        if (!all) *meaning = meanings[i];
        if (!all) all = json_array();
        json_array_extend(all, json_object_get(part, "why"));
    }
    return all;
}

/* Sentence i of those that are shown; NULL behind the last. */
static const char *sentence(const json_t *why, int i) {
    return i < MOST_SENTENCES ? json_string_value(json_array_get(why, (size_t)i)) : NULL;
}

static int left(const json_t *why) {
    const int n = (int)json_array_size(why);
    return n > MOST_SENTENCES ? n - MOST_SENTENCES : 0;
}

void mo_page_trust(FILE *out, const json_t *document) {
    const char *text, *meaning = "";
    json_t *why = doubts(document, &meaning);
    if (!why) return;
    fprintf(out,
            "<div role=\"alert\" style=\"background:#b3261e;color:#fff;border-radius:8px;padding:12px 16px;"
            "margin:12px 0\"><b>%s.</b> %s<ul style=\"margin:6px 0 0\">\n",
            warning, meaning);
    for (int i = 0; (text = sentence(why, i)); i++) {
        fprintf(out, "<li>");
        mo_html_text(out, text);
        fprintf(out, "</li>\n");
    }
    if (left(why)) fprintf(out, "<li>and %d more, in the result's JSON</li>\n", left(why));
    fprintf(out, "</ul></div>\n");
    json_decref(why);
}

void mo_text_trust(FILE *out, const json_t *document) {
    const char *text, *meaning = "";
    json_t *why = doubts(document, &meaning);
    if (!why) return;
    fprintf(out, "WARNING: %s.\n%s\n", warning, meaning);
    for (int i = 0; (text = sentence(why, i)); i++)
        fprintf(out, "  * %s\n", text);
    if (left(why)) fprintf(out, "  * and %d more, in the result's JSON\n", left(why));
    fprintf(out, "\n");
    json_decref(why);
}
