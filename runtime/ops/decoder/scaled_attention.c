/* SPDX-License-Identifier: Apache-2.0
 * scaled_attention.c - ONNX's Attention, the reference; see scaled_attention.h.  What is of float32 and of a
 * known shape becomes moire.Attention (codegen/passes/pass_scaled_attention.c). */
#include "runtime/ops/decoder/scaled_attention.h"

#include <math.h>
#include <string.h>
#include "runtime/ops/moire/attention.h"
#include "runtime/ops/util.h"

enum { FAR = 1 << 30 }; /* more than any tensor has keys */

/* --- what is asked for ---------------------------------------------------------------------------------- */

static bool is_there(const struct mo_value *v) {
    return v->dtype != MOIRE_NONE;
}

/* Heads, rows and columns of Q, K or V. */
static bool split(const struct mo_shape *s, int64_t heads, int64_t *rows, int64_t *columns) {
    *rows = s->rank == 4 ? s->d[2] : s->d[1];
    *columns = s->rank == 4 ? s->d[3] : heads > 0 ? s->d[2] / heads : 0;
    return heads > 0 && (s->rank == 4 ? s->d[1] == heads : s->d[2] == heads * *columns);
}

static const char *read_heads(const struct mo_node *node, const struct mo_value *in, struct mo_sdpa *a) {
    const struct mo_shape *q = &in[MO_SDPA_Q].shape, *k = &in[MO_SDPA_K].shape, *v = &in[MO_SDPA_V].shape;
    int64_t rows, depth;
    if (q->rank != k->rank || q->rank != v->rank || (q->rank != 3 && q->rank != 4))
        return "Q, K and V must have rank 4, or all rank 3";
    a->rows_first = q->rank == 3;
    a->batch = q->d[0];
    a->heads = mo_attr_int(node, "q_num_heads", q->rank == 4 ? q->d[1] : 0);
    a->groups = mo_attr_int(node, "kv_num_heads", k->rank == 4 ? k->d[1] : 0);
    if (q->rank == 3 && (a->heads < 1 || a->groups < 1)) return "rank 3 needs q_num_heads and kv_num_heads";
    if (!split(q, a->heads, &a->queries, &a->depth) || !split(k, a->groups, &a->keys, &depth) ||
        !split(v, a->groups, &rows, &a->width))
        return "the numbers of heads do not fit the shapes of Q, K and V";
    if (a->heads % a->groups) return "the number of query heads is no multiple of that of key heads";
    if (depth != a->depth || rows != a->keys || k->d[0] != a->batch || v->d[0] != a->batch)
        return "the shapes of Q, K and V do not fit one another";
    return NULL;
}

static bool is_past(const struct mo_shape *s, const struct mo_sdpa *a, int64_t columns) {
    return s->rank == 4 && s->d[0] == a->batch && s->d[1] == a->groups && s->d[3] == columns;
}

static const char *read_past(const struct mo_value *in, struct mo_sdpa *a) {
    const struct mo_value *k = &in[MO_SDPA_PAST_K], *v = &in[MO_SDPA_PAST_V];
    if (is_there(k) != is_there(v)) return "past_key and past_value must come together";
    if (!is_there(k)) return NULL;
    if (is_there(&in[MO_SDPA_VALID])) return "nonpad_kv_seqlen must not come with past_key";
    if (!is_past(&k->shape, a, a->depth) || !is_past(&v->shape, a, a->width) ||
        k->shape.d[2] != v->shape.d[2])
        return "the shapes of past_key and past_value do not fit K and V";
    a->past = k->shape.d[2];
    a->keys += a->past;
    return NULL;
}

/* It broadcasts to the scores, and may end early. */
static const char *check_mask(const struct mo_value *mask, const struct mo_sdpa *a) {
    const int64_t scores[4] = {a->batch, a->heads, a->queries, a->keys};
    const struct mo_shape *s = &mask->shape;
    if (!is_there(mask)) return NULL;
    if (s->rank < 1 || s->rank > 4) return "attn_mask must have a rank from 1 to 4";
    for (int i = 1; i <= s->rank; i++) {
        const int64_t d = s->d[s->rank - i], all = scores[4 - i];
        if (i == 1 ? d > all : d != 1 && d != all) return "attn_mask does not broadcast to the scores";
    }
    return NULL;
}

