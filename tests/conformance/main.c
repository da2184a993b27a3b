/* SPDX-License-Identifier: Apache-2.0
 * main.c - conformance runner over the ONNX backend tests.
 *
 *   conformance [--json] [--verbose] [--baseline FILE] [--only NAME] [--gpu FAKES] DATA
 *
 * DATA holds the folders node, pytorch-converted, pytorch-operator, simple, real.  Exit status 1 when a case
 * fails, or is skipped without being in the baseline, or is in the baseline and not skipped any more (then
 * its line must go: the list only shrinks).  --gpu runs the cases as programs for a GPU, on lets of the one
 * that the libraries in FAKES stand in for, and tells what those computed. */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/conformance/conformance.h"

struct options {
    const char *data, *baseline, *only, *fakes;
    struct case_gpu *gpu;
    bool json, verbose;
};

struct list {
    struct result *items;
    int n, cap;
};

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int not_hidden(const struct dirent *e) {
    return e->d_name[0] != '.';
}

static struct result *append(struct list *list) {
    if (list->n == list->cap) {
        int cap = list->cap ? 2 * list->cap : 256;
        struct result *wider = realloc(list->items, (size_t)cap * sizeof *wider);
        if (!wider) return NULL;
        list->items = wider;
        list->cap = cap;
    }
    struct result *r = &list->items[list->n++];
    memset(r, 0, sizeof *r);
    return r;
}

static bool run_folder(const struct mo_env *env, const struct options *o, const char *folder,
                       struct list *list) {
    static const char *const verdicts[] = {"passed", "FAILED", "skipped"};
    char path[1024];
    struct dirent **names;
    snprintf(path, sizeof path, "%s/%s", o->data, folder);
    int n = scandir(path, &names, not_hidden, by_name);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s/%.200s", o->data, folder, names[i]->d_name);
        struct result *r = !o->only || strstr(names[i]->d_name, o->only) ? append(list) : NULL;
        if (r) {
            snprintf(r->name, sizeof r->name, "%s/%.120s", folder, names[i]->d_name);
            run_case(env, o->gpu, path, r);
            if (o->verbose) printf("%-8s %s  %s\n", verdicts[r->verdict], r->name, r->message);
        }
        free(names[i]);
    }
    if (n >= 0) free(names);
    return n >= 0;
}

/* Skips that are new, and lines of the baseline that are no longer true. */
static int check_baseline(const struct options *o, const struct list *list) {
    struct baseline *b = o->baseline ? baseline_read(o->baseline) : NULL;
    int wrong = 0;
    if (!o->baseline) return 0;
    if (!b) {
        fprintf(stderr, "conformance: cannot read '%s'\n", o->baseline);
        return 1;
    }
    for (int i = 0; i < list->n; i++) {
        const struct result *r = &list->items[i];
        bool listed = baseline_has(b, r->name);
        if (listed == (r->verdict == SKIPPED)) continue;
        if (r->verdict == FAILED) continue; /* reported by itself */
        fprintf(stderr,
                listed ? "conformance: %s is no longer skipped: take it off the baseline\n"
                       : "conformance: %s is skipped but not in the baseline: %s\n",
                r->name, r->message);
        wrong++;
    }
    baseline_free(b);
    return wrong;
}

static bool close_gpu(const struct options *o) {
    moire_error err = {0};
    if (!case_gpu_close(o->gpu, o->json ? stderr : stdout, &err)) return true;
    fprintf(stderr, "conformance: %s\n", err.message);
    return false;
}

static int finish(const struct options *o, const struct list *list) {
    int count[3] = {0};
    for (int i = 0; i < list->n; i++)
        count[list->items[i].verdict]++;
    if (o->json)
        report_json(list->items, list->n);
    else
        report_table(list->items, list->n);
    int wrong = o->only ? 0 : check_baseline(o, list);
    wrong += !close_gpu(o);
    fprintf(o->json ? stderr : stdout, "%d passed, %d failed, %d skipped\n", count[PASSED], count[FAILED],
            count[SKIPPED]);
    return count[FAILED] || wrong || !list->n;
}

static bool parse(int argc, char **argv, struct options *o) {
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json"))
            o->json = true;
        else if (!strcmp(argv[i], "--verbose"))
            o->verbose = true;
        else if (!strcmp(argv[i], "--baseline") && i + 1 < argc)
            o->baseline = argv[++i];
        else if (!strcmp(argv[i], "--only") && i + 1 < argc)
            o->only = argv[++i];
        else if (!strcmp(argv[i], "--gpu") && i + 1 < argc)
            o->fakes = argv[++i];
        else if (argv[i][0] != '-' && !o->data)
            o->data = argv[i];
        else
            return false;
    }
    return o->data != NULL;
}

int main(int argc, char **argv) {
    static const char *const folders[] = {"node", "pytorch-converted", "pytorch-operator", "simple", "real"};
    struct options o = {0};
    struct list list = {0};
    if (!parse(argc, argv, &o)) {
        fprintf(
            stderr,
            "usage: conformance [--json] [--verbose] [--baseline FILE] [--only NAME] [--gpu FAKES] DATA\n");
        return 2;
    }
    struct mo_env env = mo_env_default();
    moire_error err = {0};
    if (o.fakes && case_gpu_open(&env, o.fakes, &o.gpu, &err)) {
        fprintf(stderr, "conformance: %s\n", err.message);
        return 1;
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (!run_folder(&env, &o, folders[i], &list))
            fprintf(stderr, "conformance: cannot read '%s/%s' (package libonnx-testdata)\n", o.data,
                    folders[i]);
    int rc = finish(&o, &list);
    free(list.items);
    return rc;
}
