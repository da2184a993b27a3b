/* SPDX-License-Identifier: Apache-2.0
 * kernel_window.c - kernels whose outputs see a window of the input: pooling, depthwise and any other
 * convolution, and transposed ones, over one to three spatial dimensions.
 *
 * A thread computes `wide` neighbouring channels of one pixel of the output; for pooling and depthwise
 * convolution that is one vector load a tap.  A convolution over many channels computes one output a thread:
 * it stands in for a library that is missing or refuses, and takes part when kernels are chosen by time. */
#include <stdio.h>
#include "runtime/gpu/lower/lower.h"

enum { THREADS = 128 };

/* Of the output's pixel, the tap, and the input's pixel that it reads, by spatial dimension. */
static const char *const pixel[] = {"od", "oh", "ow"}, *const tap[] = {"e", "h", "u"},
                         *const seen[] = {"id", "ih", "iw"};

struct form {
    const struct mo_window_job *job;
    int first;              /* spatial dimension that the text begins with: 1, of volumes 0 */
    int64_t wide, channels; /* of the output */
    const char *xt, *yt, *wt;
};

static bool sums_channels(const struct mo_window_job *job) {
    return job->kind == MO_WINDOW_CONV || job->kind == MO_WINDOW_TRANSPOSED;
}

/* Extent and stride of a view along a spatial dimension, which are the last of it. */
static int64_t extent(const struct mo_gpu_view *v, int i) {
    return v->d[v->rank - 3 + i];
}
static long long stride(const struct mo_gpu_view *v, int i) {
    return v->stride[v->rank - 3 + i];
}

static bool divides(const struct mo_gpu_view *v, int64_t wide) {
    bool fits = v->stride[1] == 1 && mo_gpu_has_vectors(v->dtype) &&
                v->place.offset % (wide * (int64_t)mo_dtype_bytes(v->dtype)) == 0;
    for (int i = 0; i < v->rank; i++)
        if (i != 1 && v->d[i] > 1 && v->stride[i] % wide) fits = false;
    return fits;
}

static int64_t width_of(const struct mo_window_job *job) {
    int64_t most = job->x.dtype == MOIRE_F32 ? 4 : 8;
    if (sums_channels(job) || job->x.dtype != job->y.dtype) return 1;
    for (int64_t wide = most; wide > 1; wide /= 2)
        if (job->y.d[1] % wide == 0 && divides(&job->x, wide) && divides(&job->y, wide) &&
            (!job->residual || divides(job->residual, wide)))
            return wide;
    return 1;
}

static void vector_type(struct mo_gpu_text *t, const char *type, int64_t wide) {
    if (wide > 1)
        mo_gpu_printf(t, "%s_%d", type, (int)wide);
    else
        mo_gpu_printf(t, "%s", type);
}

/* "const T_w name = *(const T_w *)(from);" */
static void load_vector(struct mo_gpu_text *t, const char *name, const char *type, int64_t wide,
                        const char *from) {
    mo_gpu_printf(t, "const ");
    vector_type(t, type, wide);
    mo_gpu_printf(t, " %s = *(const ", name);
    vector_type(t, type, wide);
    mo_gpu_printf(t, " *)(%s);\n", from);
}

static void lane(char out[24], const char *name, int64_t wide) {
    snprintf(out, 24, wide > 1 ? "%s.v[k]" : "%s", name);
}

/* The number of the tap, counted over all dimensions. */
static void tap_number(char out[64], const struct form *f) {
    const int64_t *k = f->job->window.k;
    if (f->first)
        snprintf(out, 64, "h * %lld + u", (long long)k[2]);
    else
        snprintf(out, 64, "(e * %lld + h) * %lld + u", (long long)k[1], (long long)k[2]);
}

/* Sums over the channels of the group.  Weights are [K][taps][C], of transposed ones [C][K][taps] as the
 * model has them, in each group. */