static const char *read_window(const struct mo_node *node, struct mo_sdpa *a) {
    const int64_t left = mo_attr_int(node, "left_window_size", -1);
    const int64_t right = mo_attr_int(node, "right_window_size", -1);
    const bool causal = mo_attr_int(node, "is_causal", 0) != 0;
    if (left < -1 || right < -1) return "a window's size is -1 or not negative";
    a->low = left < 0 || left > FAR ? INT64_MIN : -left;
    a->high = causal ? 0 : right < 0 || right > FAR ? INT64_MAX : right;
    return NULL;
}

const char *mo_sdpa_of(const struct mo_node *node, const struct mo_value *in, struct mo_sdpa *out) {
    *out = (struct mo_sdpa){.mode = MO_SDPA_RAW};
    const struct mo_value *valid = &in[MO_SDPA_VALID];
    const int64_t mode = mo_attr_int(node, "qk_matmul_output_mode", 0);
    const char *problem = read_heads(node, in, out);
    if (!problem) problem = read_past(in, out);
    if (!problem) problem = check_mask(&in[MO_SDPA_MASK], out);
    if (!problem) problem = read_window(node, out);
    if (problem) return problem;
    if (is_there(valid) && (valid->shape.rank != 1 || valid->shape.d[0] != out->batch))
        return "nonpad_kv_seqlen must have a number for each of the batch";
    if (mode < MO_SDPA_RAW || mode > MO_SDPA_WEIGHTS) return "qk_matmul_output_mode is none of 0 to 3";
    out->mode = (enum mo_sdpa_scores)mode;
    out->scale = out->depth ? 1 / sqrt((double)out->depth) : 1;
    if (mo_attr_find(node, "scale")) out->scale = (double)mo_attr_float(node, "scale", 1);
    out->softcap = (double)mo_attr_float(node, "softcap", 0);
    return NULL;
}

/* --- shapes ----------------------------------------------------------------------------------------------
 */

/* The operands that the operator may have; absent ones are empty. */
static void operands(const struct mo_op_ctx *ctx, struct mo_value in[MO_SDPA_INPUTS]) {
    for (int i = 0; i < MO_SDPA_INPUTS; i++)
        in[i] = mo_given(ctx, i) ? ctx->in[i] : (struct mo_value){.dtype = MOIRE_NONE};
}

static int check_types(const struct mo_op_ctx *ctx) {
    int rc = MOIRE_OK;
    for (int i = 0; i < MO_SDPA_INPUTS && !rc; i++) {
        const unsigned set = i == MO_SDPA_MASK    ? MO_FLOATS | MO_BOOLS
                             : i == MO_SDPA_VALID ? MO_TYPE(MOIRE_I64)
                                                  : MO_FLOATS;
        if (i < 3 || mo_given(ctx, i)) rc = mo_check_type(ctx, i, set);
    }
    return rc;
}

static int infer(const struct mo_op_ctx *ctx) {
    struct mo_value in[MO_SDPA_INPUTS];
    struct mo_sdpa a;
    int rc = check_types(ctx);
    if (rc) return rc;
    operands(ctx, in);
    const char *problem = mo_sdpa_of(ctx->node, in, &a);
    if (problem) return mo_op_fail(ctx, MOIRE_ESHAPE, "%s", problem);
    const struct mo_shape y = a.rows_first
                                  ? (struct mo_shape){.rank = 3, .d = {a.batch, a.queries, a.heads * a.width}}
                                  : (struct mo_shape){.rank = 4, .d = {a.batch, a.heads, a.queries, a.width}};
    const struct mo_shape out[MO_SDPA_OUTPUTS] = {y,
                                                  {.rank = 4, .d = {a.batch, a.groups, a.keys, a.depth}},
                                                  {.rank = 4, .d = {a.batch, a.groups, a.keys, a.width}},
                                                  {.rank = 4, .d = {a.batch, a.heads, a.queries, a.keys}}};
    for (int i = 0; i < MO_SDPA_OUTPUTS && !rc; i++)
        rc = mo_set_out(ctx, i, in[i == MO_SDPA_PRESENT_V ? MO_SDPA_V : MO_SDPA_Q].dtype, &out[i]);
    return rc;
}

