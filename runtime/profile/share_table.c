/* SPDX-License-Identifier: Apache-2.0
 * share_table.c - reading profile files of shares; see share_table.h. */
#include "runtime/profile/share_table.h"

#include <math.h>
#include <string.h>
#include "runtime/base/cells.h"
#include "runtime/base/file.h"

static const char magic[] = "# moire-profile 1", columns[] = "batch,what";
static const double most_us = MO_SHARE_US, most_mib = MO_SHARE_MIB, most_bytes = MO_SHARE_BYTES;

/* Where the parser is.  Lines are collected here, for a profile is made from whole grids. */
struct reader {
    const char *path;
    int line;
    moire_error *err;
    struct mo_share_table *t;
    double memory_mib, in_bytes, out_bytes;
    int n_shares, n_batches, last; /* last: what the line before gave */
    int share[MO_SHARE_GRID], batch[MO_SHARE_GRID];
    struct mo_share_cell cell[MO_SHARE_GRID][MO_SHARE_GRID];
};

static int fail(const struct reader *r, const char *why) {
    return mo_fail(r->err, MOIRE_EFORMAT, "%s:%d: %s", r->path, r->line, why);
}

/* The text behind "# KEY " of a remark, NULL when it has another key. */
static char *remark(char *line, const char *key) {
    size_t n = strlen(key);
    return !strncmp(line, "# ", 2) && !strncmp(line + 2, key, n) && line[2 + n] == ' ' ? line + n + 3 : NULL;
}

static int read_remark(struct reader *r, char *line) {
    const struct {
        const char *key, **to;
    } rows[] = {{"model", &r->t->model},
                {"machine", &r->t->machine},
                {"source", &r->t->source},
                {"note", &r->t->note}};
    char *text;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if ((text = remark(line, rows[i].key))) *rows[i].to = text;
    if ((text = remark(line, "memory_mib")) && !mo_cell_number(text, 0, most_mib, &r->memory_mib))
        return fail(r, "memory_mib must be a number from 0 on");
    if ((text = remark(line, "copy_bytes"))) {
        char *second = strchr(text, ' ');
        if (second) *second++ = 0;
        if (!mo_cell_number(text, 0, most_bytes, &r->in_bytes) ||
            !mo_cell_number(second, 0, most_bytes, &r->out_bytes))
            return fail(r, "copy_bytes must be two numbers from 0 on: bytes in and out of a query");
    }
    return MOIRE_OK;
}

static int read_header(struct reader *r, char *line) {
    const size_t n = sizeof columns - 1;
    double v;
    if (strncmp(line, columns, n) != 0 || line[n] != ',')
        return mo_fail(r->err, MOIRE_EFORMAT, "%s:%d: the header must begin with %s", r->path, r->line,
                       columns);
    line += n + 1;
    for (char *cell; (cell = mo_cell_next(&line));) {
        if (!mo_cell_number(cell, 1, MO_SHARE_WHOLE, &v) || v != floor(v))
            return fail(r, "a column must be a share: a whole number of permille from 1 to 1000");
        if (r->n_shares == MO_SHARE_GRID) return fail(r, "too many columns of shares");
        if (r->n_shares && (int)v <= r->share[r->n_shares - 1])
            return fail(r, "shares must rise from column to column");
        r->share[r->n_shares++] = (int)v;
    }
    return MOIRE_OK;
}

/* What a line gives, by the order of lines: 0 the time, 1 to 3 the uses; -1 = nothing known. */
static int kind_of(const char *word) {
    static const char *const words[] = {"us", "sm", "l2", "dram"};
    for (int i = 0; word && i < 4; i++)
        if (!strcmp(word, words[i])) return i;
    return -1;
}

/* Opens the row of a new batch. */
static int begin_batch(struct reader *r, int batch) {
    if (r->n_batches == MO_SHARE_GRID) return fail(r, "too many batches");
    if (r->n_batches && batch <= r->batch[r->n_batches - 1])
        return fail(r, "batches must rise, and each begin with its line 'us'");
    for (int j = 0; j < r->n_shares; j++)
        r->cell[r->n_batches][j].use = (struct mo_share_use){-1, -1, -1};
    r->batch[r->n_batches++] = batch;
    return MOIRE_OK;
}

