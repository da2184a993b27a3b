/* SPDX-License-Identifier: Apache-2.0
 * report_few.c - highest loads that rest on few queries; see headline.h. */
#include <string.h>
#include "bench/search/seed_run.h"
#include "bench/report/headline.h"
#include "runtime/base/text.h"

/* The rarest tenant of the highest load that a search found for every tenant; NULL = each had queries enough.
 */
static const json_t *rarest(const json_t *result) {
    static const double few = MO_BENCH_ENOUGH_QUERIES;
    const double held = mo_json_number(result, "max_load_every_tenant");
    const json_t *least = NULL, *at = held > 0 ? mo_doc_point(result, held) : NULL;
    size_t i;
    json_t *t;
    json_array_foreach(json_object_get(at, "tenants"), i, t) {
        const double n = mo_json_number(t, "n");
        if (n > 0 && n < few && (!least || n < mo_json_number(least, "n"))) least = t;
    }
    return least;
}

int mo_doc_few(const json_t *document, char (*lines)[MO_HEADLINE], int most) {
    const char *before = "";
    int n = 0;
    size_t i;
    json_t *r;
    json_array_foreach(json_object_get(document, "results"), i, r) {
        const json_t *t = rarest(r), *interval = json_object_get(t, "within_interval");
        if (n == most || !json_is_array(interval) || !strcmp(before, mo_json_text(r, "name"))) continue;
        before = mo_json_text(r, "name");
        struct mo_text text = mo_text_in(lines[n++], MO_HEADLINE);
        mo_text_put(&text,
                    "%s at load %.2f: %s had %.0f queries, so its share may be %.0f to %.0f %%; a longer "
                    "--seconds tells "
                    "more.",
                    before, mo_json_number(r, "max_load_every_tenant"), mo_json_text(t, "name"),
                    mo_json_number(t, "n"), 100 * json_number_value(json_array_get(interval, 0)),
                    100 * json_number_value(json_array_get(interval, 1)));
    }
    return n;
}
