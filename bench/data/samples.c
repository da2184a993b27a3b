/* SPDX-License-Identifier: Apache-2.0
 * samples.c - rows of pressure, slowdown and counters; see samples.h. */
#define _GNU_SOURCE
#include "bench/data/samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/csv.h"
#include "runtime/base/output.h"
#include "runtime/base/text.h"

enum { LINE = 512, MAX_ROWS = 1 << 22 };
static const double most = 1e12; /* of a cell: squares and sums stay finite */
static const char magic[] = "# moire-pressure 1", source_key[] = "source";

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
    const struct mo_source *source; /* of this file */
};

static int read_source(struct mo_csv *c, void *self) {
    struct reader *r = self;
    size_t n;
    const char *name = mo_csv_remark(c, source_key, &n);
    if (!name) return MOIRE_OK;
    if (r->source) return mo_csv_fail(c, "a second source");
    int code = mo_source_named(c, name, n, &r->source);
    if (code) return code;
    if (r->s->source && r->s->source != r->source)
        return mo_csv_fail(c, "rows of another source than those before it, which are of %s",
                           r->s->source->name);
    r->s->source = r->source;
    return MOIRE_OK;
}

static int read_header(struct mo_csv *c, void *self) {
    const struct reader *r = self;
    char want[LINE];
    struct mo_text t = mo_text_in(want, sizeof want);
    if (!r->source) return mo_csv_fail(c, "no '# source' line before the columns");
    for (int i = 0; i < mo_samples_columns(r->source); i++)
        mo_text_put(&t, "%s%s", i ? "," : "", mo_samples_column(r->source, i));
    return mo_csv_is(c, want) ? MOIRE_OK : mo_csv_fail(c, "the columns must be %.80s", want);
}

static int read_row(struct mo_csv *c, void *self) {
    const struct reader *r = self;
    struct mo_sample row = {{0}};
    for (int i = 0; i < mo_samples_columns(r->source); i++) {
        const char *name = mo_samples_column(r->source, i);
        if (!mo_csv_more(c)) return mo_csv_fail(c, "no cell for %s", name);
        if (!mo_csv_number(c, -most, most, &row.cell[i]))
            return mo_csv_fail_cell(c, "'%s' is no %s that a machine measures", c->shown, name);
    }
    if (mo_csv_more(c)) return mo_csv_fail(c, "more cells than columns");
    if (row.cell[MO_SAMPLE_PRESSURE] < 0 || row.cell[MO_SAMPLE_PRESSURE] > 1)
        return mo_csv_fail(c, "the pressure must be 0 to 1");
    if (!(row.cell[MO_SAMPLE_SLOWDOWN] > 0)) return mo_csv_fail(c, "the slowdown must be positive");
    return mo_samples_add(r->s, &row, c->err);
}

int mo_samples_parse(struct mo_samples *s, const char *path, const char *text, size_t n, moire_error *err) {
    static const struct mo_csv_form form = {.magic = magic,
                                            .what = "samples of counters",
                                            .unit = "row",
                                            .whole = true,
                                            .remark = read_source,
                                            .header = read_header,
                                            .row = read_row};
    struct reader r = {.s = s};
    return mo_csv_read(&form, path, text, n, &r, err);
}

/* --- writing -------------------------------------------------------------------------------------------- */
int mo_samples_write(const struct mo_samples *s, const char *note, const char *path, moire_error *err) {
    char *text = NULL;
    size_t size = 0;
    const int n = mo_samples_columns(s->source);
    FILE *f = open_memstream(&text, &size);
    if (!f) return mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path);
    fprintf(f, "%s\n# %s %s\n# note %s\n", magic, source_key, s->source->name, note);
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