static void channels_text(struct mo_gpu_text *t, const struct form *f, const char *number) {
    const struct mo_window_job *job = f->job;
    const struct mo_window *w = &job->window;
    const long long depth = job->x.d[1] / job->groups, own = f->channels / job->groups,
                    taps = w->k[0] * w->k[1] * w->k[2];
    const bool turned = job->kind == MO_WINDOW_TRANSPOSED;
    char at[48];
    if (turned)
        mo_gpu_printf(t, "            const %s *q = w + (c / %lld * %lld + c %% %lld) * %lld + %s;\n", f->wt,
                      own, depth * own, own, taps, number);
    else
        mo_gpu_printf(t, "            const %s *q = w + ((long long)c * %lld + %s) * %lld;\n", f->wt, taps,
                      number, depth);
    mo_gpu_printf(t, "            for (int i = 0; i < %lld; i++)\n                a[0] += ", depth);
    snprintf(at, sizeof at, "p[i * %lld]", (long long)job->x.stride[1]);
    mo_gpu_get(t, job->x.dtype, at);
    mo_gpu_printf(t, " * ");
    snprintf(at, sizeof at, "q[i * %lld]", turned ? own * taps : 1);
    mo_gpu_get(t, job->x.dtype, at);
    mo_gpu_printf(t, ";\n");
}

/* What one tap adds to a[k], for the channels of the thread. */
static void tap_text(struct mo_gpu_text *t, const struct form *f) {
    const struct mo_window_job *job = f->job;
    char at[24], number[64];
    tap_number(number, f);
    if (sums_channels(job)) {
        channels_text(t, f, number);
        return;
    }
    mo_gpu_printf(t, "            ");
    load_vector(t, "v", f->xt, f->wide, "p");
    if (job->kind == MO_WINDOW_DEPTHWISE) {
        char from[128];
        snprintf(from, sizeof from, "w + (%s) * %lld + c", number, (long long)f->channels);
        mo_gpu_printf(t, "            ");
        load_vector(t, "q", f->wt, f->wide, from);
    }
    mo_gpu_printf(t, "            MO_UNROLL\n            for (int k = 0; k < %d; k++) a[k] = ", (int)f->wide);
    lane(at, "v", f->wide);
    mo_gpu_printf(t, job->kind == MO_WINDOW_MAX ? "mo_most(a[k], " : "a[k] + ");
    mo_gpu_get(t, job->x.dtype, at);
    if (job->kind == MO_WINDOW_MAX) mo_gpu_printf(t, ")");
    if (job->kind == MO_WINDOW_DEPTHWISE) {
        lane(at, "q", f->wide);
        mo_gpu_printf(t, " * ");
        mo_gpu_get(t, job->x.dtype, at);
    }
    mo_gpu_printf(t, ";\n");
}

/* Where a tap reads along dimension i; it is left out beyond the input. */
static void seen_text(struct mo_gpu_text *t, const struct mo_window_job *job, int i) {
    const struct mo_window *w = &job->window;
    if (job->kind == MO_WINDOW_TRANSPOSED) {
        mo_gpu_printf(t, "        const int %s = (%s + %lld - %s * %lld) / %lld;\n", seen[i], pixel[i],
                      (long long)w->pad[i], tap[i], (long long)w->dilation[i], (long long)w->stride[i]);
        mo_gpu_printf(t, "        if (%s * %lld != %s + %lld - %s * %lld) continue;\n", seen[i],
                      (long long)w->stride[i], pixel[i], (long long)w->pad[i], tap[i],
                      (long long)w->dilation[i]);
    } else {
        mo_gpu_printf(t, "        const int %s = %s * %lld - %lld + %s * %lld;\n", seen[i], pixel[i],
                      (long long)w->stride[i], (long long)w->pad[i], tap[i], (long long)w->dilation[i]);
    }
    mo_gpu_printf(t, "        if (%s < 0 || %s >= %lld) continue;\n", seen[i], seen[i],
                  (long long)extent(&job->x, i));
}

