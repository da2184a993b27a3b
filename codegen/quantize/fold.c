/* SPDX-License-Identifier: Apache-2.0
 * fold.c - see fold.h.  Constants that several nodes read are copied before they change. */
#include "codegen/quantize/fold.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 20 };

/* A float32 constant at input `i` that nobody else reads: a copy where it is shared; NULL. */
static float *own_floats(struct mo_edit *e, Onnx__NodeProto *node, size_t i, int64_t *n) {
    struct mo_edit_value *v = mo_edit_value(e, mo_edit_input(node, i));
    float *data = v ? mo_edit_floats(e, v->name, n) : NULL;
    if (!data || (v->n_uses == 1 && !v->outside)) return data;
    void *copy;
    const Onnx__TensorProto *t = v->constant;
    const char *name = mo_edit_constant(e, v->name, MOIRE_F32, t->dims, (int)t->n_dims, &copy);
    if (!copy) return NULL;
    memcpy(copy, data, (size_t)*n * sizeof *data);
    v->n_uses--;
    mo_edit_set_input(e, node, i, name);
    return copy;
}

/* The bias of a convolution, made of zeros where it has none. */
static float *own_bias(struct mo_edit *e, Onnx__NodeProto *conv, int64_t channels) {
    int64_t n = 0;
    void *zeros;
    if (*mo_edit_input(conv, 2)) {
        float *bias = own_floats(e, conv, 2, &n);
        return n == channels ? bias : NULL;
    }
    const char *stem = mo_edit_text(e, "%s_bias", mo_edit_input(conv, 1));
    mo_edit_set_input(e, conv, 2, mo_edit_constant(e, stem, MOIRE_F32, &channels, 1, &zeros));
    return zeros;
}

/* The convolution of constant filters that makes `name` for one node alone; NULL. */
static Onnx__NodeProto *sole_conv(struct mo_edit *e, const char *name) {
    const struct mo_edit_value *v = mo_edit_value(e, name);
    int64_t n;
    if (!v || v->producer < 0 || v->n_uses != 1 || v->outside) return NULL;
    Onnx__NodeProto *node = e->graph->node[v->producer];
    if (!mo_edit_is(node, "Conv") || !mo_edit_floats(e, mo_edit_input(node, 1), &n)) return NULL;
    return !*mo_edit_input(node, 2) || mo_edit_floats(e, node->input[2], &n) ? node : NULL;
}

static bool fold(struct mo_edit *e, Onnx__NodeProto *norm, struct mo_norm_facts *facts) {
    float *of[4];
    int64_t n[4], size;
    Onnx__NodeProto *conv = mo_edit_is(norm, "BatchNormalization") && !mo_edit_int(norm, "training_mode", 0)
                                ? sole_conv(e, mo_edit_input(norm, 0))
                                : NULL;
    if (!conv) return false;
    for (size_t i = 0; i < 4; i++)
        if (!(of[i] = mo_edit_floats(e, mo_edit_input(norm, i + 1), &n[i])) || n[i] != n[0]) return false;
    float *w = own_floats(e, conv, 1, &size),
          *bias = w && n[0] > 0 && size % n[0] == 0 ? own_bias(e, conv, n[0]) : NULL;
    float *about = mo_edit_memory(e, 2 * (size_t)n[0] * sizeof *about);
    const float epsilon = mo_edit_float(norm, "epsilon", 1e-5f);
    if (!bias || !about) return false;
    for (int64_t c = 0; c < n[0]; c++) {
        const float factor = of[0][c] / sqrtf(of[3][c] + epsilon);
        for (int64_t k = 0; k < size / n[0]; k++)
            w[c * (size / n[0]) + k] *= factor;
        bias[c] = (bias[c] - of[2][c]) * factor + of[1][c];
        about[c] = of[1][c], about[n[0] + c] = fabsf(of[0][c]);
    }
    *facts = (struct mo_norm_facts){norm->output[0], n[0], about, about + n[0]};
    conv->output[0] = norm->output[0];
    return true;
}

