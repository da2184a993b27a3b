/* SPDX-License-Identifier: Apache-2.0
 * kernel_reduce.c - kernels in which the threads of a block sum together: softmax, normalization, reductions.
 *
 * Softmax and norms: one block a row, several passes over it (a row fits into the L1 cache).  Reductions: a
 * block has `width` neighbouring results, so that threads read neighbours also when a sum does not run along
 * memory, and 256 / width threads for each of them. */
#include <stdio.h>
#include <string.h>
#include "runtime/gpu/lower/lower.h"

enum { THREADS = 256, WIDTH = 32 };

static int64_t extent(const int64_t *d, int from, int to) {
    int64_t n = 1;
    for (int i = from; i < to; i++)
        n *= d[i];
    return n;
}

/* Appends the element offset of index `name` (flat over d[from..to)) in a view, as an expression. */
static void offset_text(struct mo_gpu_text *t, const char *name, const struct mo_gpu_view *v, int from,
                        int to) {
    int64_t inner = 1;
    bool any = false;
    for (int i = to - 1; i >= from; i--) {
        if (v->d[i] == 1) continue;
        if (v->stride[i]) {
            mo_gpu_printf(t, "%s(long long)(%s / %lldu %% %lldu) * %lld", any ? " + " : "", name,
                          (long long)inner, (long long)v->d[i], (long long)v->stride[i]);
            any = true;
        }
        inner *= v->d[i];
    }
    if (!any) mo_gpu_printf(t, "0");
}

/* "const T *name = base + offset of the row;" and a macro-free accessor: element c at name[...]. */
static void row_pointer(struct mo_gpu_text *t, const char *name, const char *index,
                        const struct mo_gpu_view *v, int from, int to) {
    mo_gpu_printf(t, "    %s += ", name);
    offset_text(t, index, v, from, to);
    mo_gpu_printf(t, ";\n");
}

/* The value of view v at element `index` of the row. */
static void element_text(struct mo_gpu_text *t, const char *name, const char *index,
                         const struct mo_gpu_view *v, int from, int to) {
    struct mo_gpu_text at = {.env = t->env};
    mo_gpu_printf(&at, "%s[", name);
    offset_text(&at, index, v, from, to);
    mo_gpu_printf(&at, "]");
    if (at.failed)
        t->failed = true;
    else
        mo_gpu_get(t, v->dtype, at.at);
    mo_gpu_text_free(&at);
}

struct arguments {
    const char *name[4];
    const struct mo_gpu_view *view[4];
    int n;
};

static void add_argument(struct arguments *a, const char *name, const struct mo_gpu_view *v) {
    if (v->place.space == MO_GPU_NONE) return;
    a->name[a->n] = name;
    a->view[a->n++] = v;
}

static struct arguments arguments_of(const struct mo_row *row) {
    struct arguments a = {.n = 0};
    add_argument(&a, "x", &row->x);
    add_argument(&a, "scale", &row->scale);
    add_argument(&a, "shift", &row->shift);
    add_argument(&a, "mask", &row->mask);
    return a;
}

/* "v = ..." of element c of the row, masked and scaled. */
static void load_element(struct mo_gpu_text *t, const struct mo_row *row) {
    int n = row->x.rank;
    mo_gpu_printf(t, "        float v = ");
    element_text(t, "x", "c", &row->x, row->axis, n);
    mo_gpu_printf(t, ";\n");
    if (row->factor != 1) {
        mo_gpu_printf(t, "        v *= ");
        mo_gpu_literal(t, row->factor);
        mo_gpu_printf(t, ";\n");
    }
    if (row->mask.place.space == MO_GPU_NONE) return;
    mo_gpu_printf(t, row->masking == MO_ROW_ADD ? "        v += " : "        v = ");
    element_text(t, "mask", "c", &row->mask, row->axis, n);
    if (row->masking != MO_ROW_ADD) {
        mo_gpu_printf(t, " != 0 ? ");
        if (row->masking == MO_ROW_KEEP) mo_gpu_printf(t, "v : ");
        mo_gpu_literal(t, row->fill);
        if (row->masking == MO_ROW_FILL) mo_gpu_printf(t, " : v");
    }
    mo_gpu_printf(t, ";\n");
}

/* A pass over the row: the statement sees v and c. */
static void pass(struct mo_gpu_text *t, const struct mo_row *row, int64_t n, int threads,
                 const char *statement) {
    mo_gpu_printf(t, "    for (mo_index c = threadIdx.x; c < %lluu; c += %du) {\n", (unsigned long long)n,
                  threads);
    load_element(t, row);
    mo_gpu_printf(t, "        %s\n    }\n", statement);
}