/* --- the reference ---------------------------------------------------------------------------------------
 */

struct sdpa_work {
    const struct mo_op_ctx *ctx;
    struct mo_value in[MO_SDPA_INPUTS];
    struct mo_sdpa a;
    int64_t mask_stride[4], mask_keys; /* keys that the mask covers */
    double *k, *v, *q, *bias, *score;  /* of a head of one of the batch, and of a query */
};

/* Where row i of head h begins in Q, K, V or Y. */
static int64_t row_at(const struct mo_sdpa *a, int64_t heads, int64_t rows, int64_t columns, int64_t b,
                      int64_t h, int64_t i) {
    return (a->rows_first ? (b * rows + i) * heads + h : (b * heads + h) * rows + i) * columns;
}

/* Keys or values of one head, the past's first; and the same as an output, where it is wanted. */
static void gather(const struct sdpa_work *r, enum mo_sdpa_input past, enum mo_sdpa_input now, int present,
                   int64_t columns, int64_t b, int64_t g, double *to) {
    const struct mo_sdpa *a = &r->a;
    const int64_t rows = a->keys - a->past;
    mo_load_span(&r->in[past], (b * a->groups + g) * a->past * columns, 1, a->past * columns, to);
    for (int64_t j = 0; j < rows; j++)
        mo_load_span(&r->in[now], row_at(a, a->groups, rows, columns, b, g, j), 1, columns,
                     to + (a->past + j) * columns);
    if (mo_wanted(r->ctx, present))
        mo_store_span(&r->ctx->out[present], (b * a->groups + g) * a->keys * columns, 1, a->keys * columns,
                      to);
}

/* The position of the first query; one of the batch may have any. */
static int64_t offset_of(const struct sdpa_work *r, int64_t b, int64_t *valid) {
    *valid = r->a.keys;
    if (!is_there(&r->in[MO_SDPA_VALID])) return r->a.past;
    const int64_t n = mo_load_int(&r->in[MO_SDPA_VALID], b);
    *valid = n < -FAR ? -FAR : n > FAR ? FAR : n;
    return *valid - r->a.queries;
}

/* What is added to the scores of a query.  False: it sees nothing. */
static bool bias_of(const struct sdpa_work *r, int64_t b, int64_t h, int64_t i) {
    const struct mo_value *mask = &r->in[MO_SDPA_MASK];
    const int64_t *step = r->mask_stride;
    int64_t valid;
    const int64_t position = offset_of(r, b, &valid) + i;
    bool sees = false;
    for (int64_t j = 0; j < r->a.keys; j++) {
        const int64_t at = b * step[0] + h * step[1] + i * step[2] + j * step[3], away = j - position;
        bool seen = j < valid && away >= r->a.low && away <= r->a.high && j < r->mask_keys;
        r->bias[j] = 0;
        if (seen && mask->dtype == MOIRE_BOOL)
            seen = mo_load_int(mask, at) != 0;
        else if (seen && is_there(mask))
            r->bias[j] = mo_load(mask, at);
        if (!seen) r->bias[j] = -INFINITY;
        sees = sees || !(isinf(r->bias[j]) && r->bias[j] < 0);
    }
    return sees;
}

static void tell_scores(const struct sdpa_work *r, enum mo_sdpa_scores mode, int64_t row) {
    if (mode == r->a.mode && mo_wanted(r->ctx, MO_SDPA_SCORES))
        mo_store_span(&r->ctx->out[MO_SDPA_SCORES], row * r->a.keys, 1, r->a.keys, r->score);
}

