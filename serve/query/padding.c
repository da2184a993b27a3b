/* SPDX-License-Identifier: Apache-2.0
 * padding.c - see padding.h. */
#include "serve/query/padding.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "serve/protocol/fault.h"

/* --- the model --- */
static bool is_bucket(const struct ms_settings *s, int64_t size) {
    for (int i = 0; i < s->n_buckets; i++)
        if (s->bucket[i] == size) return true;
    return false;
}

int ms_binding_prove(const struct ms_model *m, struct ms_binding *b, moire_error *err) {
    const struct ms_settings *s = &m->settings;
    moire_error why = {0};
    const int64_t size =
        m->n_inputs && b->shape[0].rank > s->bucket_axis ? b->shape[0].shape[s->bucket_axis] : 0;
    if (!is_bucket(s, size) || size < 2) return MOIRE_OK; /* nothing is padded to it */
    const int rc = moire_model_positions_are_separate(m->file, b->shape, m->n_inputs, s->bucket_axis,
                                                      b->output_axis, &why);
    if (!rc) return MOIRE_OK;
    return ms_fail(err, rc, "model '%.100s' cannot have buckets along dimension %d: %.250s", m->found.name,
                   s->bucket_axis, why.message);
}

static int check_inputs(const struct ms_settings *s, const char *name, const moire_port *input, int n,
                        moire_error *err) {
    const int axis = s->bucket_axis;
    for (int i = 0; i < n; i++)
        if (input[i].rank <= axis || input[i].shape[axis] >= 0)
            return ms_fail(err, MOIRE_EUNSUPPORTED,
                           "model '%.100s' cannot have buckets: dimension %d of input '%.100s' is not open",
                           name, axis, input[i].name);
    return MOIRE_OK;
}

/* Inputs in bucket `size`.  Other open dimensions are 1 where they are the first, and else what models mostly
 * take.  Returns: whether that was needed. */
static bool bucket_shapes(const struct ms_settings *s, int64_t size, const moire_port *input, int n,
                          moire_shape *shape) {
    enum { USUAL = 16 };
    bool guessed = false;
    for (int i = 0; i < n; i++) {
        shape[i] = (moire_shape){.input = input[i].name, .rank = input[i].rank};
        for (int d = 0; d < input[i].rank; d++) {
            const int64_t has = input[i].shape[d];
            shape[i].shape[d] = d == s->bucket_axis ? size : has >= 0 ? has : d ? USUAL : 1;
            guessed = guessed || (d && d != s->bucket_axis && has < 0);
        }
    }
    return guessed;
}

/* Where the other dimensions cannot be what was guessed, a bucket is made ready by its first query. */
int ms_buckets_prepare(struct ms_model *m, moire_error *err) {
    const struct ms_settings *s = &m->settings;
    int rc = s->n_buckets ? check_inputs(s, m->found.name, m->input, m->n_inputs, err) : MOIRE_OK;
    for (int k = 0; k < s->n_buckets && !rc; k++) {
        moire_shape shape[MS_PORTS];
        struct ms_binding *b = NULL;
        const bool guessed = bucket_shapes(s, s->bucket[k], m->input, m->n_inputs, shape);
        rc = ms_binding_make(m, shape, false, &b, err);
        if (rc == MOIRE_ESHAPE && guessed) rc = MOIRE_OK;
        if (!rc && b) ms_binding_give(m, b);
    }
    return rc;
}

int ms_buckets_check(const struct ms_settings *s, const char *name, const moire_model *file,
                     moire_error *err) {
    moire_port input[MS_PORTS];
    moire_shape shape[MS_PORTS];
    int axis[MS_PORTS];
    moire_error why = {0};
    const int n = moire_model_n_inputs(file);
    if (!s->n_buckets) return MOIRE_OK;
    for (int i = 0; i < n; i++)
        moire_model_input(file, i, &input[i]);
    const int rc = check_inputs(s, name, input, n, err);
    const int64_t largest = s->bucket[s->n_buckets - 1];
    if (rc || largest < 2) return rc;
    bucket_shapes(s, largest, input, n, shape);
    if (moire_model_positions_are_separate(file, shape, n, s->bucket_axis, axis, &why) != MOIRE_EUNSUPPORTED)
        return MOIRE_OK;
    return ms_fail(err, MOIRE_EUNSUPPORTED, "%.300s", why.message);
}

