/* SPDX-License-Identifier: Apache-2.0
 * compile_all.c - see compile_all.h. */
#include "tools/moire/compile/compile_all.h"

#include <stdio.h>
#include <string.h>
#include "tools/moire/verb.h"

static const double LEAST_S = 0.5; /* with less of the budget a model is not begun */

static const struct {
    const char *key, *text;
} states[] = {
    [MO_ALL_DONE] = {"done", "done"},
    [MO_ALL_CUT] = {"budget", "the budget ended"},
    [MO_ALL_FAILED] = {"failed", "FAILED"},
    [MO_ALL_GONE] = {"gone", "its file is gone"},
    [MO_ALL_WAITING] = {"not reached", "not reached"},
};

double mo_all_share(double left_s, int models) {
    return models > 0 && left_s > 0 ? left_s / models : 0;
}

/* --- what is shown --- */
static int count(const struct mo_all_row *row, int n, enum mo_all_state state) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += row[i].state == state;
    return sum;
}

static int tuned_before(const struct mo_all_row *row, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += row[i].source->versions > 1;
    return sum;
}

void mo_all_print(FILE *to, const char *verb, const struct mo_all_row *row, int n, double seconds) {
    fprintf(to, "%-17s %8s %8s %8s %8s %9s  %s\n", "state", "compiled", "reused", "built-in", "left out",
            "seconds", "model");
    for (int i = 0; i < n; i++) {
        const struct mo_compile_totals *t = &row[i].totals;
        fprintf(to, "%-17s %8d %8d %8d %8d %9.1f  %s\n", states[row[i].state].text, t->compiled, t->reused,
                t->generic, t->failed + t->pending, row[i].seconds, row[i].source->path);
    }
    int gone = count(row, n, MO_ALL_GONE), done = count(row, n, MO_ALL_DONE),
        failed = count(row, n, MO_ALL_FAILED);
    int rest = n - gone - done - failed;
    fprintf(to, "\n%d of %d models done in %.1f s", done, n, seconds);
    if (failed) fprintf(to, ", %d failed", failed);
    if (rest) fprintf(to, ", %d not finished: run the command again to go on", rest);
    if (gone) fprintf(to, ", %d gone (`moire store clean` forgets them)", gone);
    fputc('\n', to);
    int tuned = strcmp(verb, "compile") ? 0 : tuned_before(row, n);
    if (tuned)
        fprintf(to, "%d of them had been tuned: `moire tune --all` makes their versions for pressure\n",
                tuned);
}

json_t *mo_all_json(const struct mo_all_row *row, int n, double seconds) {
    json_t *rows = json_array();
    for (int i = 0; i < n; i++) {
        const struct mo_compile_totals *t = &row[i].totals;
        json_t *one = json_pack("{ss ss sb si si si si si si sf}", "file", row[i].source->path, "state",
                                states[row[i].state].key, "published", row[i].published, "layers", t->layers,
                                "compiled", t->compiled, "reused", t->reused, "generic", t->generic, "failed",
                                t->failed, "pending", t->pending, "seconds", row[i].seconds);
        if (one && row[i].err.code) mo_failure_put(one, &row[i].err);
        json_array_append_new(rows, one);
    }
    return json_pack("{so sf}", "models", rows, "seconds", seconds);
}

/* --- one after the other --- */
static int run_model(const struct mo_compile_run *all, double budget_s, struct mo_all_row *row) {
    const struct mo_known_model *source = row->source;
    struct mo_compile_run run = *all;
    moire_shape shapes[MO_KNOWN_SHAPES];
    struct mo_finished finished = {0};
    const char *file = source->path;
    for (int i = 0; i < source->n_shapes; i++) {
        shapes[i] = (moire_shape){.input = source->shape[i].input, .rank = source->shape[i].rank};
        memcpy(shapes[i].shape, source->shape[i].d, sizeof shapes[i].shape);
    }
    run.compile.files = &file;
    run.compile.n_files = 1;
    run.compile.shapes = shapes;
    run.compile.n_shapes = source->n_shapes;
    run.compile.exact = source->exact;
    run.compile.search.budget_s = budget_s;
    if (run.compile.search.versions > 1 && run.compile.search.qos_ns <= 0)
        run.compile.search.qos_ns = source->qos_ns;
    run.model = &finished;
    int code;
    int rc = mo_compile_run(&run, &code, &row->err);
    if (rc) {
        code = (int)mo_exit_of(rc);
        fprintf(stderr, "moire %s: %s\n", run.verb, row->err.message);
    } else {
        row->err = run.trouble;
    }
    if (run.search) row->totals = mo_compile_totals(run.search);
    bool cut = finished.cut || row->totals.pending || code == MO_EXIT_INTERRUPTED;
    row->published = finished.published;
    row->seconds = run.shown.seconds;
    row->state = cut ? MO_ALL_CUT : code ? MO_ALL_FAILED : MO_ALL_DONE;
    mo_compile_run_close(&run);
    return code;
}

static int run_models(const struct mo_compile_run *all, struct mo_all_row *row, int n, int64_t began) {
    const double budget = all->compile.search.budget_s;
    int code = MO_EXIT_OK;
    for (int i = 0; i < n; i++) {
        double left = budget - (double)(mo_now(all->env) - began) * 1e-9;
        const char *path = row[i].source->path;
        if (!mo_known_is_there(all->env, row[i].source)) {
            row[i].state = MO_ALL_GONE;
            fprintf(stderr, "moire %s: [%d/%d] '%s' is gone: left out\n", all->verb, i + 1, n, path);
            continue;
        }
        if (atomic_load(all->interrupted) || (budget > 0 && left < LEAST_S)) continue;
        fprintf(stderr, "[%d/%d] %s\n", i + 1, n, path);
        int one = run_model(all, budget > 0 ? mo_all_share(left, n - i) : 0, &row[i]);
        if (one) code = one;
    }
    return atomic_load(all->interrupted) ? MO_EXIT_INTERRUPTED : code;
}

static int show(const struct mo_compile_run *all, const struct mo_options *o, const struct mo_all_row *row,
                int n, double seconds, moire_error *err) {
    if (!o->json) {
        mo_all_print(stdout, all->verb, row, n, seconds);
        return MOIRE_OK;
    }
    json_t *doc = mo_all_json(row, n, seconds);
    int rc = mo_print_json(doc, err);
    json_decref(doc);
    return rc;
}

int mo_compile_all(struct mo_compile_run *all, const struct mo_options *o) {
    const struct mo_env *env = all->env;
    const int64_t began = mo_now(env);
    struct mo_known_model *source;
    moire_error err = {0};
    int n, code = MO_EXIT_OK;
    int rc = mo_known_list(env, all->store, &source, &n, &err);
    if (!rc && !n)
        rc = mo_fail(&err, MOIRE_EIO,
                     "the store '%.300s' knows no models yet: `moire %s FILE.onnx` compiles one", all->store,
                     all->verb);
    struct mo_all_row *row = rc ? NULL : mo_alloc(env, (size_t)n * sizeof *row);
    if (!rc && !row) rc = mo_fail(&err, MOIRE_ENOMEM, "out of memory listing models");
    for (int i = 0; !rc && i < n; i++)
        row[i] = (struct mo_all_row){.source = &source[i], .state = MO_ALL_WAITING};
    if (!rc) code = run_models(all, row, n, began);
    if (!rc) rc = show(all, o, row, n, (double)(mo_now(env) - began) * 1e-9, &err);
    mo_free(env, row);
    mo_free(env, source);
    return rc ? mo_verb_fail(o, &err) : code;
}
