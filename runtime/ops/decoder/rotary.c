/* SPDX-License-Identifier: Apache-2.0
 * rotary.c - RotaryEmbedding, the reference; see rotary.h. */
#include "runtime/ops/decoder/rotary.h"

#include "runtime/ops/elements.h"

enum { X, COS, SIN, IDS };

const char *mo_rotary_of(const struct mo_node *node, const struct mo_shape *x, struct mo_rotary *out) {
    const int64_t heads = mo_attr_int(node, "num_heads", 0),
                  turned = mo_attr_int(node, "rotary_embedding_dim", 0);
    *out = (struct mo_rotary){.rows_first = x->rank == 3, .turned = turned};
    out->interleaved = mo_attr_int(node, "interleaved", 0) != 0;
    if (x->rank != 3 && x->rank != 4) return "the input must have rank 3 or 4";
    if (x->rank == 3 && (heads < 1 || x->d[2] % heads)) return "num_heads does not divide the columns";
    out->batch = x->d[0];
    out->heads = x->rank == 4 ? x->d[1] : heads;
    out->rows = x->rank == 4 ? x->d[2] : x->d[1];
    out->columns = x->rank == 4 ? x->d[3] : x->d[2] / heads;
    if (!turned) out->turned = out->columns;
    if (out->turned < 0 || out->turned > out->columns || out->turned % 2)
        return "rotary_embedding_dim must be even and at most a head's columns";
    return NULL;
}

static const char *check_caches(const struct mo_op_ctx *ctx, const struct mo_rotary *r) {
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
    struct mo_rotary r;
    int rc = mo_check_type(ctx, X, MO_FLOATS);
    for (int i = COS; i <= SIN && !rc; i++)
        rc = mo_check_type(ctx, i, MO_FLOATS);
    if (!rc && mo_given(ctx, IDS)) rc = mo_check_type(ctx, IDS, MO_TYPE(MOIRE_I64));
    if (rc) return rc;
    const char *problem = mo_rotary_of(ctx->node, &ctx->in[X].shape, &r);
    if (!problem) problem = check_caches(ctx, &r);
    if (problem) return mo_op_fail(ctx, MOIRE_ESHAPE, "%s", problem);
    return mo_set_out(ctx, 0, ctx->in[X].dtype, &ctx->in[X].shape);
}

/* Row of the caches for row s of one of the batch; below 0: an error. */
static int64_t angle_at(const struct mo_op_ctx *ctx, const struct mo_rotary *r, int64_t b, int64_t s) {
    if (!mo_given(ctx, IDS)) return b * r->rows + s;
    const int64_t known[] = {ctx->in[COS].shape.d[0], ctx->in[SIN].shape.d[0]};
    return mo_index_at(ctx, &ctx->in[IDS], b * r->rows + s, known[0] < known[1] ? known[0] : known[1]);
}

/* In place. */
static void turn(const struct mo_rotary *r, double *x, const double *cosine, const double *sine) {
    const int64_t half = r->turned / 2, step = r->interleaved ? 2 : 1, other = r->interleaved ? 1 : half;
    for (int64_t c = 0; c < half; c++) {
        const double a = x[c * step], b = x[c * step + other];
        x[c * step] = a * cosine[c] - b * sine[c];
        x[c * step + other] = a * sine[c] + b * cosine[c];
    }
}

/* All heads of a row. */
static int turn_row(const struct mo_op_ctx *ctx, const struct mo_rotary *r, int64_t b, int64_t s,
                    double *room) {
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
    struct mo_rotary r;
    const char *problem = mo_rotary_of(ctx->node, &ctx->in[X].shape, &r);
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
