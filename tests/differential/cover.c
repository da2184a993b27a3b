/* SPDX-License-Identifier: Apache-2.0
 * cover.c - counts by group and name, and their table. */
#include "tests/differential/cover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/ops/op.h"

static struct dt_cover_row *find(const struct dt_cover *cover, const char *group, const char *name) {
    for (int i = 0; i < cover->n; i++)
        if (!strcmp(cover->row[i].group, group) && !strncmp(cover->row[i].name, name, 47))
            return (struct dt_cover_row *)&cover->row[i];
    return NULL;
}

void dt_cover_add(struct dt_cover *cover, const char *group, const char *name) {
    struct dt_cover_row *row = find(cover, group, name);
    if (!row && cover->n < DT_COVER_ROWS) {
        row = &cover->row[cover->n++];
        *row = (struct dt_cover_row){.n = 0};
        snprintf(row->group, sizeof row->group, "%s", group);
        snprintf(row->name, sizeof row->name, "%s", name);
    }
    if (row) row->n++;
}

static int by_count(const void *a, const void *b) {
    const struct dt_cover_row *x = a, *y = b;
    int group = strcmp(x->group, y->group);
    return group ? group : x->n < y->n ? 1 : x->n > y->n ? -1 : 0;
}

void dt_cover_print_group(const struct dt_cover *cover, const char *group) {
    struct dt_cover sorted = *cover;
    int column = 0;
    qsort(sorted.row, (size_t)sorted.n, sizeof *sorted.row, by_count);
    printf("%s:", group);
    for (int i = 0; i < sorted.n; i++) {
        if (strcmp(sorted.row[i].group, group)) continue;
        column +=
            printf("%s%s %lld", column > 90 ? "\n    " : " ", sorted.row[i].name, (long long)sorted.row[i].n);
        if (column > 110) column = 0;
    }
    printf("\n");
}

int64_t dt_cover_sum(const struct dt_cover *cover, const char *group) {
    int64_t sum = 0;
    for (int i = 0; i < cover->n; i++)
        sum += strcmp(cover->row[i].group, group) ? 0 : cover->row[i].n;
    return sum;
}

void dt_cover_print(const struct dt_cover *cover) {
    dt_cover_print_group(cover, "operator");
    dt_cover_print_group(cover, "kernel");
    dt_cover_print_group(cover, "family");
    printf("operators never met:");
    for (int i = 0; mo_op_at(i); i++)
        if (!*mo_op_at(i)->domain && !find(cover, "operator", mo_op_at(i)->name))
            printf(" %s", mo_op_at(i)->name);
    printf("\nfamilies never met:");
    for (int i = 0; mo_emit_families()[i]; i++)
        if (!find(cover, "family", mo_emit_families()[i]->name)) printf(" %s", mo_emit_families()[i]->name);
    printf("\n");
}
