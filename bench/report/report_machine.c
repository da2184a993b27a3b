/* SPDX-License-Identifier: Apache-2.0
 * report_machine.c - on what and how a result was made, in words: the "experiment" of a document.
 *
 * Members that are known have a label and stand in a fixed order; others follow under their own names.  Lists
 * are joined by commas, objects are written as "name value" pairs. */
#include <stdlib.h>
#include <string.h>
#include "bench/report/plot.h"
#include "bench/report/report_page.h"

static const struct {
    const char *key, *label, *unit;
} labels[] = {{"cpu", "processor", ""},
              {"machine", "simulated machine", ""},
              {"cores", "cores used", ""},
              {"cores_online", "cores online", ""},
              {"caches", "caches", ""},
              {"flags", "instruction sets", ""},
              {"memory_mib", "memory", " MiB"},
              {"kernel", "Linux", ""},
              {"compiler", "compiler", ""},
              {"moire", "moire", ""},
              {"commit", "commit", ""},
              {"peers", "peers", ""},
              {"seeds", "seeds", ""},
              {"date", "date", ""},
              {"load_average_before", "load average before", ""},
              {"command", "command", ""}};
enum { LABELS = sizeof labels / sizeof *labels };

/* Units that names of members end with. */
static const struct {
    const char *end, *unit;
} units[] = {{"_gib_s", " GiB/s"}, {"_mib", " MiB"}, {"_kib", " KiB"}, {"_ms", " ms"}, {"_us", " us"}};

static const char *unit_of(const char *key, size_t *name_length) {
    *name_length = strlen(key);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t n = strlen(units[i].end);
        if (*name_length <= n || strcmp(key + *name_length - n, units[i].end) != 0) continue;
        *name_length -= n;
        return units[i].unit;
    }
    return "";
}

/* A member's name without its unit, as words. */
static void member_name(FILE *out, const char *key, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char one[2] = {(char)(key[i] == '_' ? ' ' : key[i]), 0};
        mo_html_text(out, one);
    }
}

/* {"level": 2, "kib": 512, "shared_by": 1} -> "L2 512 KiB". */
static bool cache(FILE *out, const json_t *v) {
    double level = mo_json_number(v, "level"), kib = mo_json_number(v, "kib"),
           cores = mo_json_number(v, "shared_by");
    if (!(level > 0) || !(kib > 0)) return false;
    if (kib >= 1024)
        fprintf(out, "L%.0f %.4g MiB", level, kib / 1024);
    else
        fprintf(out, "L%.0f %.0f KiB", level, kib);
    if (cores > 1)
        fprintf(out, " for %.0f cores", cores);
    else
        fprintf(out, " a core");
    return true;
}

/* "32768K", as the kernel writes sizes of caches -> "32 MiB". */
static void text(FILE *out, const char *v) {
    char *end;
    double kib = strtod(v, &end);
    if (end == v || strcmp(end, "K") != 0)
        mo_html_text(out, v);
    else if (kib >= 1024)
        fprintf(out, "%.4g MiB", kib / 1024);
    else
        fprintf(out, "%.0f KiB", kib);
}

static void value(FILE *out, const json_t *v, int depth);

/* A thing is called by its name, and "about" explains it: "big (a machine); cores 64". */
static void pairs(FILE *out, const json_t *v, int depth) {
    const char *key;
    json_t *one;
    int n = 0;
    if (cache(out, v)) return;
    json_object_foreach((json_t *)v, key, one) {
        const bool name = !strcmp(key, "name") && json_is_string(one), about = n && !strcmp(key, "about");
        size_t length;
        const char *unit = unit_of(key, &length);
        if (n++) fprintf(out, about ? " (" : depth ? ", " : "; ");
        if (!name && !about) member_name(out, key, length);
        if (!name && !about) fprintf(out, " ");
        value(out, one, depth + 1);
        fprintf(out, "%s%s", unit, about ? ")" : "");
    }
}

static void value(FILE *out, const json_t *v, int depth) {
    size_t i;
    json_t *one;
    if (depth > 4) return;
    if (json_is_string(v)) text(out, json_string_value(v));
    if (json_is_integer(v)) fprintf(out, "%lld", (long long)json_integer_value(v));
    if (json_is_real(v)) fprintf(out, "%.4g", json_real_value(v));
    if (json_is_boolean(v)) fprintf(out, json_is_true(v) ? "yes" : "no");
    if (json_is_null(v)) fprintf(out, "&ndash;");
    if (json_is_object(v)) pairs(out, v, depth);
    if (!json_is_array(v)) return;
    json_array_foreach((json_t *)v, i, one) {
        if (i) fprintf(out, ", ");
        value(out, one, depth + 1);
    }
}

static void line(FILE *out, const char *label, const json_t *v, const char *unit) {
    if (!v || (json_is_string(v) && !*json_string_value(v))) return;
    fprintf(out, "<tr><td>");
    member_name(out, label, strlen(label));
    fprintf(out, "</td><td class=\"l wrap\">");
    value(out, v, 0);
    fprintf(out, "%s</td></tr>\n", unit);
}

static bool labelled(const char *key) {
    for (int i = 0; i < LABELS; i++)
        if (!strcmp(labels[i].key, key)) return true;
    return false;
}

void mo_page_experiment(FILE *out, const json_t *document) {
    const json_t *experiment = json_object_get(document, "experiment");
    const char *key;
    json_t *v;
    if (!json_object_size(experiment)) return;
    fprintf(out, "<h2>Machine and command</h2><div class=\"card\"><table>\n");
    for (int i = 0; i < LABELS; i++)
        line(out, labels[i].label, json_object_get(experiment, labels[i].key), labels[i].unit);
    json_object_foreach((json_t *)experiment, key, v) if (!labelled(key)) line(out, key, v, "");
    fprintf(out, "</table></div>\n");
}
