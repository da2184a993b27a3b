/* SPDX-License-Identifier: Apache-2.0
 * kernel_elementwise.c - kernels that compute every element of the output on its own, from views with any
 * strides.
 *
 * A thread takes `wide` neighbouring elements of the innermost dimension; dimensions that all operands walk
 * alike are joined first, so that most kernels divide not at all or once.  Statements of the body see values
 * x0, x1, ... and set r. */
#include <stdio.h>
#include "runtime/gpu/lower/lower.h"

enum { THREADS = 256 };

/* The output's dimensions in memory order, joined, and the strides of everything along them. */
struct loops {
    int n, n_views;
    int64_t d[MO_VIEW_RANK], stride[MO_ELEMENTWISE_INPUTS + 1][MO_VIEW_RANK]; /* the output's is the last */
    int64_t wide;
};

void mo_elementwise_init(struct mo_lower *l, struct mo_elementwise *p, struct mo_gpu_view out) {
    *p = (struct mo_elementwise){.out = out, .type = "float", .body = {.env = l->env}};
    p->flops = out.rank < 0 ? 0 : mo_gpu_count(&out);
}

void mo_elementwise_in(struct mo_elementwise *p, const struct mo_gpu_view *v) {
    if (v->rank >= 0 && p->out.rank >= 0 && p->n < MO_ELEMENTWISE_INPUTS)
        p->in[p->n++] = mo_gpu_broadcast(v, p->out.rank, p->out.d);
}

static bool joins(const struct loops *s, int outer, const int64_t *inner, int64_t extent) {
    for (int v = 0; v < s->n_views; v++)
        if (s->stride[v][outer] != inner[v] * extent) return false;
    return true;
}

static void add_dim(struct loops *s, const struct mo_elementwise *p, int dim) {
    int64_t own[MO_ELEMENTWISE_INPUTS + 1], d = p->out.d[dim];
    for (int v = 0; v < p->n; v++)
        own[v] = p->in[v].stride[dim];
    own[p->n] = p->out.stride[dim];
    if (d == 1) return;
    bool join = s->n > 0 && joins(s, s->n - 1, own, d);
    int at = join ? s->n - 1 : s->n++;
    s->d[at] = join ? s->d[at] * d : d;
    for (int v = 0; v <= p->n; v++)
        s->stride[v][at] = own[v];
}

/* Whether view v can be read `wide` elements at a time. */
static bool takes(const struct loops *s, int v, const struct mo_gpu_view *view, int64_t wide) {
    int last = s->n - 1;
    if (s->stride[v][last] == 0) return true;
    if (s->stride[v][last] != 1 || !mo_gpu_has_vectors(view->dtype)) return false;
    for (int i = 0; i < last; i++)
        if (s->stride[v][i] % wide) return false;
    return view->place.offset % (wide * (int64_t)mo_dtype_bytes(view->dtype)) == 0;
}

static void plan_loops(const struct mo_elementwise *p, struct loops *s) {
    int order[MO_VIEW_RANK];
    *s = (struct loops){.n_views = p->n + 1, .wide = 1};
    mo_gpu_order_of(&p->out, order);
    for (int k = 0; k < p->out.rank; k++)
        add_dim(s, p, order[k]);
    if (!s->n) s->d[s->n++] = 1;
    int64_t most = p->out.dtype == MOIRE_F32 ? 4 : 8;
    if (s->stride[p->n][s->n - 1] != 1) return;
    for (int64_t wide = most; wide > 1 && s->wide == 1; wide /= 2) {
        bool all = s->d[s->n - 1] % wide == 0 && takes(s, p->n, &p->out, wide);
        for (int v = 0; v < p->n && all; v++)
            all = takes(s, v, &p->in[v], wide);
        if (all) s->wide = wide;
    }
}

void mo_gpu_take_apart(struct mo_gpu_text *t, const int64_t *d, int n, int64_t inner) {
    for (int i = n - 1; i > 0; i--) {
        int64_t extent = i == n - 1 ? d[i] / inner : d[i];
        mo_gpu_printf(t, "    mo_index i%d = t %% %lluu; t /= %lluu;\n", i, (unsigned long long)extent,
                      (unsigned long long)extent);
    }
    mo_gpu_printf(t, "    mo_index i0 = t;\n");
}

/* "name += i0 * s0 + ...", with the innermost index counted in groups. */
static void advance(struct mo_gpu_text *t, const char *name, const struct loops *s, int v) {
    bool any = false;
    for (int i = 0; i < s->n; i++) {
        int64_t step = s->stride[v][i] * (i == s->n - 1 ? s->wide : 1);
        if (!step) continue;
        if (!any) mo_gpu_printf(t, "    %s +=", name);
        mo_gpu_printf(t, "%s (long long)i%d * %lld", any ? " +" : "", i, (long long)step);
        any = true;
    }
    if (any) mo_gpu_printf(t, ";\n");
}

