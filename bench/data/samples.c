/* SPDX-License-Identifier: Apache-2.0
 * samples.c - rows of pressure, slowdown and counters; see samples.h. */
#define _GNU_SOURCE
#include "bench/data/samples.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/output.h"
#include "runtime/base/file.h"

enum { LINE = 512, MAX_ROWS = 1 << 22 };
static const double most = 1e12; /* of a cell: squares and sums stay finite */
static const char magic[] = "# moire-pressure 1", source_key[] = "# source ";

const char *mo_samples_column(const struct mo_source *source, int column) {
    return column == MO_SAMPLE_PRESSURE   ? "pressure"
           : column == MO_SAMPLE_SLOWDOWN ? "slowdown"
                                          : source->observable[column - MO_SAMPLE_FIRST];
}

int mo_samples_columns(const struct mo_source *source) {
    return MO_SAMPLE_FIRST + source->n;
}

void mo_samples_free(struct mo_samples *s) {
    mo_free(s->env, s->row);
    s->row = NULL;
    s->n = s->room = 0;
}

int mo_samples_add(struct mo_samples *s, const struct mo_sample *row, moire_error *err) {
    if (s->n == MAX_ROWS) return mo_fail(err, MOIRE_ELIMIT, "more than %d rows of counters", MAX_ROWS);
    if (s->n == s->room) {
        int room = s->room ? 2 * s->room : 256;
        struct mo_sample *more = mo_alloc(s->env, (size_t)room * sizeof *more);
        if (!more) return mo_fail(err, MOIRE_ENOMEM, "out of memory for %d rows of counters", room);
        if (s->n) memcpy(more, s->row, (size_t)s->n * sizeof *more);
        mo_free(s->env, s->row);
        s->row = more;
        s->room = room;
    }
    s->row[s->n++] = *row;
    return MOIRE_OK;
}

/* --- reading -------------------------------------------------------------------------------------------- */
struct reader {
    struct mo_samples *s;
    const char *path;
    int line, rows;
    const struct mo_source *source; /* of this file */
    bool header;
    moire_error *err;
};

static int fail(const struct reader *r, const char *why, const char *what) {
    return mo_fail(r->err, MOIRE_EFORMAT, "%s:%d: %s%.80s", r->path, r->line, why, what);
}

static int read_source(struct reader *r, const char *name) {
    if (r->source) return fail(r, "a second source", "");
    r->source = mo_source_find(name);
    if (!r->source) return fail(r, "no source of pressure is called ", name);
    if (r->s->source && r->s->source != r->source)
        return fail(r, "rows of another source than those before it, which are of ", r->s->source->name);
    r->s->source = r->source;
    return MOIRE_OK;
}

static int read_header(struct reader *r, const char *line) {
    char want[LINE] = "";
    if (!r->source) return fail(r, "no '# source' line before the columns", "");
    for (int c = 0; c < mo_samples_columns(r->source); c++) {
        size_t n = strlen(want);
        snprintf(want + n, sizeof want - n, "%s%s", c ? "," : "", mo_samples_column(r->source, c));
    }
    r->header = true;
    return strcmp(line, want) ? fail(r, "the columns must be ", want) : MOIRE_OK;
}

static int read_row(struct reader *r, const char *line) {
    struct mo_sample row = {{0}};
    const int n = mo_samples_columns(r->source);
    const char *at = line;
    for (int c = 0; c < n; c++) {
        const char *name = mo_samples_column(r->source, c);
        char *end;
        errno = 0;
        row.cell[c] = strtod(at, &end);
        if (end == at) return fail(r, "a cell is missing or no number: ", name);
        if (errno || !(fabs(row.cell[c]) <= most)) return fail(r, "a cell that no machine measures: ", name);
        if (*end != (c + 1 < n ? ',' : 0))
            return fail(r, *end ? "not a number, or more cells than columns: " : "cells are missing after ",
                        name);
        at = end + 1;
    }
    if (row.cell[MO_SAMPLE_PRESSURE] < 0 || row.cell[MO_SAMPLE_PRESSURE] > 1)
        return fail(r, "the pressure must be 0 to 1", "");
    if (!(row.cell[MO_SAMPLE_SLOWDOWN] > 0)) return fail(r, "the slowdown must be positive", "");
    r->rows++;
    return mo_samples_add(r->s, &row, r->err);
}

static int read_line(struct reader *r, const char *line) {
    if (r->line == 1)
        return strcmp(line, magic) ? fail(r, "no samples: the first line must be ", magic) : MOIRE_OK;
    if (!strncmp(line, source_key, sizeof source_key - 1))
        return read_source(r, line + sizeof source_key - 1);
    if (*line == '#') return MOIRE_OK;
    return r->header ? read_row(r, line) : read_header(r, line);
}

int mo_samples_parse(struct mo_samples *s, const char *path, const char *text, size_t n, moire_error *err) {
    struct reader r = {.s = s, .path = path, .err = err};
    for (size_t at = 0; at < n;) {
        char line[LINE];
        r.line++;
        const char *why = mo_file_line(text, n, &at, line, sizeof line);
        int code = why ? fail(&r, why, "") : read_line(&r, line);
        if (code) return code;
    }
    r.line++;
    return r.rows ? MOIRE_OK : fail(&r, "the file ends before the first row", "");
}

/* --- writing -------------------------------------------------------------------------------------------- */
int mo_samples_write(const struct mo_samples *s, const char *note, const char *path, moire_error *err) {
    char *text = NULL;
    size_t size = 0;
    const int n = mo_samples_columns(s->source);
    FILE *f = open_memstream(&text, &size);
    if (!f) return mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path);
    fprintf(f, "%s\n%s%s\n# note %s\n", magic, source_key, s->source->name, note);
    for (int c = 0; c < n; c++)
        fprintf(f, "%s%c", mo_samples_column(s->source, c), c + 1 < n ? ',' : '\n');
    for (int i = 0; i < s->n; i++)
        for (int c = 0; c < n; c++)
            fprintf(f, "%.7g%c", s->row[i].cell[c], c + 1 < n ? ',' : '\n');
    bool bad = ferror(f) != 0;
    if (fclose(f)) bad = true;
    int code = bad ? mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path)
                   : mo_output_write(s->env, path, text, size, err);
    free(text);
    return code;
}
