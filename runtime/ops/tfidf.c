/* SPDX-License-Identifier: Apache-2.0
 * tfidf.c - TfIdfVectorizer of integers: how often each n-gram of a pool occurs in a row.
 *
 * The pool lists n-grams of one item, then of two, and so on.  They are looked up in a table that is built
 * once a run, by what they hold and how long they are; those of equal contents lie one behind the other.  An
 * n-gram of a row may skip up to max_skip_count items between its own, the same number each time; of single
 * items skips make no other n-gram.  Weights belong to the n-grams of the pool, as ONNX's text has it. */
#include <string.h>
#include "runtime/ops/util.h"

struct grams {
    const int64_t *pool, *index; /* items; the output element of each n-gram */
    const float *weights;        /* of each n-gram, or NULL */
    int64_t n_pool, n;           /* items; n-grams */
    int64_t low, high, skips;    /* lengths that count; most items that are skipped */
    int64_t outputs;
    int64_t *at, *length; /* of each n-gram: where in the pool, and its items */
    int64_t *table;       /* 1 + number of an n-gram; 0 = free */
    uint64_t mask;
};

static const struct mo_attr *list_of(const struct mo_op_ctx *ctx, const char *name, enum mo_attr_type type) {
    const struct mo_attr *a = mo_attr_find(ctx->node, name);
    return a && a->type == type ? a : NULL;
}

/* N-grams in the pool by ngram_counts; fills where each begins when `at` is there.  -1: the lists contradict.
 */
static int64_t cut_pool(const struct mo_attr *counts, struct grams *g) {
    int64_t n = 0;
    for (int k = 0; k < counts->n; k++) {
        const int64_t from = counts->ints[k], to = k + 1 < counts->n ? counts->ints[k + 1] : g->n_pool;
        if (from < 0 || to < from || to > g->n_pool || (to - from) % (k + 1)) return -1;
        for (int64_t i = from; i < to; i += k + 1, n++) {
            if (!g->at) continue;
            g->at[n] = i;
            g->length[n] = k + 1;
        }
    }
    return n;
}

static int read_lists(const struct mo_op_ctx *ctx, struct grams *g) {
    const struct mo_attr *pool = list_of(ctx, "pool_int64s", MO_ATTR_INTS);
    const struct mo_attr *counts = list_of(ctx, "ngram_counts", MO_ATTR_INTS);
    const struct mo_attr *index = list_of(ctx, "ngram_indexes", MO_ATTR_INTS);
    const struct mo_attr *weights = list_of(ctx, "weights", MO_ATTR_FLOATS);
    if (!pool || !counts || !index) {
        mo_op_fail(ctx, MOIRE_EUNSUPPORTED,
                   "needs pool_int64s, ngram_counts and ngram_indexes (pools of strings are not supported)");
        return MOIRE_EUNSUPPORTED;
    }
    g->pool = pool->ints, g->n_pool = pool->n;
    g->index = index->ints;
    g->weights = weights && weights->n ? weights->floats : NULL;
    g->n = cut_pool(counts, g);
    if (g->n < 0 || g->n != index->n || (g->weights && weights->n != index->n))
        return mo_op_fail(ctx, MOIRE_EINVAL, "ngram_counts, ngram_indexes and weights do not fit the pool");
    for (int i = 0; i < index->n; i++) {
        if (index->ints[i] < 0 || index->ints[i] > INT32_MAX)
            return mo_op_fail(ctx, MOIRE_EINVAL, "ngram_indexes has %lld", (long long)index->ints[i]);
        if (index->ints[i] >= g->outputs) g->outputs = index->ints[i] + 1;
    }
    return MOIRE_OK;
}

static int describe(const struct mo_op_ctx *ctx, struct grams *g) {
    *g = (struct grams){.n = 0};
    g->low = mo_attr_int(ctx->node, "min_gram_length", 1);
    g->high = mo_attr_int(ctx->node, "max_gram_length", 1);
    g->skips = mo_attr_int(ctx->node, "max_skip_count", 0);
    if (g->low < 1 || g->high < g->low || g->skips < 0) {
        mo_op_fail(ctx, MOIRE_EINVAL, "lengths from %lld to %lld with %lld skips are not possible",
                   (long long)g->low, (long long)g->high, (long long)g->skips);
        return MOIRE_EINVAL;
    }
    return read_lists(ctx, g);
}