static int read_cells(struct reader *r, char *line, int kind) {
    struct mo_share_cell *row = r->cell[r->n_batches - 1];
    int known = 0;
    double v;
    for (int j = 0; j < r->n_shares; j++) {
        const char *cell = mo_cell_next(&line);
        if (!cell) return fail(r, "fewer cells than columns; leave empty what was not measured");
        if (!*cell) continue;
        if (kind == 0 ? !mo_cell_number(cell, 1e-3, most_us, &v) : !mo_cell_number(cell, 0, 100, &v))
            return mo_fail(r->err, MOIRE_EFORMAT, "%s:%d: '%.32s' at share %d is not %s", r->path, r->line,
                           cell, r->share[j], kind ? "a percentage" : "a time in microseconds");
        if (kind == 0) row[j].ns = (int64_t)(v * 1e3 + 0.5);
        if (kind == 1) row[j].use.sm = v / 100;
        if (kind == 2) row[j].use.l2 = v / 100;
        if (kind == 3) row[j].use.dram = v / 100;
        known++;
    }
    if (line) return fail(r, "more cells than columns");
    return kind || known ? MOIRE_OK : fail(r, "a batch without any time");
}

static int read_line(struct reader *r, char *line) {
    double v;
    bool batch = mo_cell_number(mo_cell_next(&line), 1, MO_SHARE_BATCH, &v);
    int kind = kind_of(mo_cell_next(&line));
    if (!batch || v != floor(v))
        return fail(r, "a line must begin with a batch, a whole number from 1 to 256");
    if (kind < 0) return fail(r, "the second cell must be us, sm, l2 or dram");
    if (!kind) {
        int code = begin_batch(r, (int)v);
        if (code) return code;
    } else if (!r->n_batches || r->batch[r->n_batches - 1] != (int)v || kind <= r->last) {
        return fail(r, "the lines of a batch must be us, then sm, l2 and dram, each at most once");
    }
    r->last = kind;
    return read_cells(r, line, kind);
}

static int read_lines(struct reader *r, char *text) {
    int code = MOIRE_OK;
    for (char *line = text; !code && line && *line;) {
        char *end = strchr(line, '\n');
        if (end) *end = 0;
        r->line++;
        if (r->line == 1)
            code = strcmp(line, magic) ? fail(r, "not a profile: the first line must be '# moire-profile 1'")
                                       : MOIRE_OK;
        else if (*line == '#')
            code = read_remark(r, line);
        else
            code = r->n_shares ? read_line(r, line) : read_header(r, line);
        line = end ? end + 1 : NULL;
    }
    r->line++;
    return code || r->n_batches ? code : fail(r, "the file ends before the first batch");
}

static int make_profile(const struct mo_env *env, const struct reader *r) {
    struct mo_share_profile *p = mo_share_create(env, r->n_batches, r->batch, r->n_shares, r->share);
    if (!p) return mo_fail(r->err, MOIRE_ENOMEM, "%s: out of memory", r->path);
    p->memory_bytes = (int64_t)(r->memory_mib * 1048576);
    p->in_bytes = (int64_t)r->in_bytes;
    p->out_bytes = (int64_t)r->out_bytes;
    for (int i = 0; i < r->n_batches; i++)
        for (int j = 0; j < r->n_shares; j++)
            mo_share_record(p, i, j, &r->cell[i][j]);
    r->t->profile = p;
    return mo_share_finish(p, r->err);
}

int mo_share_table_parse(const struct mo_env *env, const char *path, const char *text, size_t n,
                         struct mo_share_table *out, moire_error *err) {
    *out = (struct mo_share_table){.model = "", .machine = "", .source = "", .note = ""};
    if (n && memchr(text, 0, n)) return mo_fail(err, MOIRE_EFORMAT, "%s:1: not a profile: not a text", path);
    out->region = mo_region_create(env);
    char *copy = out->region ? mo_region_string(out->region, text, n) : NULL;
    struct reader *r = mo_alloc(env, sizeof *r);
    int code = copy && r ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path);
    if (!code) {
        r->path = path;
        r->t = out;
        r->err = err;
        code = read_lines(r, copy);
    }
    if (!code) code = make_profile(env, r);
    mo_free(env, r);
    if (code) mo_share_table_free(out);
    return code;
}

int mo_share_table_read(const struct mo_env *env, const char *path, struct mo_share_table *out,
                        moire_error *err) {
    char *text;
    size_t n;
    int code = mo_file_read(env, path, env->limits.json_bytes, "json_bytes", &text, &n, err);
    if (!code) code = mo_share_table_parse(env, path, text, n, out, err);
    mo_free(env, text);
    return code;
}

void mo_share_table_free(struct mo_share_table *table) {
    mo_share_destroy(table->profile);
    mo_region_destroy(table->region);
    *table = (struct mo_share_table){0};
}
