/* SPDX-License-Identifier: Apache-2.0
 * share_table.c - reading profile files of shares; see share_table.h. */
#include "runtime/profile/share_table.h"

#include <math.h>
#include <string.h>
#include "runtime/base/file.h"
#include "runtime/profile/labels.h"

static const char magic[] = "# moire-profile 1", columns[] = "batch,what";
static const double most_us = MO_SHARE_US, most_mib = MO_SHARE_MIB, most_bytes = MO_SHARE_BYTES;

/* Lines are collected here, for a profile is made from whole grids. */
struct reader {
    struct mo_share_table *t;
    double memory_mib, in_bytes, out_bytes;
    int n_shares, n_batches, last; /* last: what the line before gave */
    int share[MO_SHARE_GRID], batch[MO_SHARE_GRID];
    struct mo_share_cell cell[MO_SHARE_GRID][MO_SHARE_GRID];
};

static int read_copies(struct mo_csv *c, struct reader *r, const char *text, size_t n) {
    const char *space = memchr(text, ' ', n);
    size_t first = space ? (size_t)(space - text) : n;
    if (!space || !mo_csv_is_number(text, first, 0, most_bytes, &r->in_bytes) ||
        !mo_csv_is_number(space + 1, n - first - 1, 0, most_bytes, &r->out_bytes))
        return mo_csv_fail(c, "copy_bytes must be two numbers from 0 on: bytes in and out of a query");
    return MOIRE_OK;
}

static int read_remark(struct mo_csv *c, void *self) {
    struct reader *r = self;
    struct mo_csv_label labels[MO_PROFILE_LABELS];
    const char *text;
    size_t n;
    if ((text = mo_csv_remark(c, "memory_mib", &n)))
        return mo_csv_is_number(text, n, 0, most_mib, &r->memory_mib)
                   ? MOIRE_OK
                   : mo_csv_fail(c, "memory_mib must be a number from 0 on");
    if ((text = mo_csv_remark(c, "copy_bytes", &n))) return read_copies(c, r, text, n);
    mo_profile_labels(&r->t->model, &r->t->machine, &r->t->source, &r->t->note, labels);
    return mo_csv_label(c, labels, MO_PROFILE_LABELS, r->t->region);
}

static int read_header(struct mo_csv *c, void *self) {
    struct reader *r = self;
    double v;
    if (!mo_csv_skip(c, columns) || !mo_csv_more(c))
        return mo_csv_fail(c, "the header must begin with %s, and shares follow", columns);
    while (mo_csv_more(c)) {
        if (!mo_csv_number(c, 1, MO_SHARE_WHOLE, &v) || v != floor(v))
            return mo_csv_fail_cell(
                c, "a column must be a share: a whole number of permille from 1 to 1000, not '%s'", c->shown);
        if (r->n_shares == MO_SHARE_GRID) return mo_csv_fail_cell(c, "too many columns of shares");
        if (r->n_shares && (int)v <= r->share[r->n_shares - 1])
            return mo_csv_fail_cell(c, "shares must rise from column to column");
        r->share[r->n_shares++] = (int)v;
    }
    return MOIRE_OK;
}

/* What a line gives, by the order of lines: 0 the time, 1 to 3 the uses; -1 = nothing known. */
static int kind_of(const char *word) {
    static const char *const words[] = {"us", "sm", "l2", "dram"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(word, words[i])) return i;
    return -1;
}

/* Opens the row of a new batch. */
static int begin_batch(struct mo_csv *c, struct reader *r, int batch) {
    if (r->n_batches == MO_SHARE_GRID) return mo_csv_fail(c, "too many batches");
    if (r->n_batches && batch <= r->batch[r->n_batches - 1])
        return mo_csv_fail(c, "batches must rise, and each begin with its line 'us'");
    for (int j = 0; j < r->n_shares; j++)
        r->cell[r->n_batches][j].use = (struct mo_share_use){-1, -1, -1};
    r->batch[r->n_batches++] = batch;
    return MOIRE_OK;
}

static int read_cells(struct mo_csv *c, struct reader *r, int kind) {
    struct mo_share_cell *row = r->cell[r->n_batches - 1];
    int known = 0;
    double v;
    for (int j = 0; j < r->n_shares; j++) {
        if (!mo_csv_more(c))
            return mo_csv_fail(c, "fewer cells than columns; leave empty what was not measured");
        bool good = kind ? mo_csv_number(c, 0, 100, &v) : mo_csv_number(c, 1e-3, most_us, &v);
        if (!good && !*c->shown) continue;
        if (!good)
            return mo_csv_fail_cell(c, "'%s' at share %d is not %s", c->shown, r->share[j],
                                    kind ? "a percentage" : "a time in microseconds");
        if (kind == 0) row[j].ns = (int64_t)(v * 1e3 + 0.5);
        if (kind == 1) row[j].use.sm = v / 100;
        if (kind == 2) row[j].use.l2 = v / 100;
        if (kind == 3) row[j].use.dram = v / 100;
        known++;
    }
    if (mo_csv_more(c)) return mo_csv_fail(c, "more cells than columns");
    return kind || known ? MOIRE_OK : mo_csv_fail(c, "a batch without any time");
}

static int read_row(struct mo_csv *c, void *self) {
    struct reader *r = self;
    char word[8];
    double v;
    if (!mo_csv_number(c, 1, MO_SHARE_BATCH, &v) || v != floor(v))
        return mo_csv_fail_cell(c, "a line must begin with a batch, a whole number from 1 to 256");
    int kind = mo_csv_cell(c, word, sizeof word) < 0 ? -1 : kind_of(word);
    if (kind < 0) return mo_csv_fail_cell(c, "the second cell must be us, sm, l2 or dram");
    if (!kind) {
        int code = begin_batch(c, r, (int)v);
        if (code) return code;
    } else if (!r->n_batches || r->batch[r->n_batches - 1] != (int)v || kind <= r->last) {
        return mo_csv_fail(c, "the lines of a batch must be us, then sm, l2 and dram, each at most once");
    }
    r->last = kind;
    return read_cells(c, r, kind);
}

static const struct mo_csv_form form = {.magic = magic,
                                        .what = "a profile",
                                        .unit = "batch",
                                        .remark = read_remark,
                                        .header = read_header,
                                        .row = read_row};

static int make_profile(const struct mo_env *env, const char *path, const struct reader *r,
                        moire_error *err) {
    struct mo_share_profile *p = mo_share_create(env, r->n_batches, r->batch, r->n_shares, r->share);
    if (!p) return mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path);
    p->memory_bytes = (int64_t)(r->memory_mib * 1048576);
    p->in_bytes = (int64_t)r->in_bytes;
    p->out_bytes = (int64_t)r->out_bytes;
    for (int i = 0; i < r->n_batches; i++)
        for (int j = 0; j < r->n_shares; j++)
            mo_share_record(p, i, j, &r->cell[i][j]);
    r->t->profile = p;
    return mo_share_finish(p, err);
}

int mo_share_table_parse(const struct mo_env *env, const char *path, const char *text, size_t n,
                         struct mo_share_table *out, moire_error *err) {
    *out = (struct mo_share_table){.model = "", .machine = "", .source = "", .note = ""};
    out->region = mo_region_create(env);
    struct reader *r = mo_alloc(env, sizeof *r);
    int code = out->region && r ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path);
    if (!code) {
        r->t = out;
        code = mo_csv_read(&form, path, text, n, r, err);
    }
    if (!code) code = make_profile(env, path, r, err);
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