static void taps_text(struct mo_gpu_text *t, const struct form *f) {
    const struct mo_window_job *job = f->job;
    const struct mo_window *w = &job->window;
    for (int i = f->first; i < 3; i++) {
        mo_gpu_printf(t, "    %sfor (int %s = 0; %s < %lld; %s++) {\n", i == 2 ? "MO_UNROLL\n    " : "",
                      tap[i], tap[i], (long long)w->k[i], tap[i]);
        seen_text(t, job, i);
    }
    mo_gpu_printf(t, "            const %s *p = x", f->xt);
    for (int i = f->first; i < 3; i++)
        mo_gpu_printf(t, " + (long long)%s * %lld", seen[i], stride(&job->x, i));
    mo_gpu_printf(t, ";\n");
    tap_text(t, f);
    if (job->kind == MO_WINDOW_AVERAGE && !job->count_pads) mo_gpu_printf(t, "            seen++;\n");
    for (int i = f->first; i < 3; i++)
        mo_gpu_printf(t, "    }\n");
}

/* The number of taps that count: those inside the padded input. */
static void padded_count(struct mo_gpu_text *t, const struct form *f) {
    const struct mo_window *w = &f->job->window;
    mo_gpu_printf(t, "    seen = 1;\n");
    for (int i = f->first; i < 3; i++) {
        mo_gpu_printf(t, "    {\n        const int first = %s * %lld - %lld, end = %lld;\n", pixel[i],
                      (long long)w->stride[i], (long long)w->pad[i], (long long)w->in[i] + w->pad_end[i]);
        mo_gpu_printf(t, "        int n = (end - first + %lld) / %lld;\n", (long long)w->dilation[i] - 1,
                      (long long)w->dilation[i]);
        mo_gpu_printf(t, "        seen *= n < %lld ? n : %lld;\n    }\n", (long long)w->k[i],
                      (long long)w->k[i]);
    }
}

/* Turns a[k] into the outputs: bias, activation, residual. */
static void finish_text(struct mo_gpu_text *t, const struct form *f) {
    const struct mo_window_job *job = f->job;
    const struct mo_fuse *fuse = &job->fuse;
    char at[24];
    if (job->residual) {
        mo_gpu_printf(t, "    ");
        load_vector(t, "z", f->yt, f->wide, "res");
    }
    mo_gpu_printf(t, "    ");
    vector_type(t, f->yt, f->wide);
    mo_gpu_printf(t, " out;\n    MO_UNROLL\n    for (int k = 0; k < %d; k++) {\n        float r = a[k]%s;\n",
                  (int)f->wide, job->kind == MO_WINDOW_AVERAGE ? " / (float)seen" : "");
    if (job->bias.space != MO_GPU_NONE) mo_gpu_take(t, "+=", job->x.dtype, "b[c + k]");
    lane(at, "z", f->wide);
    for (int last = 0; last < 2; last++) {
        if (job->residual && fuse->residual_last == (last == 1)) mo_gpu_take(t, "+=", job->y.dtype, at);
        if (!last) mo_gpu_act_text(t, fuse->act, fuse->a, fuse->b);
    }
    lane(at, "out", f->wide);
    mo_gpu_printf(t, "        %s = ", at);
    mo_gpu_put(t, job->y.dtype, "r");
    mo_gpu_printf(t, ";\n    }\n    *(");
    vector_type(t, f->yt, f->wide);
    mo_gpu_printf(t, " *)y = out;\n}\n");
}

