/* SPDX-License-Identifier: Apache-2.0
 * bind_shapes.c - static shapes for the graph inputs.
 *
 * Explicit bindings come first; a symbol they fix ("N", "seq") holds for every input that uses it; then an
 * unbound first dimension becomes the batch.  What is still open is an error that names the flag to give. */
#include <stdio.h>
#include <string.h>
#include "codegen/prepare.h"
#include "runtime/base/nearest.h"
#include "runtime/base/text.h"

struct binder {
    struct mo_graph *g;
    const struct mo_symbols *symbols;
    moire_error *err;
    struct mo_region *tmp;
    struct mo_names *known; /* symbol -> index into values */
    int64_t *values;
    int n_values;
};

/* The flag a user would write: "--shape x=N,3,H,W" with what is known filled in. */
static void flag_text(const struct mo_tensor *t, const struct mo_symbols *symbols, char *out, size_t n) {
    struct mo_text flag = mo_text_in(out, n);
    mo_text_put(&flag, "--shape %.80s=", t->name);
    if (t->shape.rank < 0) mo_text_put(&flag, "d,d,...");
    for (int i = 0; i < t->shape.rank; i++) {
        const char *comma = i ? "," : "";
        if (t->shape.d[i] >= 0)
            mo_text_put(&flag, "%s%lld", comma, (long long)t->shape.d[i]);
        else
            mo_text_put(&flag, "%s<%.20s>", comma, symbols->dim[i] ? symbols->dim[i] : "d");
    }
}

/* The first binding of a symbol counts: exporters reuse names ("?") for unrelated dimensions, so a second,
 * different one is no error where the user gave it. */
static int symbol_set(struct binder *b, const char *symbol, int64_t value) {
    if (!strcmp(symbol, "?") || mo_names_find(b->known, symbol) >= 0) return MOIRE_OK;
    b->values[b->n_values] = value;
    return mo_names_add(b->known, symbol, b->n_values++)
               ? mo_fail(b->err, MOIRE_ENOMEM, "out of memory binding shapes")
               : MOIRE_OK;
}

static int apply(struct binder *b, int index, const moire_shape *given) {
    struct mo_tensor *t = b->g->tensors[b->g->inputs[index]];
    if (given->rank < 0 || given->rank > MOIRE_MAX_RANK)
        return mo_fail(b->err, MOIRE_ESHAPE, "input '%.100s': a shape of rank %d is not possible", t->name,
                       given->rank);
    if (t->shape.rank >= 0 && t->shape.rank != given->rank)
        return mo_fail(b->err, MOIRE_ESHAPE, "input '%.100s' has rank %d, the given shape has rank %d",
                       t->name, t->shape.rank, given->rank);
    t->shape.rank = given->rank;
    for (int i = 0; i < given->rank; i++) {
        const char *symbol = b->symbols[index].dim[i];
        if (given->shape[i] < 0)
            return mo_fail(b->err, MOIRE_ESHAPE,
                           "input '%.100s': dimension %d of the given shape is negative", t->name, i);
        if (t->shape.d[i] > 0 && t->shape.d[i] != given->shape[i])
            return mo_fail(b->err, MOIRE_ESHAPE,
                           "input '%.100s': dimension %d is fixed to %lld, the given shape has %lld", t->name,
                           i, (long long)t->shape.d[i], (long long)given->shape[i]);
        t->shape.d[i] = given->shape[i];
        int rc = symbol ? symbol_set(b, symbol, given->shape[i]) : MOIRE_OK;
        if (rc) return rc;
    }
    return MOIRE_OK;
}

/* A slip of the pen of whoever gave the shape, not of the model: names what is nearest, else the first input.
 */
static int no_input(struct binder *b, const char *name) {
    const struct mo_graph *g = b->g;
    struct mo_nearest nearest = {.word = name};
    char hint[160] = "; it has none";
    for (int i = 0; i < g->n_inputs; i++)
        mo_nearest_offer(&nearest, g->tensors[g->inputs[i]]->name);
    if (nearest.name)
        mo_nearest_text(&nearest, hint, sizeof hint);
    else if (g->n_inputs)
        snprintf(hint, sizeof hint, "; its first is '%.100s'", g->tensors[g->inputs[0]]->name);
    return mo_fail(b->err, MOIRE_EINVAL, "the model has no input '%.100s', for which a shape is given%s",
                   name, hint);
}