static void weigh(const struct sdpa_work *r, int64_t b, int64_t h, int64_t i) {
    const struct mo_sdpa *a = &r->a;
    const int64_t row = (b * a->heads + h) * a->queries + i;
    double *p = r->score;
    for (int64_t j = 0; j < a->keys; j++) {
        p[j] = 0;
        for (int64_t c = 0; c < a->depth; c++)
            p[j] += r->q[c] * r->k[j * a->depth + c];
        p[j] *= a->scale;
    }
    tell_scores(r, MO_SDPA_RAW, row);
    for (int64_t j = 0; j < a->keys && a->softcap > 0; j++)
        p[j] = a->softcap * tanh(p[j] / a->softcap);
    tell_scores(r, MO_SDPA_CAPPED, row);
    const bool sees = bias_of(r, b, h, i);
    for (int64_t j = 0; j < a->keys; j++)
        p[j] += r->bias[j];
    tell_scores(r, MO_SDPA_BIASED, row);
    if (sees)
        mo_attention_softmax(p, a->keys);
    else
        memset(p, 0, (size_t)a->keys * sizeof *p);
    tell_scores(r, MO_SDPA_WEIGHTS, row);
}

/* One query. */
static void attend(const struct sdpa_work *r, int64_t b, int64_t h, int64_t i) {
    const struct mo_sdpa *a = &r->a;
    mo_load_span(&r->in[MO_SDPA_Q], row_at(a, a->heads, a->queries, a->depth, b, h, i), 1, a->depth, r->q);
    weigh(r, b, h, i);
    const int64_t to = row_at(a, a->heads, a->queries, a->width, b, h, i);
    for (int64_t c = 0; c < a->width && mo_wanted(r->ctx, MO_SDPA_Y); c++) {
        double sum = 0;
        for (int64_t j = 0; j < a->keys; j++)
            sum += r->score[j] * r->v[j * a->width + c];
        mo_store(&r->ctx->out[MO_SDPA_Y], to + c, sum);
    }
}

static void run_all(const struct sdpa_work *r) {
    const struct mo_sdpa *a = &r->a;
    const int64_t each = a->heads / a->groups;
    for (int64_t n = 0; n < a->batch * a->groups; n++) {
        const int64_t b = n / a->groups, g = n % a->groups;
        gather(r, MO_SDPA_PAST_K, MO_SDPA_K, MO_SDPA_PRESENT_K, a->depth, b, g, r->k);
        gather(r, MO_SDPA_PAST_V, MO_SDPA_V, MO_SDPA_PRESENT_V, a->width, b, g, r->v);
        for (int64_t m = 0; m < each * a->queries; m++)
            attend(r, b, g * each + m / a->queries, m % a->queries);
    }
}

static int run(const struct mo_op_ctx *ctx) {
    struct sdpa_work r = {.ctx = ctx};
    operands(ctx, r.in);
    const char *problem = mo_sdpa_of(ctx->node, r.in, &r.a);
    if (problem) return mo_op_fail(ctx, MOIRE_ESHAPE, "%s", problem);
    const struct mo_value *mask = &r.in[MO_SDPA_MASK];
    const int64_t keys = r.a.keys, width = r.a.depth + r.a.width;
    r.mask_keys = keys;
    if (is_there(mask)) {
        mo_attention_mask_strides(&mask->shape, r.mask_stride);
        r.mask_keys = mask->shape.d[mask->shape.rank - 1];
    }
    double *room = mo_scratch(ctx, keys * (width + 2) + r.a.depth, sizeof *room);
    if (!room) return MOIRE_ENOMEM;
    r.k = room;
    r.v = r.k + keys * r.a.depth;
    r.bias = r.v + keys * r.a.width;
    r.score = r.bias + keys;
    r.q = r.score + keys;
    run_all(&r);
    mo_free(ctx->env, room);
    return MOIRE_OK;
}

const struct mo_op mo_ops_scaled_attention[] = {
    {"Attention", "", 23, 3, 7, 1, 4, infer, run, 0},
    {0},
};
