/* SPDX-License-Identifier: Apache-2.0
 * quantize_model.c - see quantize_model.h. */
#include "codegen/quantize/quantize_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "codegen/quantize/judge.h"
#include "codegen/quantize/quantize_state.h"
#include "codegen/quantize/upgrade.h"
#include "runtime/base/sha256.h"

enum { MOST_JUDGED = 8, ROUNDS = 16 };
static const float ALIKE = 4; /* ranges of a concatenation that may share a scale differ by that at most */

struct job {
    struct mo_edit *e;
    const struct mo_model_samples *samples;
    const struct mo_quantize_options *o;
    struct mo_quantization *out;
    struct mo_qrange *range; /* by value, of points with all layers on */
    struct mo_norm_list norms;
    struct mo_judge judge;
    struct mo_quantize_state state;
};

/* --- the model of floats --- */

/* Ranks, for what older versions of operators left open. */
static int see_shapes(struct job *j, struct mo_graph **shapes) {
    struct mo_edit *e = j->e;
    uint8_t *bytes;
    size_t n;
    const struct mo_model_samples *s = j->samples;
    moire_shape *bound = mo_edit_memory(e, ((size_t)s->n_in + 1) * sizeof *bound);
    if (!bound || mo_edit_pack(e, &bytes, &n)) return e->rc;
    for (int i = 0; i < s->n_in; i++) {
        bound[i] = (moire_shape){.input = s->name[i], .rank = s->at[0].in[i].rank};
        memcpy(bound[i].shape, s->at[0].in[i].shape, sizeof bound[i].shape);
    }
    const struct mo_frontend_options front = {.shapes = bound, .n_shapes = s->n_in, .no_passes = true};
    e->rc = mo_frontend_parse(e->env, bytes, n, NULL, &front, shapes, e->err);
    mo_free(e->env, bytes);
    return e->rc;
}

static int prepare(struct job *j) {
    struct mo_graph *shapes = NULL;
    uint8_t *bytes = NULL;
    see_shapes(j, &shapes);
    mo_upgrade(j->e, shapes);
    mo_graph_destroy(shapes);
    if (!j->e->rc) mo_fold_norms(j->e, &j->norms);
    if (!j->e->rc && j->o->equalize) j->out->n_equalized = mo_equalize(j->e);
    if (!mo_edit_pack(j->e, &bytes, &j->out->float_bytes)) mo_free(j->e->env, bytes);
    return j->e->rc;
}

/* --- layers --- */