static int apply_all(struct binder *b, const struct mo_frontend_options *options) {
    for (int s = 0; s < options->n_shapes; s++) {
        int found = -1;
        for (int i = 0; i < b->g->n_inputs; i++)
            if (!strcmp(b->g->tensors[b->g->inputs[i]]->name, options->shapes[s].input)) found = i;
        if (found < 0) return no_input(b, options->shapes[s].input);
        for (int i = 0; i < b->g->tensors[b->g->inputs[found]]->shape.rank; i++)
            if (b->g->tensors[b->g->inputs[found]]->shape.d[i] == 0)
                b->g->tensors[b->g->inputs[found]]->shape.d[i] = -1;
        int rc = apply(b, found, &options->shapes[s]);
        if (rc) return rc;
    }
    return MOIRE_OK;
}

/* Fills open dimensions of one input from symbols and the batch. */
static int complete(struct binder *b, int index, int64_t batch) {
    struct mo_tensor *t = b->g->tensors[b->g->inputs[index]];
    const struct mo_symbols *symbols = &b->symbols[index];
    bool open = t->shape.rank < 0;
    for (int i = 0; i < t->shape.rank; i++) {
        if (t->shape.d[i] >= 0) continue;
        int at = symbols->dim[i] ? mo_names_find(b->known, symbols->dim[i]) : -1;
        if (at >= 0) t->shape.d[i] = b->values[at];
        if (at < 0 && i == 0) {
            t->shape.d[0] = batch;
            int rc = symbols->dim[0] ? symbol_set(b, symbols->dim[0], batch) : MOIRE_OK;
            if (rc) return rc;
        }
        if (t->shape.d[i] < 0) open = true;
    }
    char flag[300];
    if (open) {
        flag_text(t, symbols, flag, sizeof flag);
        return mo_fail(
            b->err, MOIRE_ESHAPE,
            "input '%.100s' has an open shape; give it in moire_tenant_config.shapes (of the command: %s)",
            t->name, flag);
    }
    int64_t count = mo_shape_count(&t->shape), bytes;
    if (count < 0 || __builtin_mul_overflow(count, (int64_t)mo_dtype_bytes(t->dtype), &bytes) ||
        bytes > b->g->env->limits.tensor_bytes)
        return mo_fail(b->err, MOIRE_ELIMIT, "input '%.100s' is larger than the limit tensor_bytes (%lld)",
                       t->name, (long long)b->g->env->limits.tensor_bytes);
    return MOIRE_OK;
}

static int bind_all(struct binder *b, const struct mo_frontend_options *options) {
    b->known = mo_names_create(b->g->env, b->tmp, 16);
    b->values = mo_region_array(b->tmp, (size_t)b->g->n_inputs * MOIRE_MAX_RANK + 1, sizeof *b->values);
    if (!b->known || !b->values) return mo_fail(b->err, MOIRE_ENOMEM, "out of memory binding shapes");
    if (options->batch < 0) return mo_fail(b->err, MOIRE_EINVAL, "the batch must not be negative");
    int rc = apply_all(b, options);
    for (int i = 0; !rc && i < b->g->n_inputs; i++)
        rc = complete(b, i, options->batch ? options->batch : 1);
    return rc;
}

int mo_bind_shapes(struct mo_graph *g, const struct mo_symbols *symbols,
                   const struct mo_frontend_options *options, moire_error *err) {
    struct binder b = {.g = g, .symbols = symbols, .err = err, .tmp = mo_region_create(g->env)};
    if (!b.tmp) return mo_fail(err, MOIRE_ENOMEM, "out of memory binding shapes");
    int rc = bind_all(&b, options);
    mo_region_destroy(b.tmp);
    return rc;
}
