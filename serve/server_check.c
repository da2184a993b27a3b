/* SPDX-License-Identifier: Apache-2.0
 * server_check.c - `moire serve --check`: every fault of a repository, without serving it; see server.h. */
#include <string.h>
#include "serve/pipeline/ensemble.h"
#include "serve/pipeline/functions.h"
#include "serve/protocol/kserve.h"
#include "serve/query/padding.h"
#include "serve/server.h"

struct report {
    FILE *out;
};

static void say(void *user, bool fault, const char *line) {
    const struct report *r = user;
    fprintf(r->out, "%s: %s\n", fault ? "fault" : "note", line);
}

static void print_port(FILE *out, const char *what, const moire_port *p) {
    const char *type = ms_type_name(p->dtype);
    fprintf(out, "  %s %s %s [", what, p->name, type ? type : "?");
    for (int i = 0; i < p->rank; i++)
        fprintf(out, "%s%lld", i ? "," : "", (long long)p->shape[i]);
    fprintf(out, "%s]\n", p->rank < 0 ? "any rank" : "");
}

/* Whether queries of the model can be joined, tried with two; what else is open in a shape counts as this. */
enum { SOME = 16 };
static void check_batching(const struct ms_found *f, const moire_model *m, FILE *out) {
    moire_shape shape[MS_PORTS];
    moire_port p;
    moire_error err = {0};
    const int n = moire_model_n_inputs(m);
    for (int i = 0; i < n && i < MS_PORTS && !moire_model_input(m, i, &p); i++) {
        shape[i] = (moire_shape){.input = p.name, .rank = p.rank};
        if (p.rank < 1 || p.shape[0] >= 0) {
            fprintf(out, "note: %s: queries are not joined: input '%.100s' has no open first dimension\n",
                    f->name, p.name);
            return;
        }
        for (int k = 0; k < p.rank; k++)
            shape[i].shape[k] = !k ? 2 : p.shape[k] < 0 ? SOME : p.shape[k];
    }
    if (moire_model_rows_are_separate(m, shape, n, &err))
        fprintf(out, "note: %s: queries are not joined: %s\n", f->name, err.message);
}

static void print_settings(const struct ms_settings *s, FILE *out) {
    fprintf(out, "  %s", s->cls == MOIRE_BEST_EFFORT ? "best-effort" : "latency-critical");
    if (s->qos_ns) fprintf(out, ", target %g ms", (double)s->qos_ns * 1e-6);
    if (s->priority) fprintf(out, ", priority %d", s->priority);
    if (s->weight != 1) fprintf(out, ", weight %g", s->weight);
    if (s->cores) fprintf(out, ", at most %d cores", s->cores);
    fputc('\n', out);
}

/* Prints what a model's configuration asks for; whether that is to join queries. */
static bool check_settings(const struct ms_source *from, const struct ms_found *f, FILE *out) {
    struct ms_faults quiet = {0};
    struct ms_scan own;
    if (ms_scan_open(from, f->name, &own, &quiet, NULL)) return false;
    const bool is_asked = own.settings.batching.is_asked && own.settings.max_batch > 1;
    print_settings(&own.settings, out);
    ms_scan_close(&own);
    return is_asked;
}

static void check_buckets(const struct ms_source *from, const struct ms_found *f, const moire_model *m,
                          struct ms_faults *faults) {
    struct ms_faults quiet = {0};
    struct ms_scan own;
    moire_error err = {0};
    if (ms_scan_open(from, f->name, &own, &quiet, NULL)) return;
    if (ms_buckets_check(&own.settings, f->name, m, &err))
        ms_fault_say(faults, "%s: buckets: %s", f->name, err.message);
    ms_scan_close(&own);
}

static void check_ensemble(const struct ms_source *from, const struct ms_scan *scan, const struct ms_found *f,
                           FILE *out, struct ms_faults *faults) {
    const int before = faults->n;
    ms_ensemble_inspect(from, scan, f, faults);
    if (faults->n == before) fprintf(out, "%s, version %s: an ensemble\n", f->name, f->version);
}

static void check_function(const struct ms_source *from, const struct ms_found *f, FILE *out,
                           struct ms_faults *faults) {
    struct ms_faults quiet = {0};
    struct ms_scan own;
    moire_error err = {0};
    void *state = NULL;
    if (ms_scan_open(from, f->name, &own, &quiet, NULL)) return;
    const struct ms_function *fn =
        quiet.n || !own.settings.fn ? NULL : ms_function_find(from->functions, own.settings.fn);
    if (fn && fn->open(fn, fn->file ? f->path : NULL, &state, &err)) {
        ms_fault_say(faults, "%s: %s", f->name, err.message);
    } else if (fn) {
        fn->close(state);
        fprintf(out, "%s, version %s: function %s\n", f->name, f->version, fn->name);
        for (int i = 0; i < fn->n_inputs; i++)
            print_port(out, "input ", &fn->input[i]);
        for (int i = 0; i < fn->n_outputs; i++)
            print_port(out, "output", &fn->output[i]);
    }
    ms_scan_close(&own);
}

static void check_model(const struct ms_source *from, const struct ms_found *f, FILE *out,
                        struct ms_faults *faults) {
    moire_model *m;
    moire_error err = {0};
    moire_port p;
    if (!*f->path) return; /* the scan has said why */
    if (moire_model_open(f->path, &m, &err)) {
        ms_fault_say(faults, "%s: %s", f->name, err.message);
        return;
    }
    fprintf(out, "%s, version %s: %s\n", f->name, f->version, f->path);
    const bool joins = check_settings(from, f, out);
    for (int i = 0; i < moire_model_n_inputs(m); i++)
        if (!moire_model_input(m, i, &p)) print_port(out, "input ", &p);
    for (int i = 0; i < moire_model_n_outputs(m); i++)
        if (!moire_model_output(m, i, &p)) print_port(out, "output", &p);
    if (moire_model_n_inputs(m) > MS_PORTS || moire_model_n_outputs(m) > MS_PORTS)
        ms_fault_say(faults, "%s: more than %d inputs or outputs", f->name, MS_PORTS);
    else if (joins)
        check_batching(f, m, out);
    else
        check_buckets(from, f, m, faults);
    moire_model_close(m);
}

int ms_server_check(const struct ms_source *from, FILE *out, int *n_faults, moire_error *err) {
    struct report report = {.out = out};
    struct ms_faults faults = {.say = say, .user = &report};
    struct ms_scan scan;
    const int rc = ms_scan_open(from, NULL, &scan, &faults, err);
    if (rc) return rc;
    for (int i = 0; i < scan.n; i++)
        if (scan.found[i].is_ensemble)
            check_ensemble(from, &scan, &scan.found[i], out, &faults);
        else if (scan.found[i].is_function)
            check_function(from, &scan.found[i], out, &faults);
        else
            check_model(from, &scan.found[i], out, &faults);
    if (!scan.n && !faults.n)
        ms_fault_say(&faults, "%s has no model", from->folder ? from->folder : "the configuration");
    fprintf(out, "%d models and versions, %d faults\n", scan.n, faults.n);
    *n_faults = faults.n;
    ms_scan_close(&scan);
    return MOIRE_OK;
}
