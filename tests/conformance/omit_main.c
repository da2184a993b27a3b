/* SPDX-License-Identifier: Apache-2.0
 * omit_main.c - runs omit.h over the models of one node of the ONNX backend tests and over those made here.
 *
 *   omit [--verbose] OPERANDS DATA
 *
 * Exit status 1 when a model fails, or when an operator of moire's table had none. */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/ops/op.h"
#include "tests/conformance/omit.h"
#include "codegen/import/import.h"

enum { OPERATORS = 400 };

struct totals {
    const struct mo_env *env;
    const struct omit_rules *rules;
    struct omit_log log;
    struct omit_counts counts;
    bool seen[OPERATORS]; /* by row of the table */
    int passed, failed;
};

static void note_seen(struct totals *t, const char *op) {
    for (int i = 0; mo_op_at(i) && i < OPERATORS; i++)
        if (!*mo_op_at(i)->domain && !strcmp(mo_op_at(i)->name, op)) t->seen[i] = true;
}

static void one(struct totals *t, const char *name, const void *bytes, size_t n,
                const struct mo_dataset *data) {
    char op[80];
    moire_error err = {0};
    if (!omit_only_node(bytes, n, op, sizeof op)) return;
    int rc = omit_model(t->env, t->rules, bytes, n, data, &t->log, &err);
    if (rc == 1) return;
    note_seen(t, op);
    t->passed += !rc;
    t->failed += rc != 0;
    if (rc) printf("FAILED   %s: %s\n", name, err.message);
}

static void one_case(struct totals *t, const char *folder, const char *name) {
    char model[1200], set[1200];
    uint8_t *bytes;
    size_t n;
    struct mo_dataset data;
    moire_error err = {0};
    snprintf(model, sizeof model, "%s/%s/model.onnx", folder, name);
    snprintf(set, sizeof set, "%s/%s/test_data_set_0", folder, name);
    if (mo_read_file(t->env, model, &bytes, &n, &err)) return;
    if (!mo_dataset_open(t->env, model, set, &data, &err) && !data.contradicts) one(t, name, bytes, n, &data);
    mo_dataset_close(&data);
    mo_free(t->env, bytes);
}

static int not_hidden(const struct dirent *e) {
    return e->d_name[0] != '.';
}

static void folder_of_cases(struct totals *t, const char *data, const char *folder) {
    char path[1000];
    struct dirent **names;
    snprintf(path, sizeof path, "%s/%s", data, folder);
    int n = scandir(path, &names, not_hidden, alphasort);
    for (int i = 0; i < n; i++) {
        one_case(t, path, names[i]->d_name);
        free(names[i]);
    }
    if (n >= 0) free(names);
}

static void made_cases(struct totals *t) {
    for (int i = 0; i < omit_made_count(); i++) {
        struct mo_dataset data;
        size_t n;
        char name[40];
        void *bytes = omit_made(t->env, i, &n, &data);
        const int before = t->passed + t->failed;
        snprintf(name, sizeof name, "made %d", i);
        one(t, name, bytes, n, &data);
        if (t->passed + t->failed == before) {
            printf("FAILED   %s: does not run as it is\n", name);
            t->failed++;
        }
        mo_dataset_close(&data);
        free(bytes);
    }
}

/* Their operands are sequences, which the package has in models of several nodes only
 * (tests/unit/control/test_sequences.c). */
static bool is_of_sequences(const char *op) {
    static const char *const ops[] = {"ConcatFromSequence", "Optional",       "SequenceAt",
                                      "SequenceConstruct",  "SequenceEmpty",  "SequenceErase",
                                      "SequenceLength",     "SplitToSequence"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (!strcmp(op, ops[i])) return true;
    return false;
}

static void unseen_operators(struct totals *t) {
    for (int i = 0; mo_op_at(i) && i < OPERATORS; i++) {
        if (*mo_op_at(i)->domain || t->seen[i] || is_of_sequences(mo_op_at(i)->name)) continue;
        printf("FAILED   no model of operator %s\n", mo_op_at(i)->name);
        t->failed++;
    }
}

int main(int argc, char **argv) {
    static const char *const folders[] = {"node", "pytorch-operator", "pytorch-converted", "simple"};
    struct mo_env env = mo_env_default();
    env.limits.loop_trips = 100; /* loops whose number of trips is left out end by it */
    struct totals t = {.env = &env};
    t.log.counts = &t.counts;
    t.log.verbose = argc > 1 && !strcmp(argv[1], "--verbose");
    if (argc != (t.log.verbose ? 4 : 3)) {
        fprintf(stderr, "usage: omit [--verbose] OPERANDS DATA\n");
        return 2;
    }
    struct omit_rules *rules = omit_rules_read(argv[argc - 2]);
    t.rules = rules;
    if (!rules) {
        fprintf(stderr, "omit: cannot read '%s'\n", argv[argc - 2]);
        return 1;
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        folder_of_cases(&t, argv[argc - 1], folders[i]);
    made_cases(&t);
    unseen_operators(&t);
    omit_rules_free(rules);
    printf("operands left out: %d models; %d changed ones refused, %d answered alike, %d declined\n",
           t.counts.models, t.counts.refused, t.counts.answered, t.counts.declined);
    printf("%d passed, %d failed, 0 skipped\n", t.passed, t.failed);
    return t.failed > 0;
}
