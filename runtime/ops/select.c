/* SPDX-License-Identifier: Apache-2.0
 * select.c - operators that choose: TopK, NonZero, Unique.  Most have outputs whose shape depends on the
 * data. */
#include <math.h>
#include <string.h>
#include "runtime/ops/kept.h"

/* --- sorting of positions: heap sort, because it needs no memory and no recursion --- */
typedef bool before_fn(const void *ctx, int64_t a, int64_t b);

static void sift(int64_t *heap, int64_t at, int64_t n, before_fn *before, const void *ctx) {
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(ctx, heap[child], heap[child + 1])) child++;
        if (!before(ctx, heap[at], heap[child])) return;
        int64_t swap = heap[at];
        heap[at] = heap[child];
        heap[child] = swap;
    }
}

static void sort(int64_t *list, int64_t n, before_fn *before, const void *ctx) {
    for (int64_t i = n / 2 - 1; i >= 0; i--)
        sift(list, i, n, before, ctx);
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t swap = list[0];
        list[0] = list[i];
        list[i] = swap;
        sift(list, 0, i, before, ctx);
    }
}

/* --- TopK --- */
struct topk_row {
    const double *real; /* the row, or NULL: */
    const int64_t *whole;
    bool smallest;
};

/* Position a comes before b: better value, or the same value and a smaller index; NaN counts as largest. */
static bool topk_before(const void *p, int64_t a, int64_t b) {
    const struct topk_row *row = p;
    if (row->whole) {
        const int64_t x = row->whole[a], y = row->whole[b];
        return x == y ? a < b : row->smallest ? x < y : x > y;
    }
    const double x = row->real[a], y = row->real[b];
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y) ? a < b : isnan(x) != row->smallest;
    return x == y ? a < b : row->smallest ? x < y : x > y;
}

/* The first k of n positions, in order: a heap of the best so far has the last of them on top. */
static void topk_choose(const struct topk_row *row, int64_t n, int64_t k, int64_t *best) {
    for (int64_t i = 0; i < k; i++)
        best[i] = i;
    for (int64_t i = k / 2 - 1; i >= 0; i--)
        sift(best, i, k, topk_before, row);
    for (int64_t i = k; i < n; i++) {
        if (!topk_before(row, i, best[0])) continue;
        best[0] = i;
        sift(best, 0, k, topk_before, row);
    }
    sort(best, k, topk_before, row);
}

static int infer_topk(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_NUMBERS);
    if (rc || (rc = mo_check_rank(ctx, 0, 1, MOIRE_MAX_RANK))) return rc;
    struct mo_shape y = ctx->in[0].shape;
    int axis = mo_axis(ctx, mo_attr_int(ctx->node, "axis", -1), y.rank);
    if (axis < 0) return MOIRE_EINVAL;
    ctx->out[0].dtype = ctx->in[0].dtype;
    if (ctx->n_out > 1) ctx->out[1].dtype = MOIRE_I64;
    if (mo_given(ctx, 1) && mo_count(&ctx->in[1]) != 1)
        return mo_op_fail(ctx, MOIRE_ESHAPE, "k must be one number");
    if (mo_given(ctx, 1) && !ctx->in[1].data) return MO_NEED_DATA;
    int64_t k = mo_given(ctx, 1) ? mo_load_int(&ctx->in[1], 0) : mo_attr_int(ctx->node, "k", -1);
    if (k < 0 || k > y.d[axis])
        return mo_op_fail(ctx, MOIRE_EINVAL, "k is %lld, the axis has %lld elements", (long long)k,
                          (long long)y.d[axis]);
    y.d[axis] = k;
    rc = mo_set_out(ctx, 0, ctx->in[0].dtype, &y);
    return rc ? rc : mo_set_out(ctx, 1, MOIRE_I64, &y);
}