static void store_pass(struct mo_gpu_text *t, const struct mo_row *row, int64_t n, int threads,
                       const char *value) {
    int rank = row->x.rank;
    mo_gpu_printf(t, "    for (mo_index c = threadIdx.x; c < %lluu; c += %du) {\n", (unsigned long long)n,
                  threads);
    load_element(t, row);
    mo_gpu_printf(t, "        float r = %s;\n", value);
    if (row->scale.place.space != MO_GPU_NONE) {
        mo_gpu_printf(t, "        r *= ");
        element_text(t, "scale", "c", &row->scale, row->axis, rank);
        mo_gpu_printf(t, ";\n");
    }
    if (row->shift.place.space != MO_GPU_NONE) {
        mo_gpu_printf(t, "        r += ");
        element_text(t, "shift", "c", &row->shift, row->axis, rank);
        mo_gpu_printf(t, ";\n");
    }
    mo_gpu_printf(t, "        y[");
    offset_text(t, "c", &row->out, row->axis, rank);
    mo_gpu_printf(t, "] = ");
    mo_gpu_put(t, row->out.dtype, "r");
    mo_gpu_printf(t, ";\n    }\n");
}

static void softmax_text(struct mo_gpu_text *t, const struct mo_row *row, int64_t n, int threads) {
    mo_gpu_printf(t, "    float top = -mo_inf, sum = 0;\n");
    pass(t, row, n, threads, "top = mo_most(top, v);");
    mo_gpu_printf(t, "    top = mo_all_most(s, top, 1, %d);\n", threads);
    pass(t, row, n, threads, "sum += expf(v - top);");
    mo_gpu_printf(t, "    sum = mo_all_sum(s, sum, 1, %d);\n", threads);
    store_pass(t, row, n, threads,
               row->kind == MO_ROW_LOG_SOFTMAX ? "v - top - logf(sum)" : "expf(v - top) / sum");
}

static void norm_text(struct mo_gpu_text *t, const struct mo_row *row, int64_t n, int threads) {
    mo_gpu_printf(t, "    float mean = 0, sum = 0;\n");
    if (row->kind == MO_ROW_NORM) {
        pass(t, row, n, threads, "mean += v;");
        mo_gpu_printf(t, "    mean = mo_all_sum(s, mean, 1, %d) / %lld;\n", threads, (long long)n);
    }
    pass(t, row, n, threads, "sum += (v - mean) * (v - mean);");
    mo_gpu_printf(t, "    sum = mo_all_sum(s, sum, 1, %d) / %lld;\n    sum = 1 / sqrtf(sum + ", threads,
                  (long long)n);
    mo_gpu_literal(t, row->epsilon);
    mo_gpu_printf(t, ");\n");
    store_pass(t, row, n, threads, "(v - mean) * sum");
}

static int threads_for(int64_t n) {
    int threads = 32;
    while (threads < THREADS && threads * 2 <= n)
        threads *= 2;
    return threads;
}

void mo_lower_row(struct mo_lower *l, const struct mo_row *row) {
    if (l->rc) return;
    struct mo_gpu_text t = {.env = l->env};
    struct arguments a = arguments_of(row);
    struct mo_gpu_place args[5];
    int64_t n = extent(row->x.d, row->axis, row->x.rank), rows = extent(row->x.d, 0, row->axis);
    int threads = threads_for(n);
    mo_gpu_printf(&t, "(");
    for (int i = 0; i < a.n; i++) {
        mo_gpu_printf(&t, "const %s *%s, ", mo_gpu_memory_type(a.view[i]->dtype), a.name[i]);
        args[i] = a.view[i]->place;
    }
    args[a.n] = row->out.place;
    mo_gpu_printf(&t, "%s *y) {\n    MO_SHARED float s[%d];\n    const mo_index t = blockIdx.x;\n",
                  mo_gpu_memory_type(row->out.dtype), threads);
    for (int i = 0; i < a.n; i++)
        row_pointer(&t, a.name[i], "t", a.view[i], 0, row->axis);
    row_pointer(&t, "y", "t", &row->out, 0, row->axis);
    if (row->kind == MO_ROW_SOFTMAX || row->kind == MO_ROW_LOG_SOFTMAX)
        softmax_text(&t, row, n, threads);
    else
        norm_text(&t, row, n, threads);
    mo_gpu_printf(&t, "}\n");
    int kernel = mo_lower_kernel(l, &t, rows, 1, 1, (unsigned)threads);
    mo_lower_launch(l, kernel, args, a.n + 1, 8 * rows * n);
}

/* --- reductions ----------------------------------------------------------------------------------------- */