int mo_fold_norms(struct mo_edit *e, struct mo_norm_list *facts) {
    struct mo_edit_nodes kept = {0};
    *facts = (struct mo_norm_list){.at = mo_edit_memory(e, (e->graph->n_node + 1) * sizeof *facts->at)};
    for (size_t i = 0; i < e->graph->n_node && !e->rc; i++) {
        Onnx__NodeProto *node = e->graph->node[i];
        if (fold(e, node, &facts->at[facts->n]))
            facts->n++;
        else
            mo_edit_push(e, &kept, node);
    }
    mo_edit_replace(e, &kept);
    return e->rc;
}

/* --- equalization --- */

struct pair {
    Onnx__NodeProto *first, *second;
    int64_t channels; /* between them */
    float *w1, *b1, *w2;
    int64_t out1;          /* elements of w1 a channel */
    int64_t in2, out2, k2; /* of w2: channels that one output reads, outputs, taps */
};

static bool find_pair(struct mo_edit *e, Onnx__NodeProto *second, struct pair *p) {
    int64_t n1 = 0, n2 = 0;
    const struct mo_edit_value *x = mo_edit_value(e, mo_edit_input(second, 0));
    if (!mo_edit_is(second, "Conv") || !x || x->producer < 0 || x->n_uses != 1 || x->outside) return false;
    const Onnx__NodeProto *relu = e->graph->node[x->producer];
    *p = (struct pair){.second = second};
    p->first = sole_conv(e, mo_edit_is(relu, "Relu") ? mo_edit_input(relu, 0) : x->name);
    if (!p->first || !(p->w1 = own_floats(e, p->first, 1, &n1)) || !(p->w2 = own_floats(e, second, 1, &n2)))
        return false;
    const Onnx__TensorProto *t1 = mo_edit_value(e, p->first->input[1])
                                      ? mo_edit_value(e, p->first->input[1])->constant
                                      : NULL,
                            *t2 = mo_edit_value(e, second->input[1])
                                      ? mo_edit_value(e, second->input[1])->constant
                                      : NULL;
    if (!t1 || !t2 || t1->n_dims < 3 || t2->n_dims < 3) return false;
    p->channels = t1->dims[0];
    p->out2 = t2->dims[0], p->in2 = t2->dims[1];
    const int64_t groups = mo_edit_int(second, "group", 1);
    if (p->channels <= 0 || p->out2 <= 0 || groups <= 0 || p->in2 * groups != p->channels || p->out2 % groups)
        return false;
    p->out1 = n1 / p->channels, p->k2 = n2 / (p->out2 * p->in2);
    p->b1 = own_bias(e, p->first, p->channels);
    return p->b1;
}

/* Largest filter value that reads channel c, or all of them times `factor`. */
static float reader(const struct pair *p, int64_t c, float factor) {
    const int64_t groups = p->channels / p->in2, each = p->out2 / groups, g = c / p->in2;
    float most = 0;
    for (int64_t o = g * each; o < (g + 1) * each; o++)
        for (int64_t k = 0; k < p->k2; k++) {
            float *w = &p->w2[(o * p->in2 + c % p->in2) * p->k2 + k];
            *w *= factor;
            most = fmaxf(most, fabsf(*w));
        }
    return most;
}

/* The largest change of a factor from 1. */
static float equalize(const struct pair *p) {
    float change = 0;
    for (int64_t c = 0; c < p->channels; c++) {
        float *w = p->w1 + c * p->out1, most = 0;
        for (int64_t k = 0; k < p->out1; k++)
            most = fmaxf(most, fabsf(w[k]));
        const float other = reader(p, c, 1);
        if (!(most > 0) || !(other > 0)) continue;
        const float factor = sqrtf(most * other) / most; /* r1 becomes sqrt(r1 r2) */
        for (int64_t k = 0; k < p->out1; k++)
            w[k] *= factor;
        p->b1[c] *= factor;
        reader(p, c, 1 / factor);
        change = fmaxf(change, fabsf(factor - 1));
    }
    return change;
}

int mo_equalize(struct mo_edit *e) {
    int pairs = 0;
    for (int round = 0; round < ROUNDS && !e->rc; round++) {
        float change = 0;
        pairs = 0;
        for (size_t i = 0; i < e->graph->n_node && !e->rc; i++) {
            struct pair p;
            if (!find_pair(e, e->graph->node[i], &p)) continue;
            change = fmaxf(change, equalize(&p));
            pairs++;
        }
        mo_edit_index(e);
        if (change < 1e-2f) break;
    }
    return pairs;
}
