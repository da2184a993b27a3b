/* SPDX-License-Identifier: Apache-2.0
 * live_table.c - what a server shows as lines of text; see live_table.h.  Fields that a document lacks count
 * as 0. */
#include "tools/moire/top/live_table.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NAMED = 4 };

static double number(const json_t *of, const char *key) {
    return json_number_value(json_object_get(of, key));
}
static const char *text(const json_t *of, const char *key) {
    const char *value = json_string_value(json_object_get(of, key));
    return value ? value : "";
}

/* Share in time over the last minute; 2: none was due. */
static double share_of(const json_t *model) {
    const json_t *minute = json_object_get(model, "minute");
    const double due = number(minute, "due");
    return due > 0 ? number(minute, "in_time") / due : 2;
}
static bool is_below(const json_t *model) {
    return json_is_true(json_object_get(model, "below"));
}

/* --- since an earlier look --- */
static const json_t *same_model(const json_t *document, const json_t *model) {
    size_t i;
    const json_t *m;
    json_array_foreach(json_object_get(document, "models"), i, m) {
        if (!strcmp(text(m, "name"), text(model, "name")) &&
            !strcmp(text(m, "version"), text(model, "version")))
            return m;
    }
    return NULL;
}

static double bucket_of(const json_t *times, size_t i) {
    return json_number_value(json_array_get(json_object_get(times, "buckets"), i));
}

/* Milliseconds, the bound of its bucket; below 0: nothing was answered. */
static double quantile(const json_t *model, const json_t *before, const json_t *bounds, double q) {
    const json_t *now = json_object_get(model, "request"), *old = json_object_get(before, "request");
    const size_t n = json_array_size(json_object_get(now, "buckets"));
    double all = 0, sum = 0;
    if (number(old, "count") >= number(now, "count")) old = NULL; /* nothing new: since the start */
    for (size_t i = 0; i < n; i++)
        all += bucket_of(now, i) - bucket_of(old, i);
    for (size_t i = 0; i < n && all > 0; i++) {
        sum += bucket_of(now, i) - bucket_of(old, i);
        if (sum < q * all) continue;
        const size_t last = json_array_size(bounds) - 1;
        return json_number_value(json_array_get(bounds, i < last ? i : last));
    }
    return -1;
}

static double per_second(const json_t *model, const json_t *before, double seconds, double uptime) {
    const double now = number(json_object_get(model, "ended"), "all");
    const double old = number(json_object_get(before, "ended"), "all");
    if (before && seconds > 0 && now >= old) return (now - old) / seconds;
    return uptime > 0 ? now / uptime : 0;
}

/* --- lines --- */
static void print_ms(FILE *out, double ms) {
    if (ms < 0)
        fprintf(out, " %9s", "-");
    else if (ms >= 1000)
        fprintf(out, " %7.1f s", ms / 1000);
    else
        fprintf(out, " %6.4g ms", ms);
}

static int by_share(const void *a, const void *b) {
    const json_t *const *x = a, *const *y = b;
    if (is_below(*x) != is_below(*y)) return is_below(*y) - is_below(*x);
    const double d = is_below(*x) ? share_of(*x) - share_of(*y) : 0;
    if (d < 0 || d > 0) return d < 0 ? -1 : 1;
    return strcmp(text(*x, "name"), text(*y, "name"));
}

static void print_verdict(const struct mo_live_view *v, const json_t *const *model, int n, FILE *out) {
    int below = 0, aimed = 0, asked = 0;
    for (int i = 0; i < n; i++) {
        below += is_below(model[i]);
        aimed += number(model[i], "target_ms") > 0 && share_of(model[i]) <= 1;
        asked += share_of(model[i]) <= 1;
    }
    if (v->colours) fputs(below ? "\033[1;31m" : aimed ? "\033[1;32m" : "\033[1m", out);
    if (!n)
        fputs("no model is loaded", out);
    else if (!asked)
        fputs("nobody has asked anything in the last minute", out);
    else if (!aimed)
        fputs("no tenant that was asked has a target", out);
    else if (!below)
        fprintf(out, "every tenant is within its target: %d of %d", aimed, aimed);
    for (int i = 0; i < below && i < NAMED; i++) /* they are the first */
        fprintf(out, "%s%s (%.1f %% in time)",
                i           ? ", "
                : below > 1 ? "below their targets: "
                            : "below its target: ",
                text(model[i], "name"),
                share_of(model[i]) * 100 - .05 > 0 ? share_of(model[i]) * 100 - .05 : 0);
    if (below > NAMED) fprintf(out, " and %d more", below - NAMED);
    fprintf(out, "%s%s", v->colours ? "\033[0m" : "", v->end);
}