static const struct reduction {
    const char *name, *start, *step, *together, *end;
} reductions[] = {
    {"ReduceSum", "0", "r += v;", "sum", ""},
    {"ReduceMean", "0", "r += v;", "sum", "r /= count;"},
    {"ReduceMax", "-mo_inf", "r = mo_most(r, v);", "most", ""},
    {"ReduceMin", "mo_inf", "r = mo_least(r, v);", "least", ""},
    {"ReduceProd", "1", "r *= v;", "product", ""},
    {"ReduceL1", "0", "r += fabsf(v);", "sum", ""},
    {"ReduceL2", "0", "r += v * v;", "sum", "r = sqrtf(r);"},
    {"ReduceSumSquare", "0", "r += v * v;", "sum", ""},
    {"ReduceLogSum", "0", "r += v;", "sum", "r = logf(r);"},
};

static const struct reduction *find_reduction(const char *name) {
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++)
        if (!strcmp(reductions[i].name, name)) return &reductions[i];
    return NULL;
}

/* Splits x in what is kept (and its twin in the output) and what is summed; both in memory order, so that
 * neighbouring threads read neighbours. */
static void split(const struct mo_gpu_view *x, const bool *axes, const struct mo_gpu_view *out,
                  struct mo_gpu_view *kept, struct mo_gpu_view *to, struct mo_gpu_view *summed) {
    int order[MO_VIEW_RANK];
    mo_gpu_order_of(x, order);
    *kept = *to = *summed = *x;
    to->place = out->place;
    to->dtype = out->dtype;
    kept->rank = to->rank = summed->rank = 0;
    for (int k = 0; k < x->rank; k++) {
        int i = order[k];
        struct mo_gpu_view *v = axes[i] ? summed : kept;
        v->d[v->rank] = x->d[i];
        v->stride[v->rank++] = x->stride[i];
        if (axes[i]) continue;
        to->d[to->rank] = x->d[i];
        to->stride[to->rank++] = out->stride[i];
    }
}

static void reduce_text(struct mo_gpu_text *t, const struct reduction *r, const struct mo_gpu_view *kept,
                        const struct mo_gpu_view *to, const struct mo_gpu_view *summed, int width) {
    int64_t rows = mo_gpu_count(kept), n = mo_gpu_count(summed);
    mo_gpu_printf(t, "(const %s *x, %s *y) {\n    MO_SHARED float s[%d];\n", mo_gpu_memory_type(kept->dtype),
                  mo_gpu_memory_type(to->dtype), THREADS);
    mo_gpu_printf(t, "    const mo_index t = (mo_index)blockIdx.x * %du + threadIdx.x %% %du;\n", width,
                  width);
    mo_gpu_printf(t, "    float r = %s;\n    if (t < %lluu) {\n    ", r->start, (unsigned long long)rows);
    row_pointer(t, "x", "t", kept, 0, kept->rank);
    mo_gpu_printf(t, "        for (mo_index c = threadIdx.x / %du; c < %lluu; c += %du) {\n", width,
                  (unsigned long long)n, THREADS / width);
    mo_gpu_printf(t, "            const float v = ");
    element_text(t, "x", "c", summed, 0, summed->rank);
    mo_gpu_printf(t, ";\n            %s\n        }\n    }\n", r->step);
    mo_gpu_printf(t, "    r = mo_all_%s(s, r, %d, %d);\n", r->together, width, THREADS);
    mo_gpu_printf(t, "    if (threadIdx.x >= %du || t >= %lluu) return;\n", width, (unsigned long long)rows);
    if (*r->end)
        mo_gpu_printf(t, "    const float count = %lld;\n    (void)count;\n    %s\n", (long long)n, r->end);
    mo_gpu_printf(t, "    y[");
    offset_text(t, "t", to, 0, to->rank);
    mo_gpu_printf(t, "] = ");
    mo_gpu_put(t, to->dtype, "r");
    mo_gpu_printf(t, ";\n}\n");
}

void mo_lower_reduce(struct mo_lower *l, const char *name, const struct mo_gpu_view *x, const bool *axes,
                     const struct mo_gpu_view *out) {
    const struct reduction *r = find_reduction(name);
    struct mo_gpu_text t = {.env = l->env};
    struct mo_gpu_view kept, to, summed;
    if (l->rc) return;
    if (!r || !mo_gpu_is_float(x->dtype)) {
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "this reduction of %s is not supported on a GPU",
                      mo_dtype_name(x->dtype));
        return;
    }
    split(x, axes, out, &kept, &to, &summed);
    bool along = summed.rank && summed.stride[summed.rank - 1] == 1;
    int width = along || mo_gpu_count(&kept) < WIDTH ? 1 : WIDTH;
    reduce_text(&t, r, &kept, &to, &summed, width);
    int kernel = mo_lower_kernel(l, &t, (mo_gpu_count(&kept) + width - 1) / width, 1, 1, THREADS);
    mo_lower_launch(l, kernel, (struct mo_gpu_place[]){x->place, out->place}, 2, mo_gpu_count(x));
}