static void load_all(struct mo_gpu_text *t, const struct mo_elementwise *p, const struct loops *s) {
    char at[48];
    for (int v = 0; v < p->n; v++) {
        bool along = s->stride[v][s->n - 1] != 0 && s->wide > 1;
        snprintf(at, sizeof at, along ? "v%d.v[k]" : "*a%d", v);
        mo_gpu_printf(t, "    const %s x%d = ", mo_gpu_value_type(p->in[v].dtype), v);
        mo_gpu_get(t, p->in[v].dtype, at);
        mo_gpu_printf(t, ";\n");
    }
}

static void body(struct mo_gpu_text *t, const struct mo_elementwise *p, const struct loops *s) {
    const char *out = mo_gpu_memory_type(p->out.dtype);
    bool many = s->wide > 1;
    for (int v = 0; many && v < p->n; v++) {
        const char *type = mo_gpu_memory_type(p->in[v].dtype);
        if (s->stride[v][s->n - 1])
            mo_gpu_printf(t, "    const %s_%d v%d = *(const %s_%d *)a%d;\n", type, (int)s->wide, v, type,
                          (int)s->wide, v);
    }
    if (many)
        mo_gpu_printf(t, "    %s_%d w;\n    MO_UNROLL\n    for (int k = 0; k < %d; k++) {\n", out,
                      (int)s->wide, (int)s->wide);
    load_all(t, p, s);
    mo_gpu_printf(t, "    %s r;\n%s    %s = ", p->type, p->body.at, many ? "w.v[k]" : "*y");
    mo_gpu_put(t, p->out.dtype, "r");
    mo_gpu_printf(t, ";\n");
    if (many) mo_gpu_printf(t, "    }\n    *(%s_%d *)y = w;\n", out, (int)s->wide);
}

static void kernel_text(struct mo_gpu_text *t, const struct mo_elementwise *p, const struct loops *s,
                        int64_t count) {
    char name[16];
    mo_gpu_printf(t, "(");
    for (int v = 0; v < p->n; v++)
        mo_gpu_printf(t, "const %s *a%d, ", mo_gpu_memory_type(p->in[v].dtype), v);
    mo_gpu_printf(t, "%s *y) {\n", mo_gpu_memory_type(p->out.dtype));
    mo_gpu_printf(t, "    mo_index t = (mo_index)blockIdx.x * %du + threadIdx.x;\n", THREADS);
    mo_gpu_printf(t, "    if (t >= %lluu) return;\n", (unsigned long long)count);
    mo_gpu_take_apart(t, s->d, s->n, s->wide);
    for (int v = 0; v < p->n; v++) {
        snprintf(name, sizeof name, "a%d", v);
        advance(t, name, s, v);
    }
    advance(t, "y", s, p->n);
    body(t, p, s);
    mo_gpu_printf(t, "}\n");
}

static bool known_types(struct mo_lower *l, const struct mo_elementwise *p) {
    for (int v = 0; v <= p->n; v++) {
        moire_dtype dtype = v < p->n ? p->in[v].dtype : p->out.dtype;
        if (mo_gpu_memory_type(dtype)) continue;
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "type %s is not supported on a GPU", mo_dtype_name(dtype));
        return false;
    }
    return true;
}

void mo_elementwise_done(struct mo_lower *l, struct mo_elementwise *p) {
    struct loops s;
    struct mo_gpu_text text = {.env = l->env};
    struct mo_gpu_place args[MO_ELEMENTWISE_INPUTS + 1];
    if (p->body.failed) mo_lower_fail(l, MOIRE_ENOMEM, "out of memory");
    if (!l->rc && known_types(l, p)) {
        plan_loops(p, &s);
        int64_t count = mo_gpu_count(&p->out) / s.wide;
        kernel_text(&text, p, &s, count);
        for (int v = 0; v < p->n; v++)
            args[v] = p->in[v].place;
        args[p->n] = p->out.place;
        int kernel = mo_lower_kernel(l, &text, (count + THREADS - 1) / THREADS, 1, 1, THREADS);
        mo_lower_launch(l, kernel, args, p->n + 1, p->flops);
    }
    mo_gpu_text_free(&p->body);
}

void mo_lower_copy(struct mo_lower *l, const struct mo_gpu_view *v, const struct mo_gpu_view *out) {
    struct mo_elementwise p;
    mo_elementwise_init(l, &p, *out);
    if (v->rank >= 0) p.type = mo_gpu_value_type(v->dtype);
    p.flops = 0;
    mo_elementwise_in(&p, v);
    mo_gpu_printf(&p.body, "    r = x0;\n");
    mo_elementwise_done(l, &p);
}

void mo_lower_epilogue(struct mo_lower *l, const struct mo_gpu_view *v, const struct mo_gpu_view *residual,
                       const struct mo_fuse *fuse, const struct mo_gpu_view *out) {
    struct mo_elementwise p;
    mo_elementwise_init(l, &p, *out);
    mo_elementwise_in(&p, v);
    if (residual) mo_elementwise_in(&p, residual);
    mo_gpu_printf(&p.body, residual && !fuse->residual_last ? "    r = x0 + x1;\n    " : "    r = x0;\n    ");
    mo_gpu_act_text(&p.body, fuse->act, fuse->a, fuse->b);
    if (residual && fuse->residual_last) mo_gpu_printf(&p.body, "    r += x1;\n");
    mo_elementwise_done(l, &p);
}
