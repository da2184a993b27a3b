/* SPDX-License-Identifier: Apache-2.0
 * report.c - the baseline file, the table of results and their JSON. */
#define _DEFAULT_SOURCE
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/conformance/conformance.h"

/* --- baseline --- */
struct baseline {
    int n;
    char **names;
};

static bool add_name(struct baseline *b, const char *name) {
    char **wider = realloc(b->names, (size_t)(b->n + 1) * sizeof *wider);
    if (!wider) return false;
    b->names = wider;
    b->names[b->n] = strdup(name);
    return b->names[b->n++] != NULL;
}

struct baseline *baseline_read(const char *path) {
    FILE *f = fopen(path, "r");
    struct baseline *b = f ? calloc(1, sizeof *b) : NULL;
    char line[256];
    while (b && fgets(line, sizeof line, f)) {
        line[strcspn(line, "#\t\r\n ")] = 0;
        if (*line && !add_name(b, line)) break;
    }
    if (f) fclose(f);
    return b;
}

int baseline_has(const struct baseline *b, const char *name) {
    for (int i = 0; i < b->n; i++)
        if (!strcmp(b->names[i], name)) return 1;
    return 0;
}

void baseline_free(struct baseline *b) {
    for (int i = 0; b && i < b->n; i++)
        free(b->names[i]);
    if (b) free(b->names);
    free(b);
}

/* --- counting --- */
struct counts {
    char name[80];
    int n[3];
};

static struct counts *find_counts(struct counts *list, int *n, int cap, const char *name, size_t length) {
    for (int i = 0; i < *n; i++)
        if (strlen(list[i].name) == length && !strncmp(list[i].name, name, length)) return &list[i];
    if (*n == cap) return &list[cap - 1];
    struct counts *t = &list[(*n)++];
    *t = (struct counts){.n = {0}};
    snprintf(t->name, sizeof t->name, "%.*s", (int)length, name);
    return t;
}

enum { FOLDERS = 16, REASONS = 200 };

static int count_folders(const struct result *r, int n, struct counts *folders) {
    int k = 0;
    for (int i = 0; i < n; i++)
        find_counts(folders, &k, FOLDERS, r[i].name, strcspn(r[i].name, "/"))->n[r[i].verdict]++;
    return k;
}

static int by_count(const void *a, const void *b) {
    const struct counts *x = a, *y = b;
    return x->n[SKIPPED] != y->n[SKIPPED] ? y->n[SKIPPED] - x->n[SKIPPED] : strcmp(x->name, y->name);
}

static int count_reasons(const struct result *r, int n, struct counts *reasons) {
    int k = 0;
    for (int i = 0; i < n; i++)
        if (r[i].verdict == SKIPPED)
            find_counts(reasons, &k, REASONS, r[i].reason, strlen(r[i].reason))->n[SKIPPED]++;
    qsort(reasons, (size_t)k, sizeof *reasons, by_count);
    return k;
}

void report_table(const struct result *r, int n) {
    struct counts folders[FOLDERS], reasons[REASONS];
    int n_folders = count_folders(r, n, folders), n_reasons = count_reasons(r, n, reasons);
    for (int i = 0; i < n; i++)
        if (r[i].verdict == FAILED) printf("FAILED %s: %s\n", r[i].name, r[i].message);
    printf("%-20s %8s %8s %8s %8s\n", "cases", "passed", "failed", "skipped", "passed");
    for (int i = 0; i < n_folders; i++) {
        const int *c = folders[i].n, all = c[PASSED] + c[FAILED] + c[SKIPPED];
        printf("%-20s %8d %8d %8d %7.1f%%\n", folders[i].name, c[PASSED], c[FAILED], c[SKIPPED],
               100.0 * c[PASSED] / all);
    }
    printf("\nskipped because of\n");
    for (int i = 0; i < n_reasons; i++)
        printf("  %-44s %4d\n", reasons[i].name, reasons[i].n[SKIPPED]);
    printf("\n");
}

int report_json(const struct result *r, int n) {
    static const char *const verdicts[] = {"passed", "failed", "skipped"};
    struct counts folders[FOLDERS], reasons[REASONS];
    int n_folders = count_folders(r, n, folders), n_reasons = count_reasons(r, n, reasons);
    json_t *cases = json_array(), *groups = json_object(), *why = json_object();
    for (int i = 0; i < n; i++)
        json_array_append_new(cases, json_pack("{s:s, s:s, s:s, s:s}", "name", r[i].name, "verdict",
                                               verdicts[r[i].verdict], "reason", r[i].reason, "message",
                                               r[i].message));
    for (int i = 0; i < n_folders; i++)
        json_object_set_new(groups, folders[i].name,
                            json_pack("{s:i, s:i, s:i}", "passed", folders[i].n[PASSED], "failed",
                                      folders[i].n[FAILED], "skipped", folders[i].n[SKIPPED]));
    for (int i = 0; i < n_reasons; i++)
        json_object_set_new(why, reasons[i].name, json_integer(reasons[i].n[SKIPPED]));
    json_t *all = json_pack("{s:o, s:o, s:o}", "folders", groups, "skipped_because", why, "cases", cases);
    int rc = all ? json_dumpf(all, stdout, JSON_INDENT(1)) : -1;
    putchar('\n');
    json_decref(all);
    return rc;
}
