/* SPDX-License-Identifier: Apache-2.0
 * model_load.c - makes a model of a file that was found, and frees it; see repository_impl.h. */
#include <stdlib.h>
#include <string.h>
#include "serve/batch/batcher.h"
#include "serve/pipeline/pipeline.h"
#include "serve/protocol/fault.h"
#include "serve/query/padding.h"
#include "serve/repository/repository_impl.h"

void ms_model_destroy(struct ms_model *m) {
    ms_batcher_close(m->batcher);
    ms_bindings_close(m);
    struct ms_repository *r = m->repository;
    pthread_mutex_lock(&r->lock);
    const bool last = m->tally && !--m->tally->holders;
    pthread_mutex_unlock(&r->lock);
    if (last) free(m->tally);
    moire_model_close(m->file);
    ms_ensemble_free(m->ensemble);
    if (m->fn) m->fn->close(m->fn_state);
    ms_settings_close(&m->settings);
    for (int i = 0; i < MS_PORTS; i++)
        ms_labels_close(&m->labels[i]);
    free(m);
}

struct ms_model *ms_model_blank(struct ms_repository *r) {
    struct ms_model *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    *m = (struct ms_model){.repository = r, .state = MS_UNAVAILABLE, .tally = calloc(1, sizeof *m->tally)};
    if (m->tally) {
        m->tally->holders = 1;
        return m;
    }
    free(m);
    return NULL;
}

static int read_ports(struct ms_model *m, moire_error *err) {
    m->n_inputs = moire_model_n_inputs(m->file);
    m->n_outputs = moire_model_n_outputs(m->file);
    if (m->n_inputs > MS_PORTS || m->n_outputs > MS_PORTS)
        return ms_fail(err, MOIRE_ELIMIT, "%.100s has more than %d inputs or outputs", m->found.name,
                       MS_PORTS);
    for (int i = 0; i < m->n_inputs; i++)
        moire_model_input(m->file, i, &m->input[i]);
    for (int i = 0; i < m->n_outputs; i++)
        moire_model_output(m->file, i, &m->output[i]);
    return MOIRE_OK;
}

/* They lie beside the folder of the version. */
static int read_labels(struct ms_model *m, moire_error *err) {
    char folder[MS_PATH];
    int rc = MOIRE_OK;
    memcpy(folder, m->found.path, sizeof folder);
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(folder, '/');
        if (!slash) return MOIRE_OK;
        *slash = 0;
    }
    for (int i = 0; i < m->n_outputs && !rc; i++)
        rc = ms_labels_open(folder, m->settings.config, m->output[i].name, &m->labels[i], err);
    return rc;
}

static bool has_open_batch(const struct ms_model *m) {
    for (int i = 0; i < m->n_inputs; i++)
        if (m->input[i].rank > 0 && m->input[i].shape[0] < 0) return true;
    return false;
}

/* Exporters leave out shapes of outputs; the tenant knows them, for a batch of one. */
static void learn_outputs(struct ms_model *m, moire_tenant *tenant) {
    for (int i = 0; i < m->n_outputs; i++) {
        moire_port known;
        if (m->output[i].rank >= 0 || moire_output(tenant, i, &known) || known.rank < 0) continue;
        m->output[i].rank = known.rank;
        memcpy(m->output[i].shape, known.shape, sizeof known.shape);
        if (known.rank && known.shape[0] == 1 && has_open_batch(m)) m->output[i].shape[0] = -1;
    }
}

/* Shapes with every open first dimension 1 and every other one `open`; false: a rank is open. */
static bool shapes_of(const struct ms_model *m, int64_t open, moire_shape shape[MS_PORTS]) {
    for (int i = 0; i < m->n_inputs; i++) {
        shape[i] = (moire_shape){.input = m->input[i].name, .rank = m->input[i].rank};
        if (m->input[i].rank < 0) return false;
        for (int k = 0; k < m->input[i].rank; k++)
            shape[i].shape[k] = m->input[i].shape[k] >= 0 ? m->input[i].shape[k] : k ? open : 1;
    }
    return true;
}

static bool has_open_inner(const struct ms_model *m) {
    for (int i = 0; i < m->n_inputs; i++)
        for (int k = 1; k < m->input[i].rank; k++)
            if (m->input[i].shape[k] < 0) return true;
    return false;
}

