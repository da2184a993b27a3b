/* SPDX-License-Identifier: Apache-2.0
 * share_write.c - writing profile files of shares; see share_table.h. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "runtime/base/numbers.h"
#include "runtime/profile/labels.h"
#include "runtime/profile/share_table.h"

static void write_remarks(FILE *f, const struct mo_share_table *t) {
    struct mo_share_table texts = *t;
    struct mo_csv_label labels[MO_PROFILE_LABELS];
    mo_profile_labels(&texts.model, &texts.machine, &texts.source, &texts.note, labels);
    fputs("# moire-profile 1\n", f);
    mo_csv_put_labels(f, labels, MO_PROFILE_LABELS);
    const struct mo_share_profile *p = t->profile;
    fprintf(f, "# memory_mib %.9g\n", mo_within(0, MO_SHARE_MIB, (double)p->memory_bytes / 1048576));
    fprintf(f, "# copy_bytes %.0f %.0f\n", mo_within(0, MO_SHARE_BYTES, (double)p->in_bytes),
            mo_within(0, MO_SHARE_BYTES, (double)p->out_bytes));
}

/* What a cell gives: 0 the time in us, 1 to 3 the uses in percent; negative = a hole. */
static double value(const struct mo_share_cell *c, int kind) {
    if (kind == 0) return c->ns > 0 ? mo_within(1e-3, MO_SHARE_US, (double)c->ns * 1e-3) : -1;
    double use = kind == 1 ? c->use.sm : kind == 2 ? c->use.l2 : c->use.dram;
    return use >= 0 ? 100 * (use < 1 ? use : 1) : -1; /* a use that is no number is not known */
}

/* Writes nothing and returns false when nothing of that kind is known. */
static bool write_row(FILE *f, const struct mo_share_profile *p, int row, int kind) {
    static const char *const words[] = {"us", "sm", "l2", "dram"};
    const struct mo_share_cell *cell = &p->cell[row * p->n_shares];
    bool any = false;
    for (int j = 0; j < p->n_shares; j++)
        any |= value(&cell[j], kind) >= 0;
    if (!any) return false;
    fprintf(f, "%d,%s", p->batch[row], words[kind]);
    for (int j = 0; j < p->n_shares; j++) {
        double v = value(&cell[j], kind);
        if (v >= 0)
            fprintf(f, ",%.9g", v);
        else
            fputc(',', f);
    }
    fputc('\n', f);
    return true;
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
            if (!write_row(f, p, i, kind) && kind == 0) break; /* uses without a time serve nobody */
    bool bad = ferror(f) != 0;
    if (!fclose(f) && !bad) copy = mo_region_string(t->region, text, *n);
    free(text);
    return copy;
}