static const char *kind_text(struct mo_edit *e, const struct mo_qlayer *layer) {
    const Onnx__NodeProto *node = e->graph->node[layer->node];
    const Onnx__TensorProto *w = mo_edit_value(e, node->input[1])->constant;
    char text[80];
    int n = snprintf(text, sizeof text, "%s", node->op_type);
    if (layer->rows)
        snprintf(text + n, sizeof text - (size_t)n, " %lldx%lld", (long long)w->dims[0],
                 (long long)w->dims[1]);
    for (size_t i = 2; !layer->rows && i < w->n_dims && n < 40; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%lld", i == 2 ? " " : "x", (long long)w->dims[i]);
    if (!layer->rows && mo_edit_int(node, "group", 1) > 1)
        snprintf(text + n, sizeof text - (size_t)n, " grouped");
    return mo_edit_text(e, "%s", text);
}

static int keep_asked(struct job *j) {
    struct mo_edit *e = j->e;
    for (const char *at = j->o->keep; at && *at && !e->rc;) {
        size_t n = strcspn(at, ",");
        char *name = mo_edit_text(e, "%.*s", (int)n, at);
        struct mo_qlayer *layer = mo_layer_named(e, &j->out->layers, name);
        if (*name && !layer)
            mo_edit_fail(e, MOIRE_EINVAL,
                         "--keep: there is no layer '%.100s': a layer is a Conv, Gemm or MatMul with "
                         "constant weights, "
                         "named after its node or its output",
                         name);
        if (layer) layer->on = false, layer->why = "asked for";
        at += n + (at[n] == ',');
    }
    return e->rc;
}

static int list_layers(struct job *j) {
    struct mo_edit *e = j->e;
    struct mo_quantization *out = j->out;
    if (mo_layers_find(e, &out->layers)) return e->rc;
    if (!out->layers.n)
        return mo_edit_fail(e, MOIRE_EUNSUPPORTED,
                            "no Conv, Gemm or MatMul with constant float32 weights: nothing to quantize");
    out->layer_name = mo_edit_memory(e, (size_t)out->layers.n * sizeof *out->layer_name);
    out->layer_kind = mo_edit_memory(e, (size_t)out->layers.n * sizeof *out->layer_kind);
    for (int i = 0; !e->rc && i < out->layers.n; i++) {
        const Onnx__NodeProto *node = e->graph->node[out->layers.at[i].node];
        out->layer_name[i] = node->name && *node->name ? node->name : node->output[0];
        out->layer_kind[i] = kind_text(e, &out->layers.at[i]);
    }
    return keep_asked(j);
}

/* --- trials --- */

static bool ranges_fit(void *ctx, int a, int b) {
    const struct mo_qrange *range = ctx, *x = &range[a], *y = &range[b];
    const float wide = fmaxf(x->hi - x->lo, y->hi - y->lo), slim = fminf(x->hi - x->lo, y->hi - y->lo);
    return x->known && y->known && slim > 0 && wide <= ALIKE * slim;
}

/* Makes `e` the model with these layers quantized. */
static int quantize_layers(struct job *j, struct mo_edit *e, const struct mo_qlayers *layers, int *n_points) {
    struct mo_points points;
    if (mo_points_find(e, layers, j->o->portable, &points)) return e->rc;
    struct mo_qrange *united = mo_edit_memory(e, ((size_t)points.n + 1) * sizeof *united);
    if (!united) return e->rc;
    for (int i = 0; i < points.n; i++)
        points.is[i] = points.is[i] && j->range[i].known;
    mo_points_tie_concats(e, &points, ranges_fit, j->range);
    mo_unite_ranges(&points, j->range, united);
    const struct mo_insertion in = {.layers = layers,
                                    .points = &points,
                                    .range = united,
                                    .per_channel = j->o->per_channel,
                                    .narrow = j->o->narrow,
                                    .correct_bias = j->o->correct_bias};
    *n_points = 0;
    for (int i = 0; i < points.n; i++)
        *n_points += points.is[i];
    return mo_insert(e, &in);
}

static int try_layers(struct job *j, const struct mo_qlayers *layers, struct mo_closeness *out) {
    struct mo_edit copy;
    int n;
    j->e->rc = mo_edit_branch(j->e, &copy);
    if (!j->e->rc) j->e->rc = quantize_layers(j, &copy, layers, &n);
    if (!j->e->rc) j->e->rc = mo_judge_model(&j->judge, &copy, out);
    mo_edit_close(&copy);
    return j->e->rc;
}

/* What each layer costs alone. */
static int try_each(struct job *j) {
    struct mo_edit *e = j->e;
    const struct mo_qlayers *all = &j->out->layers;
    struct mo_qlayers one = {.n = all->n, .at = mo_edit_memory(e, (size_t)all->n * sizeof *one.at)};
    for (int i = 0; !e->rc && i < all->n; i++) {
        if (!all->at[i].on) continue;
        struct mo_closeness c = {0};
        all->at[i].error = mo_quantize_state_find(&j->state, j->out->layer_name[i]);
        if (all->at[i].error >= 0) continue;
        e->rc = mo_quantize_tell(&j->o->progress, "trying layers one at a time", i, all->n, e->err);
        memcpy(one.at, all->at, (size_t)all->n * sizeof *one.at);
        for (int k = 0; k < all->n; k++)
            one.at[k].on = k == i;
        if (!e->rc) try_layers(j, &one, &c);
        if (!e->rc) e->rc = mo_quantize_state_put(&j->state, j->out->layer_name[i], c.error, e->err);
        if (!e->rc) all->at[i].error = c.error;
    }
    return e->rc;
}

/* The layer that costs most of those that are on; NULL. */
static struct mo_qlayer *worst(const struct mo_qlayers *all) {
    struct mo_qlayer *w = NULL;
    for (int i = 0; i < all->n; i++)
        if (all->at[i].on && (!w || all->at[i].error > w->error)) w = &all->at[i];
    return w;
}

static int count_on(const struct mo_qlayers *all) {
    int n = 0;
    for (int i = 0; i < all->n; i++)
        n += all->at[i].on;
    return n;
}

static const char for_the_whole[] = "for the tolerance of the whole";

/* The layer that costs least of those that were left out for the whole and are not `done`; -1. */
static int cheapest_left_out(const struct mo_qlayers *all, const bool *done) {
    int w = -1;
    for (int i = 0; i < all->n; i++)
        if (!all->at[i].on && all->at[i].why == for_the_whole && !done[i] &&
            (w < 0 || all->at[i].error < all->at[w].error))
            w = i;
    return w;
}

/* Layers go several at a time, and what they cost alone does not add up: those with which the whole stays
 * within the tolerance come back. */
static int take_back(struct job *j) {
    struct mo_edit *e = j->e;
    struct mo_qlayers *all = &j->out->layers;
    bool *done = mo_edit_memory(e, (size_t)all->n * sizeof *done);
    int n = 0, at;
    while (!e->rc && (at = cheapest_left_out(all, done)) >= 0) {
        struct mo_closeness c = {0};
        done[at] = true;
        all->at[at].on = true;
        e->rc = mo_quantize_tell(&j->o->progress, "taking layers back", n++, all->n, e->err);
        if (!e->rc) try_layers(j, all, &c);
        if (!e->rc && c.error <= j->o->tolerance)
            j->out->whole = c;
        else
            all->at[at].on = false;
    }
    for (int i = 0; i < all->n; i++)
        if (all->at[i].on) all->at[i].why = "";
    return e->rc;
}

/* Leaves out the costliest layers until the whole is within the tolerance. */
static int choose(struct job *j) {
    struct mo_qlayers *all = &j->out->layers;
    struct mo_closeness *c = &j->out->whole;
    for (int i = 0; i < all->n; i++)
        if (all->at[i].on && !(all->at[i].error <= j->o->tolerance))
            all->at[i].on = false, all->at[i].why = "alone beyond the tolerance";
    const int step = count_on(all) / ROUNDS + 1;
    for (int round = 0; !j->e->rc; round++) {
        j->e->rc = mo_quantize_tell(&j->o->progress, "choosing layers", round, ROUNDS, j->e->err);
        if (!j->e->rc) try_layers(j, all, c);
        if (j->e->rc || c->error <= j->o->tolerance || !count_on(all)) break;
        for (int k = 0; k < step && worst(all); k++) {
            struct mo_qlayer *w = worst(all);
            w->on = false;
            w->why = for_the_whole;
        }
    }
    if (!j->e->rc && count_on(all)) take_back(j);
    j->out->n_on = count_on(all);
    return j->e->rc;
}

/* --- the whole --- */

static int calibrate(struct job *j) {
    struct mo_edit *e = j->e;
    struct mo_points points;
    if (mo_points_find(e, &j->out->layers, j->o->portable, &points)) return e->rc;
    j->range = mo_edit_memory(e, ((size_t)points.n + 1) * sizeof *j->range);
    if (e->rc) return e->rc;
    mo_quantize_calibrate(e, &j->out->layers, &points, j->samples, j->o->method, &j->o->progress, j->range,
                          &j->out->n_bad);
    if (!e->rc && j->o->by_norms) j->out->n_by_norms = mo_quantize_by_norms(e, &j->norms, &points, j->range);
    for (int i = 0; !e->rc && i < j->out->layers.n; i++) {
        struct mo_qlayer *layer = &j->out->layers.at[i];
        const struct mo_edit_value *x = mo_edit_value(e, e->graph->node[layer->node]->input[0]);
        if (layer->on && (!x || x->constant || !j->range[x - e->values].known))
            layer->on = false, layer->why = "its input is constant, or of no float";
    }
    return e->rc;
}

/* The model, the samples and the options that decide what a layer costs. */
static int open_state(struct job *j) {
    struct mo_edit *e = j->e;
    struct mo_sha256 h;
    char key[MO_SHA256_HEX], options[80];
    uint8_t *bytes;
    size_t n;
    if (mo_edit_pack(e, &bytes, &n)) return e->rc;
    mo_sha256_init(&h);
    mo_sha256_add(&h, bytes, n);
    mo_free(e->env, bytes);
    for (int s = 0; s < j->samples->n; s++)
        for (int i = 0; i < j->samples->n_in; i++) {
            const moire_tensor *t = &j->samples->at[s].in[i];
            mo_sha256_add(&h, t->shape, sizeof t->shape);
            mo_sha256_add(&h, t->data, t->bytes);
        }
    snprintf(options, sizeof options, "1 %d %d %d %d %d %d", j->o->method, j->o->per_channel, j->o->narrow,
             j->o->portable, j->o->correct_bias, j->o->by_norms);
    mo_sha256_add(&h, options, strlen(options));
    mo_sha256_end_hex(&h, key);
    return e->rc = mo_quantize_state_open(e->env, j->o->state, key, &j->state, e->err);
}

static int quantize(struct job *j) {
    struct mo_edit *e = j->e;
    uint8_t *bytes = NULL;
    if (!prepare(j) && !list_layers(j)) calibrate(j);
    if (!e->rc) open_state(j);
    if (!e->rc) mo_judge_open(e, j->samples, MOST_JUDGED, &j->o->progress, &j->judge);
    if (!e->rc && !try_each(j)) choose(j);
    if (e->rc == MOIRE_EINTERRUPTED) mo_quantize_state_save(&j->state, NULL);
    if (!e->rc) quantize_layers(j, e, &j->out->layers, &j->out->n_points);
    if (!mo_edit_pack(e, &bytes, &j->out->bytes)) mo_free(e->env, bytes);
    return e->rc;
}

int mo_quantize(const struct mo_env *env, const char *path, const struct mo_model_samples *samples,
                const struct mo_quantize_options *options, struct mo_quantization *out, moire_error *err) {
    *out = (struct mo_quantization){0};
    struct job j = {.e = &out->edit, .samples = samples, .o = options, .out = out};
    if (!samples->n) return mo_fail(err, MOIRE_EINVAL, "no samples to calibrate on");
    int rc = mo_edit_open(env, path, &out->edit, err);
    if (!rc) rc = quantize(&j);
    mo_judge_close(&j.judge);
    if (j.state.errors) mo_quantize_state_close(&j.state);
    return rc;
}

void mo_quantized_close(struct mo_quantization *q) {
    mo_edit_close(&q->edit);
}