/* Row r of x, `inner` apart, as numbers of 8 bytes. */
static void topk_load(const struct mo_value *x, int64_t r, int64_t n, int64_t inner, void *row) {
    const int64_t at = r / inner * n * inner + r % inner;
    int64_t *whole = row;
    if (x->dtype != MOIRE_I64) mo_load_span(x, at, inner, n, row);
    for (int64_t i = 0; x->dtype == MOIRE_I64 && i < n; i++)
        whole[i] = ((const int64_t *)x->data)[at + i * inner];
}

static int run_topk(const struct mo_op_ctx *ctx) {
    const struct mo_value *x = &ctx->in[0];
    int axis = mo_axis(ctx, mo_attr_int(ctx->node, "axis", -1), x->shape.rank);
    if (axis < 0) return MOIRE_EINVAL;
    int64_t n = x->shape.d[axis], inner = mo_extent(&x->shape, axis + 1, x->shape.rank);
    int64_t outer = mo_extent(&x->shape, 0, axis), k = ctx->out[0].shape.d[axis];
    void *numbers = mo_scratch(ctx, n, sizeof(double));
    int64_t *best = numbers ? mo_scratch(ctx, k, sizeof *best) : NULL;
    struct topk_row row = {.smallest = !mo_attr_int(ctx->node, "largest", 1)};
    if (x->dtype == MOIRE_I64)
        row.whole = numbers;
    else
        row.real = numbers;
    for (int64_t r = 0; best && k && r < outer * inner; r++) {
        const int64_t at = r / inner * n * inner + r % inner;
        topk_load(x, r, n, inner, numbers);
        topk_choose(&row, n, k, best);
        for (int64_t i = 0; i < k; i++) {
            int64_t to = (r / inner * k + i) * inner + r % inner;
            if (mo_wanted(ctx, 0)) mo_copy_elem(&ctx->out[0], to, x, at + best[i] * inner, 1);
            if (mo_wanted(ctx, 1)) mo_store_int(&ctx->out[1], to, best[i]);
        }
    }
    mo_free(ctx->env, numbers);
    mo_free(ctx->env, best);
    return best ? MOIRE_OK : MOIRE_ENOMEM;
}

/* --- NonZero --- */
/* Of n bytes the places of those that are not zero, counted from `first`; eight at a time, most of which hold
 * none. */
static int64_t find_bytes(const uint8_t *x, int64_t n, int64_t first, int64_t *at) {
    int64_t found = 0;
    for (int64_t k = 0; k < n; k += 8) {
        const int64_t some = n - k < 8 ? n - k : 8;
        uint64_t word = 0;
        memcpy(&word, x + k, (size_t)some);
        for (int64_t i = 0; word && i < some; i++) {
            at[found] = first + k + i;
            found += x[k + i] != 0;
        }
    }
    return found;
}

static int64_t find_numbers(const double *x, int64_t n, int64_t first, int64_t *at) {
    int64_t found = 0;
    for (int64_t k = 0; k < n; k++) {
        at[found] = first + k;
        found += x[k] != 0;
    }
    return found;
}

/* The numbers of the elements that are not zero.  0 or an error; the list is to be freed in any case. */
static int find_nonzero(const struct mo_op_ctx *ctx, struct mo_number_list *found) {
    enum { SPAN = 256 };
    const int64_t n = mo_count(&ctx->in[0]);
    const bool is_bytes = mo_type_in(ctx->in[0].dtype, MO_BOOLS | MO_TYPE(MOIRE_U8) | MO_TYPE(MOIRE_I8));
    const uint8_t *bytes = is_bytes ? ctx->in[0].data : NULL;
    double x[SPAN];
    int64_t at[SPAN];
    int rc = mo_number_list_add(ctx, found, NULL, 0);
    for (int64_t i = 0; i < n && !rc; i += SPAN) {
        const int64_t some = n - i < SPAN ? n - i : SPAN;
        if (bytes)
            rc = mo_number_list_add(ctx, found, at, find_bytes(bytes + i, some, i, at));
        else {
            mo_load_span(&ctx->in[0], i, 1, some, x);
            rc = mo_number_list_add(ctx, found, at, find_numbers(x, some, i, at));
        }
    }
    return rc;
}

