/* SPDX-License-Identifier: Apache-2.0
 * find_ranges.c - see find_ranges.h.  Points become outputs of a copy of the model, which then runs by the
 * usual kernels. */
#include "codegen/quantize/find_ranges.h"

#include <math.h>
#include <string.h>

enum { DEVIATIONS = 6 };

int mo_quantize_tell(const struct mo_quantize_progress *p, const char *stage, int done, int total,
                     moire_error *err) {
    if (!p->tell || p->tell(p->ctx, stage, done, total)) return MOIRE_OK;
    return mo_fail(err, MOIRE_EINTERRUPTED, "interrupted while %s", stage);
}

static int id_of(const struct mo_edit *e, const char *name) {
    const struct mo_edit_value *v = mo_edit_value(e, name);
    return v ? (int)(v - e->values) : -1;
}

/* --- a copy with more outputs --- */

static bool is_output(const Onnx__GraphProto *g, const char *name) {
    for (size_t i = 0; i < g->n_output; i++)
        if (!strcmp(g->output[i]->name, name)) return true;
    return false;
}

static bool is_input(const Onnx__GraphProto *g, const char *name) {
    for (size_t i = 0; i < g->n_input; i++)
        if (!strcmp(g->input[i]->name, name)) return true;
    return false;
}

static Onnx__ValueInfoProto *port(struct mo_edit *e, const char *name) {
    Onnx__ValueInfoProto *info = mo_edit_memory(e, sizeof *info);
    Onnx__TypeProto *type = mo_edit_memory(e, sizeof *type);
    Onnx__TypeProto__Tensor *tensor = mo_edit_memory(e, sizeof *tensor);
    if (e->rc) return NULL;
    onnx__value_info_proto__init(info);
    onnx__type_proto__init(type);
    onnx__type_proto__tensor__init(tensor);
    tensor->has_elem_type = 1;
    tensor->elem_type = MOIRE_F32;
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = tensor;
    info->name = (char *)name;
    info->type = type;
    return info;
}

static void add_outputs(struct mo_edit *e, const struct mo_points *points) {
    Onnx__GraphProto *g = e->graph;
    Onnx__ValueInfoProto **list = mo_edit_memory(e, (g->n_output + (size_t)points->n + 1) * sizeof *list);
    size_t n = g->n_output;
    if (!list) return;
    memcpy(list, g->output, n * sizeof *list);
    for (int i = 0; i < points->n; i++) {
        const char *name = e->values[i].name;
        if (points->is[i] && !is_output(g, name) && !is_input(g, name)) list[n++] = port(e, name);
    }
    g->output = list;
    g->n_output = n;
}

/* --- what they say --- */

struct point {
    struct mo_tally tally;
    int axis; /* of channels, for the means; -1: none are wanted */
    int64_t channels, n;
    double *sum;
};

struct work {
    struct mo_edit *e; /* the original */
    struct mo_points *points;
    struct point **at; /* by value */
};

static void add_means(struct work *w, struct point *p, const moire_tensor *t) {
    int axis = p->axis < 0 ? -1 : p->axis == 1 ? 1 : t->rank - 1;
    if (axis < 0 || axis >= t->rank) return;
    int64_t outer = 1, inner = 1, c = t->shape[axis];
    for (int i = 0; i < t->rank; i++)
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : t->shape[i];
    if (!p->sum) p->channels = c, p->sum = mo_edit_memory(w->e, (size_t)c * sizeof *p->sum);
    if (!p->sum || c != p->channels) return;
    const float *x = t->data;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < c; k++) {
            double sum = 0;
            for (int64_t i = 0; i < inner; i++)
                sum += (double)x[(o * c + k) * inner + i];
            p->sum[k] += sum;
        }
    p->n += outer * inner;
}

static void hear(struct work *w, const char *name, const moire_tensor *t) {
    int id = id_of(w->e, name);
    if (id < 0 || !w->points->is[id]) return;
    if (t->dtype != MOIRE_F32) {
        w->points->is[id] = false;
        return;
    }
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->shape[i];
    if (n <= 0 || !t->data) return;
    mo_tally_add(&w->at[id]->tally, t->data, n);
    add_means(w, w->at[id], t);
}

static int hear_all(struct work *w, struct mo_qprobe *probe, const struct mo_model_samples *samples,
                    const struct mo_quantize_progress *progress) {
    struct mo_edit *e = w->e;
    for (int s = 0; !e->rc && s < samples->n; s++) {
        e->rc = mo_quantize_tell(progress, "calibrating", s, samples->n, e->err);
        if (!e->rc) e->rc = mo_qprobe_run(probe, samples, s, e->err);
        for (int i = 0; !e->rc && i < samples->n_in; i++)
            hear(w, samples->name[i], &samples->at[s].in[i]);
        for (int i = 0; !e->rc && i < mo_qprobe_outputs(probe); i++) {
            moire_tensor t;
            const char *name = mo_qprobe_output(probe, i, &t);
            hear(w, name, &t);
        }
    }
    return e->rc ? e->rc : mo_quantize_tell(progress, "calibrating", samples->n, samples->n, e->err);
}