static int infer_tfidf(const struct mo_op_ctx *ctx) {
    struct grams g;
    int rc = mo_check_type(ctx, 0, MO_TYPE(MOIRE_I32) | MO_TYPE(MOIRE_I64));
    if (rc || (rc = mo_check_rank(ctx, 0, 1, 2)) || (rc = describe(ctx, &g))) return rc;
    struct mo_shape y = ctx->in[0].shape;
    y.d[y.rank - 1] = g.outputs;
    return mo_set_out(ctx, 0, MOIRE_F32, &y);
}

/* --- the table ------------------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t h, int64_t item) {
    h = (h ^ (uint64_t)item) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static uint64_t slot_of(const struct grams *g, const int64_t *items, int64_t n, int64_t stride) {
    uint64_t h = (uint64_t)n;
    for (int64_t i = 0; i < n; i++)
        h = mix(h, items[i * stride]);
    return (h ^ h >> 32) & g->mask;
}

static bool is_gram(const struct grams *g, int64_t k, const int64_t *items, int64_t n, int64_t stride) {
    if (g->length[k] != n) return false;
    for (int64_t i = 0; i < n; i++)
        if (g->pool[g->at[k] + i] != items[i * stride]) return false;
    return true;
}

static int build_table(const struct mo_op_ctx *ctx, struct grams *g) {
    uint64_t room = 16;
    while (room < 2 * (uint64_t)g->n)
        room *= 2;
    g->mask = room - 1;
    g->at = mo_scratch(ctx, 2 * g->n, sizeof *g->at);
    g->table = mo_scratch(ctx, (int64_t)room, sizeof *g->table);
    if (!g->at || !g->table) return MOIRE_ENOMEM;
    g->length = g->at + g->n;
    cut_pool(list_of(ctx, "ngram_counts", MO_ATTR_INTS), g);
    memset(g->table, 0, room * sizeof *g->table);
    for (int64_t k = 0; k < g->n; k++) {
        uint64_t slot = slot_of(g, g->pool + g->at[k], g->length[k], 1);
        while (g->table[slot])
            slot = (slot + 1) & g->mask;
        g->table[slot] = k + 1;
    }
    return MOIRE_OK;
}

/* --- counting ------------------------------------------------------------------------------------------- */

/* Adds one for every n-gram of the pool that is these items. */
static void count_gram(const struct grams *g, const int64_t *items, int64_t n, int64_t stride,
                       const char *mode, float *y) {
    for (uint64_t slot = slot_of(g, items, n, stride); g->table[slot]; slot = (slot + 1) & g->mask) {
        const int64_t k = g->table[slot] - 1;
        if (!is_gram(g, k, items, n, stride)) continue;
        const float weight = g->weights ? g->weights[k] : 1;
        if (!strcmp(mode, "IDF"))
            y[g->index[k]] = weight;
        else
            y[g->index[k]] += !strcmp(mode, "TF") ? 1 : weight;
    }
}

static void count_row(const struct grams *g, const int64_t *row, int64_t items, const char *mode, float *y) {
    for (int64_t n = g->low; n <= g->high && n <= items; n++)
        for (int64_t skip = 0; skip <= (n > 1 ? g->skips : 0); skip++) {
            if (skip >= items || (n - 1) > (items - 1) / (skip + 1)) break; /* longer than the row */
            const int64_t reach = (n - 1) * (skip + 1);
            for (int64_t from = 0; from + reach < items; from++)
                count_gram(g, row + from, n, skip + 1, mode, y);
        }
}

static int run_tfidf(const struct mo_op_ctx *ctx) {
    const struct mo_value *x = &ctx->in[0];
    const char *mode = mo_attr_string(ctx->node, "mode", "TF");
    struct grams g;
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    int rc = describe(ctx, &g);
    if (rc) return rc;
    const int64_t items = x->shape.d[x->shape.rank - 1], rows = mo_extent(&x->shape, 0, x->shape.rank - 1);
    int64_t *row = mo_scratch(ctx, items, sizeof *row);
    if (!row || (rc = build_table(ctx, &g))) rc = MOIRE_ENOMEM;
    if (!rc) memset(ctx->out[0].data, 0, (size_t)mo_count(&ctx->out[0]) * sizeof(float));
    for (int64_t r = 0; r < rows && !rc; r++) {
        for (int64_t i = 0; i < items; i++)
            row[i] = mo_load_int(x, r * items + i);
        count_row(&g, row, items, mode, (float *)ctx->out[0].data + r * g.outputs);
    }
    mo_free(ctx->env, row);
    mo_free(ctx->env, g.at);
    mo_free(ctx->env, g.table);
    return rc;
}

const struct mo_op mo_ops_tfidf[] = {
    {"TfIdfVectorizer", "", 9, 1, 1, 1, 1, infer_tfidf, run_tfidf, 0},
    {0},
};
