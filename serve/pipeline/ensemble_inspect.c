/* SPDX-License-Identifier: Apache-2.0
 * ensemble_inspect.c - checks an ensemble that lies in a folder, with what the files of its models say; see
 * ensemble.h. */
#include <stdlib.h>
#include <string.h>
#include "serve/pipeline/ensemble.h"
#include "serve/pipeline/functions.h"

struct inspection {
    const struct ms_source *from;
    const char *name;
    const struct ms_scan *scan;
    moire_model *file[MS_STEPS]; /* opened so far: ports point into them */
    struct ms_ensemble *within[MS_STEPS];
    json_t *config[MS_STEPS]; /* theirs */
    moire_port port[2][MS_PORTS];
    int n;
};

static const struct ms_found *found(const struct inspection *in, const struct ms_step *step) {
    for (int i = 0; i < in->scan->n; i++)
        if (!strcmp(in->scan->found[i].name, step->model) &&
            (!*step->version || !strcmp(in->scan->found[i].version, step->version)))
            return &in->scan->found[i];
    return NULL;
}

/* The configuration of an ensemble, the caller's; NULL: it has faults, which the scan of all has said. */
static struct ms_ensemble *read_again(const struct ms_source *from, const char *name, json_t **config,
                                      int64_t *batch) {
    struct ms_faults quiet = {0};
    struct ms_scan scan;
    struct ms_ensemble *e = NULL;
    if (ms_scan_open(from, name, &scan, &quiet, NULL)) return NULL;
    *config = json_incref(scan.settings.config);
    *batch = scan.settings.max_batch;
    if (!quiet.n) e = ms_ensemble_read(*config, name, &quiet);
    ms_scan_close(&scan);
    return e;
}

static bool ports_of_file(struct inspection *in, const struct ms_found *f, struct ms_ports *out) {
    moire_model **m = &in->file[in->n];
    struct ms_faults quiet = {0};
    struct ms_scan scan;
    if (!*f->path || moire_model_open(f->path, m, NULL)) return false; /* said of that model */
    out->n_inputs = moire_model_n_inputs(*m);
    out->n_outputs = moire_model_n_outputs(*m);
    if (out->n_inputs > MS_PORTS || out->n_outputs > MS_PORTS) return false;
    for (int i = 0; i < out->n_inputs; i++)
        moire_model_input(*m, i, &in->port[0][i]);
    for (int i = 0; i < out->n_outputs; i++)
        moire_model_output(*m, i, &in->port[1][i]);
    if (!ms_scan_open(in->from, f->name, &scan, &quiet, NULL)) {
        out->max_batch = scan.settings.max_batch;
        ms_scan_close(&scan);
    }
    return true;
}

static bool ports_of_ensemble(struct inspection *in, const struct ms_found *f, struct ms_ports *out) {
    struct ms_ensemble *e = in->within[in->n] =
        read_again(in->from, f->name, &in->config[in->n], &out->max_batch);
    if (!e) return false;
    out->n_inputs = e->n_inputs;
    out->n_outputs = e->n_outputs;
    memcpy(in->port[0], e->input, sizeof e->input);
    memcpy(in->port[1], e->output, sizeof e->output);
    return true;
}

static bool ports_of_function(const struct inspection *in, const struct ms_found *f, struct ms_ports *out) {
    struct ms_faults quiet = {0};
    struct ms_scan scan;
    if (ms_scan_open(in->from, f->name, &scan, &quiet, NULL)) return false;
    const struct ms_function *fn =
        scan.settings.fn ? ms_function_find(in->from->functions, scan.settings.fn) : NULL;
    ms_scan_close(&scan);
    if (fn) *out = (struct ms_ports){fn->input, fn->output, fn->n_inputs, fn->n_outputs, 0};
    return fn != NULL;
}

static bool find(void *user, const struct ms_step *step, struct ms_ports *out, struct ms_faults *faults) {
    struct inspection *in = user;
    const struct ms_found *f = found(in, step);
    if (!f) {
        ms_fault_say(faults, "%s: there is no model '%.100s'%s%.20s, which a step uses", in->name,
                     step->model, *step->version ? " of version " : "", step->version);
        return false;
    }
    *out = (struct ms_ports){.input = in->port[0], .output = in->port[1]};
    const bool known = f->is_ensemble   ? ports_of_ensemble(in, f, out)
                       : f->is_function ? ports_of_function(in, f, out)
                                        : ports_of_file(in, f, out);
    in->n++;
    return known;
}

/* How deep ensembles are nested from this one on; more than MS_NESTED: too deep, or in a circle. */
static int depth_of(const struct inspection *in, const struct ms_ensemble *e, int above) {
    int deepest = above;
    for (int i = 0; i < e->n_steps && deepest <= MS_NESTED; i++) {
        const struct ms_found *f = found(in, &e->step[i]);
        json_t *config = NULL;
        int64_t batch;
        struct ms_ensemble *inner =
            f && f->is_ensemble ? read_again(in->from, f->name, &config, &batch) : NULL;
        const int depth = inner ? depth_of(in, inner, above + 1) : above;
        if (depth > deepest) deepest = depth;
        ms_ensemble_free(inner);
        json_decref(config);
    }
    return deepest;
}

void ms_ensemble_inspect(const struct ms_source *from, const struct ms_scan *scan, const struct ms_found *f,
                         struct ms_faults *faults) {
    json_t *config = NULL;
    int64_t batch;
    struct ms_ensemble *e = read_again(from, f->name, &config, &batch);
    struct inspection *in = calloc(1, sizeof *in);
    if (e && in) {
        *in = (struct inspection){.from = from, .name = f->name, .scan = scan};
        ms_ensemble_check(e, f->name, find, in, faults);
        if (depth_of(in, e, 1) > MS_NESTED)
            ms_fault_say(faults, "%s: ensembles are nested deeper than %d, or in a circle", f->name,
                         MS_NESTED);
    }
    for (int i = 0; in && i < in->n; i++) {
        moire_model_close(in->file[i]);
        ms_ensemble_free(in->within[i]);
        json_decref(in->config[i]);
    }
    free(in);
    ms_ensemble_free(e);
    json_decref(config);
}