static void make_tallies(struct work *w, const struct mo_qlayers *layers) {
    struct mo_edit *e = w->e;
    w->at = mo_edit_memory(e, ((size_t)w->points->n + 1) * sizeof *w->at);
    for (int i = 0; !e->rc && i < w->points->n; i++) {
        if (!w->points->is[i]) continue;
        w->at[i] = mo_edit_memory(e, sizeof **w->at);
        if (w->at[i]) w->at[i]->axis = -1;
    }
    for (int i = 0; !e->rc && i < layers->n; i++) {
        int x = id_of(e, e->graph->node[layers->at[i].node]->input[0]);
        if (x >= 0 && w->at[x]) w->at[x]->axis = layers->at[i].rows ? 0 : 1;
    }
}

int mo_quantize_calibrate(struct mo_edit *e, const struct mo_qlayers *layers, struct mo_points *points,
                          const struct mo_model_samples *samples, enum mo_range_method method,
                          const struct mo_quantize_progress *progress, struct mo_qrange *range,
                          int64_t *n_bad) {
    struct mo_edit copy;
    struct work w = {.e = e, .points = points};
    uint8_t *bytes = NULL;
    size_t n = 0;
    *n_bad = 0;
    make_tallies(&w, layers);
    if (e->rc) return e->rc;
    e->rc = mo_edit_branch(e, &copy);
    if (!e->rc) add_outputs(&copy, points);
    if (!e->rc) e->rc = mo_edit_pack(&copy, &bytes, &n);
    struct mo_qprobe probe = mo_qprobe_of(e->env, bytes, n);
    if (!e->rc) e->rc = hear_all(&w, &probe, samples, progress);
    mo_qprobe_close(&probe);
    mo_edit_close(&copy);
    for (int i = 0; !e->rc && i < points->n; i++) {
        struct point *p = w.at[i];
        if (!points->is[i] || !p) continue;
        *n_bad += p->tally.n_bad;
        range[i].known = p->tally.n > 0;
        mo_tally_range(&p->tally, method, &range[i].lo, &range[i].hi);
        for (int64_t c = 0; p->sum && p->n && c < p->channels; c++)
            p->sum[c] /= (double)p->n;
        range[i].mean = p->sum;
        range[i].channels = p->sum && p->n ? p->channels : 0;
    }
    return e->rc;
}

/* --- without data --- */

/* What a Relu or Clip that reads `name` alone leaves of a range; the value it makes. */
static int cut(struct mo_edit *e, int id, struct mo_qrange *r) {
    const struct mo_edit_value *v = &e->values[id];
    const Onnx__NodeProto *node = v->n_uses == 1 && v->last_use >= 0 ? e->graph->node[v->last_use] : NULL;
    if (!node || v->outside || !(mo_edit_is(node, "Relu") || mo_edit_is(node, "Clip"))) return -1;
    float lo = 0, hi = INFINITY;
    if (mo_edit_is(node, "Clip")) {
        int64_t n;
        const float *a = mo_edit_floats(e, mo_edit_input(node, 1), &n),
                    *b = mo_edit_floats(e, mo_edit_input(node, 2), &n);
        lo = a ? *a : -INFINITY, hi = b ? *b : INFINITY;
    }
    r->lo = fmaxf(r->lo, lo);
    r->hi = fminf(r->hi, hi);
    return id_of(e, node->output[0]);
}

int mo_quantize_by_norms(struct mo_edit *e, const struct mo_norm_list *norms, const struct mo_points *points,
                         struct mo_qrange *range) {
    int n = 0;
    for (size_t k = 0; k < norms->n; k++) {
        struct mo_qrange r = {.known = true};
        for (int64_t c = 0; c < norms->at[k].channels; c++) {
            const float mean = norms->at[k].mean[c], far = DEVIATIONS * norms->at[k].deviation[c];
            r.lo = fminf(r.lo, mean - far);
            r.hi = fmaxf(r.hi, mean + far);
        }
        int id = id_of(e, norms->at[k].name), last = id;
        while (last >= 0 && !points->is[last])
            last = cut(e, last, &r);
        if (last < 0) continue;
        range[last].known = true;
        range[last].lo = fminf(r.lo, 0), range[last].hi = fmaxf(r.hi, 0);
        n++;
    }
    return n;
}

void mo_unite_ranges(const struct mo_points *points, const struct mo_qrange *own, struct mo_qrange *united) {
    memcpy(united, own, (size_t)points->n * sizeof *own);
    for (int i = 0; i < points->n; i++) {
        int to = points->tie[i];
        if (!points->is[i] || to == i) continue;
        united[to].lo = fminf(united[to].lo, own[i].lo);
        united[to].hi = fmaxf(united[to].hi, own[i].hi);
        united[to].known = united[to].known || own[i].known;
    }
}
