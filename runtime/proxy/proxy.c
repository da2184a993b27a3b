/* SPDX-License-Identifier: Apache-2.0
 * proxy.c - reading, writing and using proxy files; see proxy.h. */
#include "runtime/proxy/proxy.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/csv.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"

static const char magic[] = "# moire-proxy 1", source_key[] = "source", header[] = "term,coefficient";
static const char intercept_key[] = "intercept";

struct reader {
    bool intercept, seen[MO_OBSERVABLES];
    int terms;
    struct mo_proxy *out;
};

/* Where the coefficient of a term goes; NULL when there is no such term, or not now. */
static double *place_of(struct reader *r, const char *term) {
    if (!r->intercept) {
        r->intercept = true;
        return strcmp(term, intercept_key) ? NULL : &r->out->intercept;
    }
    for (int i = 0; i < r->out->source->n; i++) {
        if (strcmp(term, r->out->source->observable[i]) != 0 || r->seen[i]) continue;
        r->seen[i] = true;
        r->terms++;
        return &r->out->coefficient[i];
    }
    return NULL;
}

static int read_term(struct mo_csv *c, void *self) {
    struct reader *r = self;
    char term[64];
    int n = mo_csv_cell(c, term, sizeof term);
    if (n < 0 || !mo_csv_more(c)) return mo_csv_fail_cell(c, "not \"term,coefficient\": %s", c->shown);
    double *to = place_of(r, term);
    if (!to)
        return mo_csv_fail_cell(
            c, "the intercept comes first, then each observable of the source at most once; not %s",
            c->shown);
    if (!mo_csv_number(c, -DBL_MAX, DBL_MAX, to)) return mo_csv_fail_cell(c, "not a number: %s", c->shown);
    return mo_csv_more(c) ? mo_csv_fail(c, "more cells than \"term,coefficient\"") : MOIRE_OK;
}

static int read_source(struct mo_csv *c, void *self) {
    struct reader *r = self;
    size_t n;
    const char *text = mo_csv_remark(c, source_key, &n);
    if (!text) return MOIRE_OK;
    if (r->out->source) return mo_csv_fail(c, "a second source");
    int code = mo_source_named(c, text, n, &r->out->source);
    if (code) return code;
    if (!r->out->source->open)
        return mo_csv_fail(c, "this source counts nothing that a proxy could use: %s", r->out->source->name);
    return MOIRE_OK;
}

static int read_header(struct mo_csv *c, void *self) {
    const struct reader *r = self;
    if (!r->out->source) return mo_csv_fail(c, "no '# source' line before the terms");
    return mo_csv_is(c, header) ? MOIRE_OK : mo_csv_fail(c, "the header must be %s", header);
}

static int read_end(struct mo_csv *c, void *self) {
    const struct reader *r = self;
    return r->terms ? MOIRE_OK : mo_csv_fail(c, "the file ends before the first observable");
}

int mo_proxy_parse(const char *path, const char *text, size_t n, struct mo_proxy *out, moire_error *err) {
    static const struct mo_csv_form form = {.magic = magic,
                                            .what = "a proxy",
                                            .unit = "term",
                                            .whole = true,
                                            .remark = read_source,
                                            .header = read_header,
                                            .row = read_term,
                                            .end = read_end};
    struct reader r = {.out = out};
    *out = (struct mo_proxy){0};
    return mo_csv_read(&form, path, text, n, &r, err);
}

int mo_proxy_read(const struct mo_env *env, const char *path, struct mo_proxy *out, moire_error *err) {
    char *text;
    size_t n;
    int code = mo_file_read(env, path, env->limits.json_bytes, "json_bytes", &text, &n, err);
    if (code) return code;
    code = mo_proxy_parse(path, text, n, out, err);
    mo_free(env, text);
    return code;
}

size_t mo_proxy_text(const struct mo_proxy *p, const char *note, char *out, size_t n) {
    struct mo_text t = mo_text_in(out, n);
    mo_text_put(&t, "%s\n# source %s\n", magic, p->source->name);
    if (*note) mo_text_put(&t, "# note %.200s\n", note);
    mo_text_put(&t, "%s\n%s,%.9g\n", header, intercept_key, p->intercept);
    for (int i = 0; i < p->source->n; i++)
        if (fpclassify(p->coefficient[i]) != FP_ZERO)
            mo_text_put(&t, "%s,%.9g\n", p->source->observable[i], p->coefficient[i]);
    return t.cut ? 0 : t.n;
}

double mo_proxy_pressure(const struct mo_proxy *p, const double *observed) {
    double sum = p->intercept;
    for (int i = 0; i < p->source->n; i++)
        sum += p->coefficient[i] * observed[i];
    return sum > 0 ? sum < 1 ? sum : 1 : 0;
}
