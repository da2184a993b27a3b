/* SPDX-License-Identifier: Apache-2.0
 * report_stalls.c - blocks that were late and machines that were slow while a system was measured; see
 * headline.h. */
#include <string.h>
#include "bench/report/headline.h"
#include "runtime/base/text.h"

static const double SLOW = 1.5; /* from here on a pace is told */

/* What the schedulers of all results of a system counted. */
struct seen {
    double stalls, ms, sheds, pace;
};

static double counted(const json_t *counters, const char *key) {
    return json_number_value(json_object_get(counters, key)); /* an older result has none */
}

static struct seen sum_of(const json_t *results, const char *system) {
    struct seen s = {0};
    size_t i;
    json_t *r;
    json_array_foreach((json_t *)results, i, r) {
        const json_t *counters = json_object_get(r, "scheduling");
        if (strcmp(mo_json_text(r, "name"), system) != 0) continue;
        s.stalls += counted(counters, "stalls");
        s.ms += counted(counters, "stall_ms");
        s.sheds += counted(counters, "stall_sheds");
        if (counted(counters, "pace_max") > s.pace) s.pace = counted(counters, "pace_max");
    }
    return s;
}

static bool is_first(const json_t *results, size_t at) {
    const char *name = mo_json_text(json_array_get(results, at), "name");
    for (size_t i = 0; i < at; i++)
        if (!strcmp(mo_json_text(json_array_get(results, i), "name"), name)) return false;
    return true;
}

int mo_doc_stalls(const json_t *document, char (*lines)[MO_HEADLINE], int most) {
    const json_t *results = json_object_get(document, "results");
    int n = 0;
    size_t i;
    json_t *r;
    json_array_foreach((json_t *)results, i, r) {
        const char *name = mo_json_text(r, "name");
        const struct seen s = sum_of(results, name);
        if (n == most || !(s.stalls > 0 || s.pace >= SLOW) || !is_first(results, i)) continue;
        struct mo_text text = mo_text_in(lines[n++], MO_HEADLINE);
        mo_text_put(&text, "%s:", name);
        if (s.stalls > 0)
            mo_text_put(&text,
                        " %.0f blocks were late by %.0f ms in all, as cores stood still or memory was short, "
                        "and %.0f queries were shed meanwhile%s",
                        s.stalls, s.ms, s.sheds, s.pace >= SLOW ? ";" : "");
        if (s.pace >= SLOW) mo_text_put(&text, " at worst blocks took %.1f times their time", s.pace);
        mo_text_put(&text, ".");
    }
    return n;
}
