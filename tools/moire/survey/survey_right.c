/* SPDX-License-Identifier: Apache-2.0
 * survey_right.c - whether a network's answers are right, by data that somebody else computed. */
#include <math.h>
#include <string.h>
#include "tools/moire/survey/survey.h"
#include "tools/moire/verify/ways.h"

/* The tensor `times` times, one after the other, in memory of the dataset's graph. */
static int repeat(struct mo_dataset *data, moire_tensor *t, int times, moire_error *err) {
    char *bytes = mo_region_alloc(data->store->region, t->bytes * (size_t)times + 1);
    if (!bytes) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a batch of %d", times);
    for (int k = 0; k < times; k++)
        memcpy(bytes + (size_t)k * t->bytes, t->data, t->bytes);
    t->data = bytes;
    t->bytes *= (size_t)times;
    t->shape[0] = times;
    return MOIRE_OK;
}

static int repeat_all(struct mo_dataset *data, moire_tensor *t, int n, int times, moire_error *err) {
    int code = MOIRE_OK;
    for (int i = 0; !code && i < n; i++) {
        if (t[i].dtype == MOIRE_NONE) continue;
        if (t[i].rank < 1 || t[i].shape[0] != 1)
            return mo_fail(err, MOIRE_EUNSUPPORTED, "its data is not of a batch of 1");
        code = repeat(data, &t[i], times, err);
    }
    return code;
}

int mo_survey_batch(struct mo_dataset *data, int batch, moire_error *err) {
    int code = MOIRE_OK;
    if (batch > 1) code = repeat_all(data, data->in, data->n_in, batch, err);
    if (!code && batch > 1) code = repeat_all(data, data->out, data->n_out, batch, err);
    for (int i = 0; !code && batch > 1 && i < data->n_in; i++)
        data->shape[i].shape[0] = batch;
    return code;
}

static double distance(const moire_tensor *want, const moire_tensor *got) {
    struct mo_difference d;
    const bool same = mo_tensors_agree(want, got, 1e-6, 0, &d);
    if (d.shape || !d.finite) return INFINITY;
    return same ? 0 : d.max_rel;
}

int mo_survey_check(const struct mo_env *env, const struct mo_survey_entry *entry,
                    const struct mo_dataset *data, const struct mo_frontend_options *front,
                    const struct mo_store *store, double *worst, moire_error *err) {
    const struct mo_way_target target = {
        .way = store ? MO_WAY_STORE : MO_WAY_PLAN, .isa = mo_isa_detect(), .store = store};
    moire_tensor got[MO_DATASET_PORTS];
    int n;
    const int code =
        mo_way_run(env, &target, entry->model, front, data->in, data->n_in, got, MO_DATASET_PORTS, &n, err);
    if (code) return code;
    *worst = 0;
    for (int i = 0; i < n && i < data->n_out; i++)
        if (data->out[i].dtype != MOIRE_NONE) *worst = fmax(*worst, distance(&data->out[i], &got[i]));
    mo_way_free(env, got, n);
    return MOIRE_OK;
}