static int infer_nonzero(const struct mo_op_ctx *ctx) {
    struct mo_number_list found = {0};
    int rc = mo_check_type(ctx, 0, MO_ANY);
    if (rc) return rc;
    ctx->out[0].dtype = MOIRE_I64;
    if (mo_count(&ctx->in[0]) && !ctx->in[0].data) return MO_NEED_DATA;
    rc = find_nonzero(ctx, &found);
    struct mo_shape y = {.rank = 2, .d = {ctx->in[0].shape.rank, found.n}};
    if (!rc) rc = mo_set_out(ctx, 0, MOIRE_I64, &y);
    if (rc)
        mo_free(ctx->env, found.at);
    else
        mo_keep_work(ctx, found.at);
    return rc;
}

static int run_nonzero(const struct mo_op_ctx *ctx) {
    const struct mo_shape *x = &ctx->in[0].shape;
    struct mo_number_list found = {.at = mo_kept_work(ctx)};
    int64_t n = ctx->out[0].shape.d[1], *out = ctx->out[0].data;
    int rc = found.at ? MOIRE_OK : find_nonzero(ctx, &found);
    for (int64_t k = 0; !rc && mo_wanted(ctx, 0) && k < n; k++) {
        int64_t rest = found.at[k];
        for (int d = x->rank - 1; d >= 0; d--) {
            out[d * n + k] = rest % x->d[d];
            rest /= x->d[d];
        }
    }
    mo_free(ctx->env, found.at);
    return rc;
}

/* --- Unique: of elements, or of slices along an axis --- */
struct slices {
    const struct mo_value *x;
    int64_t outer, n, inner;
};

static int slices_of(const struct mo_op_ctx *ctx, struct slices *s, int *axis) {
    const struct mo_shape *x = &ctx->in[0].shape;
    *s = (struct slices){.x = &ctx->in[0], .outer = 1, .n = mo_shape_count(x), .inner = 1};
    *axis = -1;
    if (!mo_attr_find(ctx->node, "axis")) return MOIRE_OK;
    if ((*axis = mo_axis(ctx, mo_attr_int(ctx->node, "axis", 0), x->rank)) < 0) return MOIRE_EINVAL;
    s->outer = mo_extent(x, 0, *axis);
    s->n = x->d[*axis];
    s->inner = mo_extent(x, *axis + 1, x->rank);
    return MOIRE_OK;
}

static int compare_slices(const struct slices *s, int64_t a, int64_t b) {
    for (int64_t o = 0; o < s->outer; o++)
        for (int64_t i = 0; i < s->inner; i++) {
            double x = mo_load(s->x, (o * s->n + a) * s->inner + i),
                   y = mo_load(s->x, (o * s->n + b) * s->inner + i);
            if (x != y) return x < y ? -1 : 1;
        }
    return 0;
}

static bool slice_before(const void *p, int64_t a, int64_t b) {
    int order = compare_slices(p, a, b);
    return order < 0 || (order == 0 && a < b);
}

static bool index_before(const void *p, int64_t a, int64_t b) {
    (void)p;
    return a < b;
}

/* Groups equal slices: first[g] = first position of group g in output order, group[i] = group of slice i. */
static int64_t group_slices(const struct slices *s, bool sorted, int64_t *order, int64_t *first,
                            int64_t *group) {
    int64_t groups = 0;
    for (int64_t i = 0; i < s->n; i++)
        order[i] = i;
    sort(order, s->n, slice_before, s);
    for (int64_t i = 0; i < s->n; i++) {
        if (!i || compare_slices(s, order[i - 1], order[i])) first[groups++] = order[i];
        group[order[i]] = groups - 1;
    }
    if (sorted) return groups;
    /* by first occurrence: renumber; order[] is free now and maps first position to the new number */
    for (int64_t i = 0; i < s->n; i++)
        group[i] = first[group[i]];
    sort(first, groups, index_before, NULL);
    for (int64_t g = 0; g < groups; g++)
        order[first[g]] = g;
    for (int64_t i = 0; i < s->n; i++)
        group[i] = order[group[i]];
    return groups;
}