static void print_server(const struct mo_live_view *v, const json_t *now, const json_t *before, FILE *out) {
    const json_t *s = json_object_get(now, "server"), *memory = json_object_get(s, "memory"), *part, *name;
    double bytes = 0;
    const char *key;
    size_t i;
    json_object_foreach((json_t *)(uintptr_t)memory, key, part) bytes += json_number_value(part);
    fprintf(out,
            "moire %s, up %.0f s; cores %g of %g; waiting %g; pressure %.2f; pace %.2f; memory %.0f MiB%s",
            text(now, "version"), number(s, "uptime_s"), number(s, "cores_held"), number(s, "cores"),
            number(s, "waiting"), number(s, "pressure"), number(s, "pace"), bytes / (1 << 20), v->end);
    if (json_array_size(json_object_get(now, "loading"))) {
        fputs("loading:", out);
        json_array_foreach(json_object_get(now, "loading"), i, name)
            fprintf(out, " %s", json_string_value(name));
        fputs(v->end, out);
    }
    fprintf(out, "in time over the last minute; latency %s%s%s",
            before ? "since this began, a minute at most" : "since the start", v->end, v->end);
}

static void print_model(const struct mo_live_view *v, const json_t *m, const json_t *now,
                        const json_t *before, double seconds, FILE *out) {
    const json_t *bounds = json_object_get(now, "bounds_ms"), *old = same_model(before, m);
    const double share = share_of(m), target = number(m, "target_ms");
    const bool ready = !strcmp(text(m, "state"), "READY");
    if (v->colours && is_below(m)) fputs("\033[31m", out);
    fprintf(out, "%-28.28s %3.3s ", text(m, "name"), text(m, "version"));
    if (share > 1)
        fprintf(out, " %7s", "-");
    else
        fprintf(out, " %5.1f %%", share < 1 && share > .0005 ? share * 100 - .05 : share * 100);
    print_ms(out, target > 0 ? target : -1);
    print_ms(out, quantile(m, old, bounds, .5));
    print_ms(out, quantile(m, old, bounds, .99));
    fprintf(out, " %8.1f %6g %6g  %s%s%s",
            per_second(m, old, seconds, number(json_object_get(now, "server"), "uptime_s")),
            number(m, "waiting"), number(m, "cores"), ready ? (is_below(m) ? "below" : "") : text(m, "state"),
            v->colours ? "\033[0m" : "", v->end);
}

void mo_live_print(const struct mo_live_view *v, const json_t *now, const json_t *before, double seconds,
                   FILE *out) {
    const json_t *models = json_object_get(now, "models");
    const int n = (int)json_array_size(models);
    const json_t **model = calloc((size_t)n + 1, sizeof *model);
    if (!model) return;
    for (int i = 0; i < n; i++)
        model[i] = json_array_get(models, (size_t)i);
    qsort(model, (size_t)n, sizeof *model, by_share);
    print_verdict(v, model, n, out);
    print_server(v, now, before, out);
    fprintf(out, "%-32s %8s %9s %9s %9s %8s %6s %6s%s", "tenant", "in time", "target", "p50", "p99", "/s",
            "wait", "cores", v->end);
    for (int i = 0; i < n && i < v->rows; i++)
        print_model(v, model[i], now, before, seconds, out);
    if (n > v->rows) fprintf(out, "and %d more; a taller window shows them%s", n - v->rows, v->end);
    free(model);
}
