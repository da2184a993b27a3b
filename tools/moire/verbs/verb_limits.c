/* SPDX-License-Identifier: Apache-2.0
 * verb_limits.c - `moire limits`: the table of limits, as moire_limits() gives it. */
#include <jansson.h>
#include <stdio.h>
#include "tools/moire/verb.h"

enum { ROWS = 64 };

static const char about[] = "Lists every limit: its name, default, unit, the most that a runtime can be "
                            "given (moire_config.limits),\n"
                            "the code that a breach returns, and what it bounds.\n";

static const char notes[] = "Example:\n"
                            "  moire limits\n";

/* "none": what is more waits. */
static const char *breach(const moire_limit_row *row) {
    return row->code ? moire_code_name(row->code) : "none";
}

static void print_table(const moire_limit_row *rows, int n) {
    printf("%-18s %15s %-8s %15s  %-13s %s\n", "limit", "default", "unit", "most", "breach", "bounds");
    for (int i = 0; i < n; i++)
        printf("%-18s %15lld %-8s %15lld  %-13s %s\n", rows[i].name, (long long)rows[i].standard,
               rows[i].unit, (long long)rows[i].most, breach(&rows[i]), rows[i].text);
}

static void print_json(const moire_limit_row *rows, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:s, s:I, s:s, s:I, s:s, s:s}", "name", rows[i].name,
                                              "default", (json_int_t)rows[i].standard, "unit", rows[i].unit,
                                              "most", (json_int_t)rows[i].most, "breach", breach(&rows[i]),
                                              "bounds", rows[i].text));
    json_dumpf(list, stdout, JSON_INDENT(1));
    putchar('\n');
    json_decref(list);
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    moire_limit_row rows[ROWS];
    moire_error err;
    int n = 0;
    (void)env;
    if (moire_limits(NULL, rows, ROWS, &n, &err)) return mo_verb_fail(o, &err);
    if (n > ROWS) n = ROWS;
    if (o->json)
        print_json(rows, n);
    else
        print_table(rows, n);
    return MO_EXIT_OK;
}

const struct mo_verb mo_verb_limits = {
    .name = "limits",
    .group = MO_GROUP_MACHINE,
    .summary = "list the limits of a runtime: defaults, units, what they bound",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_LIMITS}},
    .run = run,
};
