/* SPDX-License-Identifier: Apache-2.0
 * proxy.c - reading, writing and using proxy files; see proxy.h. */
#include "runtime/proxy/proxy.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/file.h"

enum { LINE = 256 };
static const char magic[] = "# moire-proxy 1", source_key[] = "# source ", header[] = "term,coefficient";
static const char intercept_key[] = "intercept";

struct reader {
    const char *path;
    int line;
    bool header, intercept, seen[MO_OBSERVABLES];
    int terms;
    struct mo_proxy *out;
    moire_error *err;
};

static int fail(const struct reader *r, const char *why, const char *what) {
    return mo_fail(r->err, MOIRE_EFORMAT, "%s:%d: %s%.60s", r->path, r->line, why, what);
}

static int read_source(struct reader *r, const char *name) {
    if (r->out->source) return fail(r, "a second source", "");
    const struct mo_source *s = mo_source_find(name);
    if (!s) return fail(r, "no source of pressure is called ", name);
    if (!s->open) return fail(r, "this source counts nothing that a proxy could use: ", name);
    r->out->source = s;
    return MOIRE_OK;
}

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

static int read_term(struct reader *r, char *line) {
    char *comma = strchr(line, ','), *end;
    if (!comma) return fail(r, "not \"term,coefficient\": ", line);
    *comma = 0;
    double *to = place_of(r, line);
    if (!to)
        return fail(r, "the intercept comes first, then each observable of the source at most once; not ",
                    line);
    errno = 0;
    *to = strtod(comma + 1, &end);
    if (errno || end == comma + 1 || *end || !isfinite(*to)) return fail(r, "not a number: ", comma + 1);
    return MOIRE_OK;
}

static int read_line(struct reader *r, char *line) {
    if (r->line == 1)
        return strcmp(line, magic) ? fail(r, "not a proxy: the first line must be ", magic) : MOIRE_OK;
    if (!strncmp(line, source_key, sizeof source_key - 1))
        return read_source(r, line + sizeof source_key - 1);
    if (*line == '#') return MOIRE_OK;
    if (r->header) return read_term(r, line);
    if (!r->out->source) return fail(r, "no '# source' line before the terms", "");
    r->header = true;
    return strcmp(line, header) ? fail(r, "the header must be ", header) : MOIRE_OK;
}

int mo_proxy_parse(const char *path, const char *text, size_t n, struct mo_proxy *out, moire_error *err) {
    struct reader r = {.path = path, .out = out, .err = err};
    *out = (struct mo_proxy){0};
    for (size_t at = 0; at < n;) {
        char line[LINE];
        r.line++;
        const char *why = mo_file_line(text, n, &at, line, sizeof line);
        int code = why ? fail(&r, why, "") : read_line(&r, line);
        if (code) return code;
    }
    r.line++;
    return r.terms ? MOIRE_OK : fail(&r, "the file ends before the first observable", "");
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
    int at = snprintf(out, n, "%s\n%s%s\n%s%.200s%s%s\n%s,%.9g\n", magic, source_key, p->source->name,
                      *note ? "# note " : "", note, *note ? "\n" : "", header, intercept_key, p->intercept);
    for (int i = 0; i < p->source->n && at > 0 && (size_t)at < n; i++) {
        if (fpclassify(p->coefficient[i]) == FP_ZERO) continue;
        at += snprintf(out + at, n - (size_t)at, "%s,%.9g\n", p->source->observable[i], p->coefficient[i]);
    }
    return at > 0 && (size_t)at < n ? (size_t)at : 0;
}

double mo_proxy_pressure(const struct mo_proxy *p, const double *observed) {
    double sum = p->intercept;
    for (int i = 0; i < p->source->n; i++)
        sum += p->coefficient[i] * observed[i];
    return sum > 0 ? sum < 1 ? sum : 1 : 0;
}
