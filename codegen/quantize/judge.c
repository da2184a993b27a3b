/* SPDX-License-Identifier: Apache-2.0
 * judge.c - see judge.h. */
#include "codegen/quantize/judge.h"

#include <math.h>
#include <string.h>

static int64_t count_of(const moire_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->shape[i];
    return n;
}

static int keep_outputs(struct mo_judge *j, const struct mo_qprobe *probe, int sample, moire_error *err) {
    for (int i = 0; i < j->n_outputs; i++) {
        moire_tensor *want = &j->want[sample * j->n_outputs + i], got;
        mo_qprobe_output(probe, i, &got);
        if (got.dtype != MOIRE_F32 || !got.data) continue;
        size_t bytes = (size_t)count_of(&got) * sizeof(float);
        *want = got;
        want->data = mo_region_alloc(j->region, bytes + 1);
        if (!want->data) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
        memcpy(want->data, got.data, bytes);
    }
    return MOIRE_OK;
}

/* Samples lie by the page, the class or the day: those that are judged are taken from all over. */
static int judged(const struct mo_judge *j, int s) {
    return (int)((int64_t)s * j->samples->n / j->n);
}

int mo_judge_open(struct mo_edit *model, const struct mo_model_samples *samples, int most,
                  const struct mo_quantize_progress *progress, struct mo_judge *out) {
    uint8_t *bytes;
    size_t size;
    *out = (struct mo_judge){.env = model->env,
                             .samples = samples,
                             .region = mo_region_create(model->env),
                             .n_outputs = (int)model->graph->n_output,
                             .n = samples->n < most ? samples->n : most};
    if (!out->region) return mo_edit_fail(model, MOIRE_ENOMEM, "out of memory");
    out->want = mo_region_array(out->region, (size_t)out->n * (size_t)out->n_outputs + 1, sizeof *out->want);
    if (!out->want) return mo_edit_fail(model, MOIRE_ENOMEM, "out of memory");
    if (mo_edit_pack(model, &bytes, &size)) return model->rc;
    struct mo_qprobe probe = mo_qprobe_of(model->env, bytes, size);
    for (int s = 0; !model->rc && s < out->n; s++) {
        model->rc = mo_quantize_tell(progress, "running the model of floats", s, out->n, model->err);
        if (!model->rc) model->rc = mo_qprobe_run(&probe, samples, judged(out, s), model->err);
        if (!model->rc) model->rc = keep_outputs(out, &probe, s, model->err);
    }
    mo_qprobe_close(&probe);
    return model->rc;
}

void mo_judge_close(struct mo_judge *j) {
    mo_region_destroy(j->region);
    j->region = NULL;
}

/* Sums over all samples of one output. */
struct sums {
    double apart, want, got, both;
};

static void add(struct sums *s, const moire_tensor *want, const moire_tensor *got, int64_t n) {
    const float *a = want->data, *b = got->data;
    for (int64_t i = 0; i < n; i++) {
        const double x = (double)a[i], y = (double)b[i];
        s->apart += (x - y) * (x - y);
        s->want += x * x;
        s->got += y * y;
        s->both += x * y;
    }
}

static int64_t largest(const float *x, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

static void count_best(struct mo_closeness *c, const moire_tensor *want, const moire_tensor *got, int64_t n) {
    const int64_t row = want->rank > 0 ? want->shape[want->rank - 1] : 0;
    for (int64_t i = 0; row > 1 && i < n; i += row) {
        c->n_best++;
        c->n_same +=
            largest((const float *)want->data + i, row) == largest((const float *)got->data + i, row);
    }
}

static void conclude(const struct sums *s, struct mo_closeness *c) {
    const double error = s->want > 0 ? sqrt(s->apart / s->want) : s->apart > 0 ? INFINITY : 0;
    const double cosine = s->want > 0 && s->got > 0 ? s->both / sqrt(s->want * s->got) : error > 0 ? 0 : 1;
    c->error = isfinite(error) ? fmax(c->error, error) : INFINITY;
    c->cosine = fmin(c->cosine, cosine);
}

int mo_judge_model(const struct mo_judge *j, struct mo_edit *model, struct mo_closeness *out) {
    uint8_t *bytes;
    size_t size;
    *out = (struct mo_closeness){.cosine = 1};
    struct sums *sums = mo_edit_memory(model, ((size_t)j->n_outputs + 1) * sizeof *sums);
    if (!sums || mo_edit_pack(model, &bytes, &size)) return model->rc;
    struct mo_qprobe probe = mo_qprobe_of(j->env, bytes, size);
    for (int s = 0; !model->rc && s < j->n; s++) {
        model->rc = mo_qprobe_run(&probe, j->samples, judged(j, s), model->err);
        for (int i = 0; !model->rc && i < j->n_outputs; i++) {
            const moire_tensor *want = &j->want[s * j->n_outputs + i];
            moire_tensor got;
            mo_qprobe_output(&probe, i, &got);
            if (want->dtype != MOIRE_F32) continue;
            const int64_t n = count_of(want);
            if (got.dtype != MOIRE_F32 || !got.data || count_of(&got) != n) {
                out->error = INFINITY; /* a shape that depends on values */
                continue;
            }
            add(&sums[i], want, &got, n);
            count_best(out, want, &got, n);
        }
    }
    mo_qprobe_close(&probe);
    for (int i = 0; i < j->n_outputs; i++)
        conclude(&sums[i], out);
    return model->rc;
}