/* The model is loaded for one shape before it is ready, so that its weights are there for any other.  Where
 * more than first dimensions are open nobody knows which sizes it takes: a few usual ones are tried, and
 * where none fits, the first query loads it. */
static int warm(struct ms_model *m, moire_error *err) {
    static const int64_t usual[] = {128, 224, 32};
    const bool guess = has_open_inner(m);
    moire_shape shape[MS_PORTS];
    struct ms_binding *b = NULL;
    int rc = MOIRE_OK;
    for (size_t i = 0; i < sizeof usual / sizeof *usual && !b; i++) {
        if (!shapes_of(m, usual[i], shape)) return MOIRE_OK;
        rc = ms_binding_make(m, shape, false, &b, err);
        if (rc && (!guess || rc == MOIRE_ENOMEM)) return rc;
    }
    if (!b) return MOIRE_OK;
    if (!guess) learn_outputs(m, b->tenant);
    ms_binding_give(m, b);
    return MOIRE_OK;
}

static int open_batcher(struct ms_model *m, moire_error *err) {
    const char *why;
    if (!m->settings.batching.is_asked) return MOIRE_OK;
    if (ms_batcher_can(m, &why)) return ms_batcher_open(m, err);
    ms_say(m->repository, MOIRE_LOG_INFO, "model '%.100s': queries are not joined: %s", m->found.name, why);
    return MOIRE_OK;
}

/* Its ports are the configuration's. */
static int make_ensemble(struct ms_model *m, moire_error *err) {
    struct ms_faults quiet = {0}; /* the scan has said them, and then this is not called */
    int rc = ms_gate_open(m->repository, err);
    if (!rc) m->ensemble = ms_ensemble_read(m->settings.config, m->found.name, &quiet);
    if (!rc && !m->ensemble)
        rc = ms_fail(err, MOIRE_ENOMEM, "no memory for ensemble '%.100s'", m->found.name);
    if (rc || !m->ensemble) return rc;
    m->n_inputs = m->ensemble->n_inputs;
    m->n_outputs = m->ensemble->n_outputs;
    memcpy(m->input, m->ensemble->input, sizeof m->input);
    memcpy(m->output, m->ensemble->output, sizeof m->output);
    ms_ensemble_settle(m);
    return m->state == MS_READY ? MOIRE_OK : ms_fail(err, MOIRE_EUNLOADED, "%s", m->reason);
}

/* The scan has seen to it that there is such a function, and its file. */
static int make_function(struct ms_model *m, moire_error *err) {
    const struct ms_function *fn = ms_function_find(m->repository->options.source.functions, m->settings.fn);
    if (!fn) return ms_fail(err, MOIRE_EUNLOADED, "there is no function '%.100s'", m->settings.fn);
    int rc = ms_function_threads_open(m->repository, err);
    if (!rc) rc = fn->open(fn, fn->file ? m->found.path : NULL, &m->fn_state, err);
    if (rc) return rc;
    m->fn = fn;
    m->n_inputs = fn->n_inputs;
    m->n_outputs = fn->n_outputs;
    memcpy(m->input, fn->input, (size_t)fn->n_inputs * sizeof *fn->input);
    memcpy(m->output, fn->output, (size_t)fn->n_outputs * sizeof *fn->output);
    return MOIRE_OK;
}

static int make_file(struct ms_model *m, moire_error *err) {
    int rc = moire_model_open(m->found.path, &m->file, err);
    if (!rc) rc = read_ports(m, err);
    if (!rc) rc = read_labels(m, err);
    if (!rc) rc = warm(m, err);
    if (!rc) rc = ms_buckets_prepare(m, err);
    if (!rc) rc = open_batcher(m, err);
    return rc;
}

struct ms_model *ms_model_make(struct ms_repository *r, const struct ms_found *found,
                               const struct ms_settings *settings, moire_error *err) {
    struct ms_model *m = ms_model_blank(r);
    if (!m) return NULL;
    m->found = *found;
    m->settings = *settings;
    m->settings.config = json_deep_copy(settings->config);
    m->state = MS_LOADING;
    int rc = MOIRE_ENOMEM;
    if (m->settings.config)
        rc = found->is_ensemble   ? make_ensemble(m, err)
             : found->is_function ? make_function(m, err)
                                  : make_file(m, err);
    m->state = rc ? MS_UNAVAILABLE : MS_READY;
    if (rc) memcpy(m->reason, err->message, sizeof m->reason);
    return m;
}