static void arguments_text(struct mo_gpu_text *t, const struct form *f, struct mo_gpu_launch *out) {
    const struct mo_window_job *job = f->job;
    mo_gpu_printf(t, "(const %s *x", f->xt);
    out->args[out->n_args++] = job->x.place;
    if (job->kind >= MO_WINDOW_DEPTHWISE) {
        mo_gpu_printf(t, ", const %s *w", f->wt);
        out->args[out->n_args++] = job->weights;
    }
    if (job->bias.space != MO_GPU_NONE) {
        mo_gpu_printf(t, ", const %s *b", f->wt);
        out->args[out->n_args++] = job->bias;
    }
    if (job->residual) {
        mo_gpu_printf(t, ", const %s *res", f->yt);
        out->args[out->n_args++] = job->residual->place;
    }
    mo_gpu_printf(t, ", %s *y) {\n", f->yt);
    out->args[out->n_args++] = job->y.place;
}

static void pixel_offset(struct mo_gpu_text *t, const char *name, const struct form *f,
                         const struct mo_gpu_view *v) {
    mo_gpu_printf(t, "    %s += (long long)n * %lld", name, (long long)v->stride[0]);
    for (int i = f->first; i < 3; i++)
        mo_gpu_printf(t, " + (long long)%s * %lld", pixel[i], stride(v, i));
    mo_gpu_printf(t, " + (long long)c * %lld;\n", (long long)v->stride[1]);
}

static void indices_text(struct mo_gpu_text *t, const struct form *f, int64_t count) {
    const struct mo_window_job *job = f->job;
    mo_gpu_printf(t, "    mo_index t = (mo_index)blockIdx.x * %du + threadIdx.x;\n", THREADS);
    mo_gpu_printf(t, "    if (t >= %lluu) return;\n", (unsigned long long)count);
    mo_gpu_printf(t, "    const int c = (int)(t %% %lldu) * %lld;\n    t /= %lldu;\n",
                  (long long)(f->channels / f->wide), (long long)f->wide, (long long)(f->channels / f->wide));
    for (int i = 2; i >= f->first; i--)
        mo_gpu_printf(t, "    const int %s = (int)(t %% %lldu);\n    t /= %lldu;\n", pixel[i],
                      (long long)extent(&job->y, i), (long long)extent(&job->y, i));
    mo_gpu_printf(t, "    const int n = (int)t;\n    x += (long long)n * %lld + (long long)",
                  (long long)job->x.stride[0]);
    if (sums_channels(job)) /* the first channel of the group */
        mo_gpu_printf(t, "(c / %lld) * %lld;\n", (long long)(f->channels / job->groups),
                      (long long)job->x.d[1] / job->groups * job->x.stride[1]);
    else
        mo_gpu_printf(t, "c * %lld;\n", (long long)job->x.stride[1]);
    pixel_offset(t, "y", f, &job->y);
    if (job->residual) pixel_offset(t, "res", f, job->residual);
}

void mo_lower_window(struct mo_lower *l, const struct mo_window_job *job, struct mo_gpu_launch *out) {
    *out = (struct mo_gpu_launch){.kernel = -1};
    if (l->rc) return;
    struct mo_gpu_text t = {.env = l->env};
    struct form f = {.job = job,
                     .first = job->y.rank == 5 ? 0 : 1,
                     .wide = width_of(job),
                     .channels = job->y.d[1],
                     .xt = mo_gpu_memory_type(job->x.dtype),
                     .yt = mo_gpu_memory_type(job->y.dtype)};
    f.wt = f.xt;
    int64_t count = mo_gpu_count(&job->y) / f.wide;
    arguments_text(&t, &f, out);
    indices_text(&t, &f, count);
    mo_gpu_printf(&t, "    int seen = 0;\n    (void)seen;\n    float a[%d];\n", (int)f.wide);
    mo_gpu_printf(&t, "    MO_UNROLL\n    for (int k = 0; k < %d; k++) a[k] = %s;\n", (int)f.wide,
                  job->kind == MO_WINDOW_MAX ? "-mo_inf" : "0");
    taps_text(&t, &f);
    if (job->kind == MO_WINDOW_AVERAGE && job->count_pads) padded_count(&t, &f);
    finish_text(&t, &f);
    out->kernel = mo_lower_kernel(l, &t, (count + THREADS - 1) / THREADS, 1, 1, THREADS);
}