/* --- a query --- */
/* Elements before and behind an axis, the latter in bytes. */
static void spans(const moire_tensor *t, int axis, size_t *before, size_t *bytes) {
    *before = 1;
    *bytes = ms_type_bytes(t->dtype);
    for (int i = 0; i < t->rank; i++)
        if (i < axis)
            *before *= (size_t)t->shape[i];
        else if (i > axis)
            *bytes *= (size_t)t->shape[i];
}

static void pad(const moire_tensor *from, int axis, moire_tensor *to) {
    size_t before, bytes;
    spans(from, axis, &before, &bytes);
    const size_t has = (size_t)from->shape[axis], wanted = (size_t)to->shape[axis];
    const char *in = from->data;
    char *out = to->data;
    for (size_t i = 0; i < before && bytes; i++, in += has * bytes) {
        memcpy(out, in, has * bytes);
        out += has * bytes;
        for (size_t k = has; k < wanted; k++, out += bytes)
            memcpy(out, in + (has - 1) * bytes, bytes);
    }
}

/* 0: the query stays as it is. */
static int64_t bucket_of(const struct ms_query *q) {
    const struct ms_settings *s = &q->model->settings;
    const int64_t size = q->ordered[0].shape[s->bucket_axis];
    for (int i = 0; i < q->model->n_inputs; i++)
        if (q->ordered[i].shape[s->bucket_axis] != size || size < 1) return 0;
    for (int i = 0; i < s->n_buckets; i++)
        if (s->bucket[i] >= size) return s->bucket[i] == size ? 0 : s->bucket[i];
    return 0;
}

int ms_query_pad(struct ms_query *q) {
    const struct ms_model *m = q->model;
    const int axis = m->settings.bucket_axis;
    const int64_t wanted = m->settings.n_buckets && m->n_inputs ? bucket_of(q) : 0;
    moire_tensor padded[MS_PORTS];
    size_t total = 0;
    if (!wanted) return MOIRE_OK;
    q->positions = q->ordered[0].shape[axis];
    q->padded_to = wanted;
    for (int i = 0; i < m->n_inputs; i++) {
        padded[i] = q->ordered[i];
        padded[i].shape[axis] = wanted;
        const int64_t n = ms_elements(&padded[i]);
        if (n < 0 || n > INT64_MAX / 64)
            return ms_fail(&q->error, MOIRE_ELIMIT, "an input is too large to pad");
        padded[i].bytes = (size_t)n * ms_type_bytes(padded[i].dtype);
        total += ms_aligned(padded[i].bytes);
    }
    char *at = q->padding = malloc(total + 1);
    if (!at) return ms_fail(&q->error, MOIRE_ENOMEM, "no memory to pad the inputs");
    for (int i = 0; i < m->n_inputs; i++) {
        padded[i].data = at;
        at += ms_aligned(padded[i].bytes);
        pad(&q->ordered[i], axis, &padded[i]);
        q->ordered[i] = padded[i];
        q->shapes[i].shape[axis] = wanted;
    }
    return MOIRE_OK;
}

int ms_query_cut(const struct ms_query *q, const moire_tensor *outputs, moire_tensor cut[MS_PORTS],
                 void **memory, moire_error *err) {
    const struct ms_model *m = q->model;
    size_t total = 0;
    for (int i = 0; i < m->n_outputs; i++)
        total += ms_aligned(outputs[i].bytes);
    char *at = *memory = malloc(total + 1);
    if (!at) return ms_fail(err, MOIRE_ENOMEM, "no memory for the answer");
    for (int i = 0; i < m->n_outputs; i++) {
        const int axis = q->binding->output_axis[i];
        if (axis >= outputs[i].rank || outputs[i].shape[axis] % q->padded_to)
            return ms_fail(err, MOIRE_ESHAPE, "output '%.100s' has no %" PRId64 " positions",
                           m->output[i].name, q->padded_to);
        size_t before, bytes;
        cut[i] = outputs[i];
        cut[i].shape[axis] = outputs[i].shape[axis] / q->padded_to * q->positions;
        spans(&outputs[i], axis, &before, &bytes);
        const size_t has = (size_t)outputs[i].shape[axis] * bytes, keeps = (size_t)cut[i].shape[axis] * bytes;
        cut[i].data = at;
        cut[i].bytes = before * keeps;
        for (size_t k = 0; k < before && keeps; k++, at += keeps)
            memcpy(at, (const char *)outputs[i].data + k * has, keeps);
        at = (char *)*memory + ms_aligned((size_t)(at - (char *)*memory));
    }
    return MOIRE_OK;
}
