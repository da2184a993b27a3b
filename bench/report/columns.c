/* SPDX-License-Identifier: Apache-2.0
 * columns.c - see columns.h. */
#include "bench/report/columns.h"

#include "runtime/base/text.h"

static double scale_of(const struct mo_column *c) {
    return c->scale > 0 ? c->scale : 1;
}

const char *mo_column_cell(char text[MO_COLUMN_CELL], const json_t *row, const struct mo_column *c) {
    const json_t *v = json_object_get(row, c->key),
                 *ci = c->interval ? json_object_get(row, c->interval) : NULL;
    struct mo_text t = mo_text_in(text, MO_COLUMN_CELL);
    if (c->pair)
        mo_text_put(&t, "%.*f %.*f", c->digits, scale_of(c) * json_number_value(json_array_get(v, 0)),
                    c->digits, scale_of(c) * json_number_value(json_array_get(v, 1)));
    else if (json_is_number(v))
        mo_text_put(&t, "%.*f", c->digits, scale_of(c) * json_number_value(v));
    else
        mo_text_put(&t, "-");
    if (json_is_number(ci)) mo_text_put(&t, "+-%.*f", c->digits, scale_of(c) * json_number_value(ci));
    return text;
}

void mo_columns_print_titles(const struct mo_column *columns, int n, int width) {
    for (int c = 0; c < n; c++)
        printf(" %*s", width, columns[c].title);
    printf("\n");
}

void mo_columns_print(const json_t *row, const struct mo_column *columns, int n, int width) {
    char text[MO_COLUMN_CELL];
    for (int c = 0; c < n; c++)
        printf(" %*s", width, mo_column_cell(text, row, &columns[c]));
    printf("\n");
}

void mo_columns_page_heads(FILE *out, const struct mo_column *columns, int n) {
    for (int c = 0; c < n; c++)
        fprintf(out, "<th>%s</th>", columns[c].head);
    fprintf(out, "</tr>\n");
}

void mo_columns_page(FILE *out, const json_t *row, const struct mo_column *columns, int n) {
    char text[MO_COLUMN_CELL];
    for (int c = 0; c < n; c++)
        fprintf(out, "<td>%s</td>", mo_column_cell(text, row, &columns[c]));
    fprintf(out, "</tr>\n");
}
