/* SPDX-License-Identifier: Apache-2.0
 * proxy_fit.c - files of samples, and what a fit found; see proxy_fit.h. */
#include "bench/fit/proxy_fit.h"

#include <stdio.h>
#include <string.h>
#include "bench/report/report_page.h"
#include "bench/data/trace.h"
#include "runtime/base/file.h"

/* --- recorded runs -------------------------------------------------------------------------------------- */
/* A row for every sample of the counters during which blocks ended: the mean of their slowdowns, and the
 * pressure that the scheduler took from such slowdowns. */
static int add_trace(struct mo_samples *samples, const char *path, const struct mo_trace *t,
                     moire_error *err) {
    int code = MOIRE_OK, before = samples->n;
    if (!t->source)
        return mo_fail(err, MOIRE_EINVAL,
                       "%s: no counters in it; `moire proxy list` says whether this machine has any", path);
    if (!t->n_pressures)
        return mo_fail(
            err, MOIRE_EINVAL,
            "%s: no pressure in it: no model was tuned (moire tune), or nothing interfered with them", path);
    if (t->pressures[t->n_pressures - 1].counted)
        return mo_fail(err, MOIRE_EINVAL, "%s: its pressure came from counters; record without --proxy",
                       path);
    if (samples->source && samples->source != t->source)
        return mo_fail(err, MOIRE_EINVAL, "%s: counters of %s, those before it are of %s", path,
                       t->source->name, samples->source->name);
    samples->source = t->source;
    for (int i = 1, block = 0; !code && i < t->n_counters; i++) {
        const int64_t from = t->counters[i - 1].time, to = t->counters[i].time;
        struct mo_sample row = {{mo_trace_mean_pressure(t, from, to)}};
        int n = 0;
        for (; block < t->n_blocks && t->blocks[block].end <= to; block++) {
            if (t->blocks[block].end <= from) continue;
            row.cell[MO_SAMPLE_SLOWDOWN] += (double)t->blocks[block].observed / t->blocks[block].predicted;
            n++;
        }
        if (!n) continue;
        row.cell[MO_SAMPLE_SLOWDOWN] /= n;
        for (int c = 0; c < t->source->n; c++)
            row.cell[MO_SAMPLE_FIRST + c] = t->counters[i].value[c];
        code = mo_samples_add(samples, &row, err);
    }
    if (!code && samples->n == before)
        code = mo_fail(err, MOIRE_EINVAL, "%s: no block ended while counters were sampled", path);
    return code;
}

static int parse(struct mo_samples *samples, const char *path, const char *text, size_t n, moire_error *err) {
    static const char history[] = "# moire-history";
    struct mo_trace trace;
    if (n < sizeof history || strncmp(text, history, sizeof history - 1) != 0)
        return mo_samples_parse(samples, path, text, n, err);
    int code = mo_trace_parse(samples->env, path, text, n, &trace, err);
    if (code) return code;
    code = add_trace(samples, path, &trace, err);
    mo_trace_free(&trace);
    return code;
}

int mo_proxy_load(struct mo_samples *samples, const char *path, moire_error *err) {
    char *text;
    size_t n;
    int code =
        mo_file_read(samples->env, path, samples->env->limits.trace_bytes, "trace_bytes", &text, &n, err);
    if (code) return code;
    code = parse(samples, path, text, n, err);
    mo_free(samples->env, text);
    return code;
}

/* --- the document --------------------------------------------------------------------------------------- */
json_t *mo_fit_json(const struct mo_fit *f, const struct mo_source *source) {
    json_t *components = json_array(), *terms = json_array();
    for (int c = 0; c < f->k; c++) {
        json_t *loading = json_object();
        for (int i = 0; i < f->k; i++)
            json_object_set_new(loading, mo_samples_column(source, f->column[i]),
                                json_real(f->loading[c][i]));
        json_array_append_new(components, json_pack("{s:f, s:f, s:o}", "share", f->share[c], "tells",
                                                    f->tells[c], "loading", loading));
        json_array_append_new(terms,
                              json_pack("{s:s, s:f, s:f}", "name", mo_samples_column(source, f->column[c]),
                                        "coefficient", f->coefficient[c], "alone", f->alone[c]));
    }
    return json_pack("{s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o}", "kind", "proxy", "source",
                     source->name, "rows", f->n, "r2", f->r2, "r2_left_out", f->r2_left_out, "mean_error",
                     f->mean_error, "worst_error", f->worst_error, "slowdown", f->slowdown, "intercept",
                     f->intercept, "components", components, "terms", terms);
}

void mo_fit_print(const json_t *d) {
    const json_t *terms = json_object_get(d, "terms"), *row;
    size_t i, k;
    printf("%.0f rows of %s; the slowdown's correlation with the pressure is %+.2f\n\n",
           mo_json_number(d, "rows"), mo_json_text(d, "source"), mo_json_number(d, "slowdown"));
    printf("component  variance  with pressure");
    json_array_foreach((json_t *)terms, i, row) printf("  %14s", mo_json_text(row, "name"));
    printf("\n");
    json_array_foreach(json_object_get(d, "components"), i, row) {
        const json_t *t;
        printf("%9zu  %6.1f %%  %+13.2f", i + 1, 100 * mo_json_number(row, "share"),
               mo_json_number(row, "tells"));
        json_array_foreach((json_t *)terms, k, t)
            printf("  %+14.2f", mo_json_number(json_object_get(row, "loading"), mo_json_text(t, "name")));
        printf("\n");
    }
    printf("\nterm              coefficient  alone\nintercept         %+11.4g\n",
           mo_json_number(d, "intercept"));
    json_array_foreach((json_t *)terms, i, row)
        printf("%-16s  %+11.4g  %+.2f\n", mo_json_text(row, "name"), mo_json_number(row, "coefficient"),
               mo_json_number(row, "alone"));
    printf("\nR2 %.3f, %.3f on rows left out; error of the pressure %.3f in the mean, %.3f at worst\n",
           mo_json_number(d, "r2"), mo_json_number(d, "r2_left_out"), mo_json_number(d, "mean_error"),
           mo_json_number(d, "worst_error"));
}