/* Behind the three lists: how many groups there are. */
static int64_t *unique_work(const struct mo_op_ctx *ctx, const struct slices *s) {
    int64_t *work = mo_scratch(ctx, 3 * s->n + 1, sizeof *work);
    bool sorted = mo_attr_int(ctx->node, "sorted", 1) != 0;
    if (work) work[3 * s->n] = group_slices(s, sorted, work, work + s->n, work + 2 * s->n);
    return work;
}

static int infer_unique(const struct mo_op_ctx *ctx) {
    struct slices s;
    int axis, rc = mo_check_type(ctx, 0, MO_ANY);
    if (rc || (rc = slices_of(ctx, &s, &axis))) return rc;
    ctx->out[0].dtype = ctx->in[0].dtype;
    for (int i = 1; i < ctx->n_out; i++)
        ctx->out[i].dtype = MOIRE_I64;
    if (mo_count(&ctx->in[0]) && !ctx->in[0].data) return MO_NEED_DATA;
    int64_t *work = unique_work(ctx, &s);
    if (!work) return MOIRE_ENOMEM;
    const int64_t groups = work[3 * s.n];
    struct mo_shape y = {.rank = 1, .d = {groups}}, list = y, inverse = {.rank = 1, .d = {s.n}};
    if (axis >= 0) {
        y = ctx->in[0].shape;
        y.d[axis] = groups;
    }
    rc = mo_set_out(ctx, 0, ctx->in[0].dtype, &y);
    for (int i = 1; i < ctx->n_out && !rc; i++)
        rc = mo_set_out(ctx, i, MOIRE_I64, i == 2 ? &inverse : &list);
    if (rc)
        mo_free(ctx->env, work);
    else
        mo_keep_work(ctx, work);
    return rc;
}

static int run_unique(const struct mo_op_ctx *ctx) {
    struct slices s;
    int axis, rc = slices_of(ctx, &s, &axis);
    if (rc) return rc;
    int64_t *work = mo_kept_work(ctx);
    if (!work) work = unique_work(ctx, &s);
    if (!work) return MOIRE_ENOMEM;
    const int64_t groups = work[3 * s.n];
    const int64_t *first = work + s.n, *group = work + 2 * s.n;
    for (int64_t o = 0; mo_wanted(ctx, 0) && o < s.outer; o++)
        for (int64_t g = 0; g < groups; g++)
            mo_copy_elem(&ctx->out[0], (o * groups + g) * s.inner, s.x, (o * s.n + first[g]) * s.inner,
                         s.inner);
    for (int64_t g = 0; mo_wanted(ctx, 1) && g < groups; g++)
        mo_store_int(&ctx->out[1], g, first[g]);
    for (int64_t i = 0; mo_wanted(ctx, 2) && i < s.n; i++)
        mo_store_int(&ctx->out[2], i, group[i]);
    for (int64_t g = 0; mo_wanted(ctx, 3) && g < groups; g++)
        mo_store_int(&ctx->out[3], g, 0);
    for (int64_t i = 0; mo_wanted(ctx, 3) && i < s.n; i++)
        mo_store_int(&ctx->out[3], group[i], mo_load_int(&ctx->out[3], group[i]) + 1);
    mo_free(ctx->env, work);
    return MOIRE_OK;
}

const struct mo_op mo_ops_select[] = {
    {"TopK", "", 1, 1, 2, 2, 2, infer_topk, run_topk, 0},
    {"NonZero", "", 9, 1, 1, 1, 1, infer_nonzero, run_nonzero, 0},
    {"Unique", "", 11, 1, 1, 1, 4, infer_unique, run_unique, 0},
    {0},
};
