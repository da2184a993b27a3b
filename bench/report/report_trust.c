/* SPDX-License-Identifier: Apache-2.0
 * report_trust.c - the warning at the head of a report whose calibration was disturbed; see report_page.h.
 *
 * Every target and load of a report is a multiple of solo times.  Where these were disturbed, all shares
 * below are of the wrong targets, and the reader must know that first. */
#include <string.h>
#include "bench/report/plot.h"
#include "bench/report/report_page.h"

enum { MOST_SENTENCES = 6 }; /* the document has all */

static const char warning[] = "The calibration cannot be trusted: measure again on a quiet machine";
static const char meaning[] =
    "Targets and loads are multiples of times that were disturbed while they were measured.";

/* Results of earlier versions, of simulations and of GPUs say nothing of trust: no warning. */
static const json_t *doubts(const json_t *document) {
    const json_t *calibration = json_object_get(document, "calibration");
    return json_is_false(json_object_get(calibration, "trusted")) ? json_object_get(calibration, "why")
                                                                  : NULL;
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
    const json_t *why = doubts(document);
    const char *text;
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
    if (left(why)) fprintf(out, "<li>and %d more, in the result's \"calibration\"</li>\n", left(why));
    fprintf(out, "</ul></div>\n");
}

void mo_text_trust(FILE *out, const json_t *document) {
    const json_t *why = doubts(document);
    const char *text;
    if (!why) return;
    fprintf(out, "WARNING: %s.\n%s\n", warning, meaning);
    for (int i = 0; (text = sentence(why, i)); i++)
        fprintf(out, "  * %s\n", text);
    if (left(why)) fprintf(out, "  * and %d more, in the result's \"calibration\"\n", left(why));
    fprintf(out, "\n");
}
