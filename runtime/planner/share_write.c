/* SPDX-License-Identifier: Apache-2.0
 * share_write.c - writing profile files of shares; see share_table.h. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include "runtime/planner/share_table.h"

static void write_remarks(FILE *f, const struct mo_share_table *t) {
    const struct {
        const char *key, *text;
    } rows[] = {{"model", t->model}, {"machine", t->machine}, {"source", t->source}, {"note", t->note}};
    fputs("# moire-profile 1\n", f);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].text && *rows[i].text) fprintf(f, "# %s %s\n", rows[i].key, rows[i].text);
    const struct mo_share_profile *p = t->profile;
    fprintf(f, "# memory_mib %.9g\n", (double)p->memory_bytes / 1048576);
    fprintf(f, "# copy_bytes %lld %lld\n", (long long)p->in_bytes, (long long)p->out_bytes);
}

/* What a cell gives: 0 the time in us, 1 to 3 the uses in percent; negative = a hole. */
static double value(const struct mo_share_cell *c, int kind) {
    if (kind == 0) return c->ns > 0 ? (double)c->ns * 1e-3 : -1;
    double use = kind == 1 ? c->use.sm : kind == 2 ? c->use.l2 : c->use.dram;
    return use < 0 ? -1 : 100 * (use < 1 ? use : 1);
}

static void write_row(FILE *f, const struct mo_share_profile *p, int row, int kind) {
    static const char *const words[] = {"us", "sm", "l2", "dram"};
    const struct mo_share_cell *cell = &p->cell[row * p->n_shares];
    bool any = false;
    for (int j = 0; j < p->n_shares; j++)
        any |= value(&cell[j], kind) >= 0;
    if (!any) return;
    fprintf(f, "%d,%s", p->batch[row], words[kind]);
    for (int j = 0; j < p->n_shares; j++) {
        double v = value(&cell[j], kind);
        if (v >= 0)
            fprintf(f, ",%.9g", v);
        else
            fputc(',', f);
    }
    fputc('\n', f);
}

char *mo_share_table_text(const struct mo_share_table *t, size_t *n) {
    const struct mo_share_profile *p = t->profile;
    char *text = NULL, *copy = NULL;
    FILE *f = open_memstream(&text, n);
    if (!f) return NULL;
    write_remarks(f, t);
    fputs("batch,what", f);
    for (int j = 0; j < p->n_shares; j++)
        fprintf(f, ",%d", p->share[j]);
    fputc('\n', f);
    for (int i = 0; i < p->n_batches; i++)
        for (int kind = 0; kind < 4; kind++)
            write_row(f, p, i, kind);
    bool bad = ferror(f) != 0;
    if (!fclose(f) && !bad) copy = mo_region_string(t->region, text, *n);
    free(text);
    return copy;
}
