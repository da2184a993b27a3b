/* SPDX-License-Identifier: Apache-2.0
 * column.c - columns of tables over seeds; see column.h. */
#include "bench/sim/column.h"

static const json_t *mean_of(const json_t *row, const struct mo_bench_column *c) {
    const json_t *v = json_object_get(row, c->key);
    return json_is_object(v) ? json_object_get(v, "mean") : v;
}

static const json_t *interval_of(const json_t *row, const struct mo_bench_column *c) {
    const json_t *v = json_object_get(row, c->key);
    return json_is_object(v) ? json_object_get(v, "ci95") : NULL;
}

bool mo_bench_column_known(const json_t *row, const struct mo_bench_column *column) {
    return json_is_number(mean_of(row, column));
}

void mo_bench_column_print(const json_t *row, const struct mo_bench_column *c, int width) {
    const json_t *ci = interval_of(row, c);
    char text[48] = "-";
    if (mo_bench_column_known(row, c) && json_is_number(ci))
        snprintf(text, sizeof text, "%.*f+-%.*f", c->digits, c->scale * json_number_value(mean_of(row, c)),
                 c->digits, c->scale * json_number_value(ci));
    else if (mo_bench_column_known(row, c))
        snprintf(text, sizeof text, "%.*f", c->digits, c->scale * json_number_value(mean_of(row, c)));
    printf(" %*s", width, text);
}

void mo_bench_column_head(FILE *out, const char *head) {
    fprintf(out, "<th>");
    for (const char *p = head; *p; p++)
        if (*p == '|')
            fprintf(out, "<br>");
        else
            fputc(*p, out);
    fprintf(out, "</th>");
}

void mo_bench_column_page(FILE *out, const json_t *row, const struct mo_bench_column *c, bool bold) {
    const json_t *ci = interval_of(row, c);
    if (!mo_bench_column_known(row, c)) {
        fprintf(out, "<td>&ndash;</td>");
        return;
    }
    fprintf(out, "<td>%s%.*f%s", bold ? "<b>" : "", c->digits, c->scale * json_number_value(mean_of(row, c)),
            bold ? "</b>" : "");
    if (json_is_number(ci))
        fprintf(out, " <span class=\"soft\">&plusmn; %.*f</span>", c->digits,
                c->scale * json_number_value(ci));
    fprintf(out, "</td>");
}
