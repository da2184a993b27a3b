/* SPDX-License-Identifier: Apache-2.0
 * rotary.c - RotaryEmbedding: pairs of columns turned by the angles of their row's position.
 *
 *   X [B,H,S,D], or [B,S,H*D] with num_heads; cos and sin [P,R/2] by position_ids [B,S], or [B,S,R/2]; Y as
 * X. The first R columns of a head are turned (rotary_embedding_dim, 0: all D), the others copied.  Columns c
 * and c + R/2 are a pair, or with `interleaved` 2c and 2c + 1:  (x, y) -> (x cos - y sin, x sin + y cos). */
#include "runtime/ops/util.h"

enum { X, COS, SIN, IDS };

struct rotary {
    int64_t batch, heads, rows, columns, turned;
    bool rows_first, interleaved;
};

/* NULL, or what does not fit. */
static const char *describe(const struct mo_op_ctx *ctx, struct rotary *r) {
    const struct mo_shape *x = &ctx->in[X].shape;
    const int64_t heads = mo_attr_int(ctx->node, "num_heads", x->rank == 4 ? x->d[1] : 0);
    *r = (struct rotary){.batch = x->d[0], .heads = heads, .rows_first = x->rank == 3};
    r->interleaved = mo_attr_int(ctx->node, "interleaved", 0) != 0;
    if (x->rank != 3 && x->rank != 4) return "the input must have rank 3 or 4";
    if (x->rank == 3 && (heads < 1 || x->d[2] % heads)) return "num_heads does not divide the columns";
    r->heads = x->rank == 4 ? x->d[1] : heads;
    r->rows = x->rank == 4 ? x->d[2] : x->d[1];
    r->columns = x->rank == 4 ? x->d[3] : x->d[2] / heads;
    r->turned = mo_attr_int(ctx->node, "rotary_embedding_dim", 0);
    if (!r->turned) r->turned = r->columns;
    if (r->turned < 0 || r->turned > r->columns || r->turned % 2)
        return "rotary_embedding_dim must be even and at most a head's columns";
    return NULL;
}

static const char *check_caches(const struct mo_op_ctx *ctx, const struct rotary *r) {
    const bool by_id = mo_given(ctx, IDS);
    for (int i = COS; i <= SIN; i++) {
        const struct mo_shape *s = &ctx->in[i].shape;
        if (s->rank != (by_id ? 2 : 3)) return "the caches have rank 2 with position_ids, 3 without";
        if (s->d[s->rank - 1] != r->turned / 2)
            return "the caches must have half the columns that are turned";
        if (!by_id && (s->d[0] != r->batch || s->d[1] != r->rows)) return "the caches do not fit the input";
    }
    const struct mo_shape *ids = &ctx->in[IDS].shape;
    if (by_id && (ids->rank != 2 || ids->d[0] != r->batch || ids->d[1] != r->rows))
        return "position_ids do not fit the input";
    return NULL;
}

static int infer(const struct mo_op_ctx *ctx) {
    struct rotary r;
    int rc = mo_check_type(ctx, X, MO_FLOATS);
    for (int i = COS; i <= SIN && !rc; i++)
        rc = mo_check_type(ctx, i, MO_FLOATS);
    if (!rc && mo_given(ctx, IDS)) rc = mo_check_type(ctx, IDS, MO_TYPE(MOIRE_I64));
    if (rc) return rc;
    const char *problem = describe(ctx, &r);
    if (!problem) problem = check_caches(ctx, &r);
    if (problem) return mo_op_fail(ctx, MOIRE_ESHAPE, "%s", problem);
    return mo_set_out(ctx, 0, ctx->in[X].dtype, &ctx->in[X].shape);
}

/* Row of the caches for row s of one of the batch; below 0: an error. */
static int64_t angle_at(const struct mo_op_ctx *ctx, const struct rotary *r, int64_t b, int64_t s) {
    if (!mo_given(ctx, IDS)) return b * r->rows + s;
    const int64_t id = mo_load_int(&ctx->in[IDS], b * r->rows + s);
    for (int i = COS; i <= SIN; i++)
        if (id < 0 || id >= ctx->in[i].shape.d[0])
            return mo_op_fail(ctx, MOIRE_EINVAL, "position %lld is not in the caches", (long long)id);
    return id;
}

/* In place. */
static void turn(const struct rotary *r, double *x, const double *cosine, const double *sine) {
    const int64_t half = r->turned / 2, step = r->interleaved ? 2 : 1, other = r->interleaved ? 1 : half;
    for (int64_t c = 0; c < half; c++) {
        const double a = x[c * step], b = x[c * step + other];
        x[c * step] = a * cosine[c] - b * sine[c];
        x[c * step + other] = a * sine[c] + b * cosine[c];
    }
}

/* All heads of a row. */
static int turn_row(const struct mo_op_ctx *ctx, const struct rotary *r, int64_t b, int64_t s, double *room) {
    const int64_t half = r->turned / 2, at = angle_at(ctx, r, b, s);
    double *cosine = room + r->columns, *sine = cosine + half;
    if (at < 0) return MOIRE_EINVAL;
    mo_load_span(&ctx->in[COS], at * half, 1, half, cosine);
    mo_load_span(&ctx->in[SIN], at * half, 1, half, sine);
    for (int64_t h = 0; h < r->heads; h++) {
        const int64_t row =
            r->rows_first ? (b * r->rows + s) * r->heads + h : (b * r->heads + h) * r->rows + s;
        mo_load_span(&ctx->in[X], row * r->columns, 1, r->columns, room);
        turn(r, room, cosine, sine);
        mo_store_span(&ctx->out[0], row * r->columns, 1, r->columns, room);
    }
    return MOIRE_OK;
}

static int run(const struct mo_op_ctx *ctx) {
    struct rotary r;
    const char *problem = describe(ctx, &r);
    if (problem) return mo_op_fail(ctx, MOIRE_ESHAPE, "%s", problem);
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    double *room = mo_scratch(ctx, r.columns + r.turned, sizeof *room);
    if (!room) return MOIRE_ENOMEM;
    int rc = MOIRE_OK;
    for (int64_t n = 0; n < r.batch * r.rows && !rc; n++)
        rc = turn_row(ctx, &r, n / r.rows, n % r.rows, room);
    mo_free(ctx->env, room);
    return rc;
}

const struct mo_op mo_ops_rotary[] = {
    {"RotaryEmbedding", "", 23, 3, 4, 1, 1, infer, run, 0},
    {0},
};
