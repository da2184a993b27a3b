/* SPDX-License-Identifier: Apache-2.0
 * weights.c - constants in the form that the device reads. */
#include <string.h>
#include "runtime/base/numbers.h"
#include "runtime/base/sum.h"
#include "runtime/gpu/lower/lower.h"

/* Index in the constant of element `i` of the form. */
static int64_t source_index(enum mo_gpu_form_kind form, const struct mo_shape *s, int64_t i) {
    const int64_t *d = s->d;
    const int64_t taps = s->rank > 2 ? mo_extent(s, 2, s->rank) : 1;
    switch (form) {
    case MO_FORM_KRSC: /* ((k taps) + tap) C + c */
        return i / (taps * d[1]) * taps * d[1] + i % d[1] * taps + i / d[1] % taps;
    case MO_FORM_RSK: /* tap K + k */
        return i % d[0] * taps + i / d[0];
    default:
        return i;
    }
}

static void convert(const struct mo_tensor *t, enum mo_gpu_form_kind form, moire_dtype dtype, void *out,
                    int64_t n) {
    struct mo_value from = {.dtype = t->dtype, .shape = t->shape, .data = t->data},
                    to = {.dtype = dtype, .shape = t->shape, .data = out};
    bool direct = t->dtype == dtype;
    size_t size = mo_dtype_bytes(dtype);
    if (direct && form == MO_FORM_AS_IS) {
        memcpy(out, t->data, (size_t)n * size);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t at = source_index(form, &t->shape, i);
        if (direct && size == sizeof(float))
            ((float *)out)[i] = ((const float *)t->data)[at];
        else if (dtype == MOIRE_F16 && t->dtype == MOIRE_F32)
            ((uint16_t *)out)[i] = mo_float_to_half(((const float *)t->data)[at]);
        else
            mo_store(&to, i, mo_load(&from, at));
    }
}

/* Room for n numbers, zero behind them up to a whole stripe of the sum. */
static void *take_room(struct mo_lower *l, moire_dtype dtype, int64_t n) {
    const int64_t bytes = n * (int64_t)mo_dtype_bytes(dtype);
    if (n < 1 || !bytes)
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "a constant without numbers is not supported on a GPU");
    void *data = l->rc ? NULL : mo_region_alloc(l->program->region, (size_t)(bytes + MO_SUM_STRIPE));
    if (!data && !l->rc) mo_lower_fail(l, MOIRE_ENOMEM, "out of memory");
    return data;
}

/* A weight of what take_room() gave; its index. */
static int add_weight(struct mo_lower *l, moire_dtype dtype, int64_t n, const void *data) {
    struct mo_gpu_program *p = l->program;
    const int64_t bytes = n * (int64_t)mo_dtype_bytes(dtype);
    const int64_t room = (bytes + MO_SUM_STRIPE) / MO_SUM_STRIPE * MO_SUM_STRIPE;
    if (!data || !mo_lower_grow(l, &p->weights, p->n_weights, &l->cap_weights, sizeof *p->weights)) return -1;
    struct mo_sum sum;
    mo_sum_init(&sum);
    mo_sum_add(&sum, data, (size_t)room);
    struct mo_gpu_weight *w = &p->weights[p->n_weights];
    *w = (struct mo_gpu_weight){.dtype = dtype, .bytes = bytes, .data = data};
    for (int i = 0; i < MO_SUM_LANES; i++)
        w->sum = mo_sum_step(w->sum, (const unsigned char *)&sum.lane[i]);
    p->weight_bytes += bytes;
    return p->n_weights++;
}

static struct mo_gpu_view view_of(const struct mo_tensor *t, int weight, moire_dtype dtype) {
    struct mo_gpu_view v = {
        .place = {.space = MO_GPU_WEIGHT, .index = weight}, .dtype = dtype, .rank = t->shape.rank};
    memcpy(v.d, t->shape.d, sizeof v.d);
    mo_strides(&t->shape, v.stride);
    return v;
}

struct mo_gpu_view mo_lower_weight(struct mo_lower *l, int tensor, enum mo_gpu_form_kind form,
                                   moire_dtype dtype) {
    const struct mo_tensor *t = l->graph->tensors[tensor];
    for (int i = 0; i < l->n_forms; i++)
        if (l->forms[i].tensor == tensor && l->forms[i].form == (int)form && l->forms[i].dtype == dtype)
            return view_of(t, l->forms[i].weight, dtype);
    int weight = -1;
    int64_t n = mo_shape_count(&t->shape);
    void *data = take_room(l, dtype, n);
    if (data && mo_lower_grow(l, &l->forms, l->n_forms, &l->cap_forms, sizeof *l->forms)) {
        convert(t, form, dtype, data, n);
        weight = add_weight(l, dtype, n, data);
    }
    if (l->rc) return (struct mo_gpu_view){.rank = -1};
    l->forms[l->n_forms++] =
        (struct mo_gpu_form){.tensor = tensor, .form = (int)form, .weight = weight, .dtype = dtype};
    return view_of(t, weight, dtype);
}

struct mo_gpu_view mo_lower_numbers(struct mo_lower *l, moire_dtype dtype, int64_t n, const void *numbers) {
    void *data = take_room(l, dtype, n);
    if (data) memcpy(data, numbers, (size_t)n * mo_dtype_bytes(dtype));
    const int weight = add_weight(l, dtype, n, data);
    if (l->rc) return (struct mo_gpu_view){.rank = -1};
    return (struct mo_gpu_view){.place = {.space = MO_GPU_WEIGHT, .index = weight},
                                .dtype = dtype,
                                .rank = 1,
                                .d = {n},
                                .stride = {1}};
}
