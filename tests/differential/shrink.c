/* SPDX-License-Identifier: Apache-2.0
 * shrink.c - greedy: one output, then node after node, from the first to the last and again while it helps.
 */
#include "tests/differential/shrink.h"

#include <stdlib.h>
#include <string.h>
#include "tests/differential/onnx_write.h"

enum { MOST_TRIES = 400 };

struct shrinker {
    struct dt_net *net;
    const struct dt_case *failing;
    unsigned way;
    bool *keep, *trial;
    int n_outputs, outputs[DT_PORTS];
    const uint8_t *bytes; /* of the smallest so far */
    size_t n;
    struct dt_result *result;
    int tries;
};

/* Whether the part goes wrong in the same way; then it is the smallest so far. */
static bool fails(struct shrinker *s, const bool *keep, int n_outputs, const int *outputs) {
    const struct mo_graph *g = s->failing->graph;
    struct dt_part part = {.g = g, .keep = keep, .n_outputs = n_outputs, .outputs = outputs};
    struct dt_case c;
    struct dt_result r;
    moire_error err;
    size_t n;
    if (s->tries++ > MOST_TRIES) return false;
    const uint8_t *bytes = dt_write_onnx(&part, g->region, &n);
    if (dt_case_open(s->net->env, bytes, n, s->failing->seed, NULL, &c, &err)) return false;
    dt_net_try(s->net, &c, s->way, &r);
    dt_case_close(&c);
    if (r.verdict != DT_DIFFERS) return false;
    s->bytes = bytes;
    s->n = n;
    *s->result = r;
    return true;
}

/* Marks in `trial` the nodes of `keep` that the outputs need; false: an output is made by none of them. */
static bool needed(struct shrinker *s, int n_outputs, const int *outputs) {
    const struct mo_graph *g = s->failing->graph;
    memset(s->trial, 0, (size_t)g->n_nodes);
    for (int k = g->n_nodes; k-- > 0;) {
        if (!s->keep[k]) continue;
        for (int i = 0; i < g->nodes[k]->n_out; i++) {
            int id = g->nodes[k]->out[i];
            for (int j = 0; j < n_outputs; j++)
                s->trial[k] |= outputs[j] == id;
            for (int j = k + 1; j < g->n_nodes; j++)
                for (int in = 0; s->trial[j] && in < g->nodes[j]->n_in; in++)
                    s->trial[k] |= id >= 0 && g->nodes[j]->in[in] == id;
        }
    }
    for (int j = 0; j < n_outputs; j++) {
        int by = g->tensors[outputs[j]]->producer;
        if (by < 0 || !s->trial[by]) return false;
    }
    return true;
}

static bool accept(struct shrinker *s, int n_outputs, const int *outputs) {
    int copy[DT_PORTS];
    memcpy(copy, outputs, (size_t)n_outputs * sizeof *copy);
    if (!needed(s, n_outputs, copy) || !fails(s, s->trial, n_outputs, copy)) return false;
    memcpy(s->keep, s->trial, (size_t)s->failing->graph->n_nodes);
    memcpy(s->outputs, copy, sizeof copy);
    s->n_outputs = n_outputs;
    return true;
}

static bool drop_outputs(struct shrinker *s) {
    bool better = false;
    for (int i = 0; s->n_outputs > 1 && i < s->n_outputs; i++)
        if (accept(s, 1, &s->outputs[i])) return true;
    for (int i = s->n_outputs; s->n_outputs > 1 && i-- > 0;) {
        int rest[DT_PORTS], n = 0;
        for (int k = 0; k < s->n_outputs; k++)
            if (k != i) rest[n++] = s->outputs[k];
        better |= accept(s, n, rest);
    }
    return better;
}

/* Without node k: its results become inputs, or, when they are outputs, what it reads become outputs. */
static bool drop_node(struct shrinker *s, int k) {
    const struct mo_graph *g = s->failing->graph;
    const struct mo_node *node = g->nodes[k];
    int outputs[DT_PORTS], n = 0;
    for (int j = 0; j < s->n_outputs; j++)
        if (g->tensors[s->outputs[j]]->producer != k) outputs[n++] = s->outputs[j];
    for (int i = 0; n < s->n_outputs && i < node->n_in && n < DT_PORTS; i++) {
        int by = node->in[i] < 0 ? -1 : g->tensors[node->in[i]]->producer;
        if (by >= 0 && s->keep[by]) outputs[n++] = node->in[i];
    }
    if (!n) return false;
    s->keep[k] = false;
    if (accept(s, n, outputs)) return true;
    s->keep[k] = true;
    return false;
}

const uint8_t *dt_shrink(struct dt_net *net, const struct dt_case *failing, struct dt_result *result,
                         size_t *n) {
    struct mo_graph *g = failing->graph;
    struct shrinker s = {.net = net,
                         .failing = failing,
                         .way = result->way,
                         .bytes = failing->bytes,
                         .n = failing->n,
                         .result = result};
    mo_graph_index(g);
    s.keep = mo_region_array(g->region, (size_t)g->n_nodes + 1, sizeof *s.keep);
    s.trial = mo_region_array(g->region, (size_t)g->n_nodes + 1, sizeof *s.trial);
    if (!s.keep || !s.trial) abort();
    for (int k = 0; k < g->n_nodes; k++)
        s.keep[k] = !g->nodes[k]->dead;
    s.n_outputs = g->n_outputs;
    memcpy(s.outputs, g->outputs, (size_t)g->n_outputs * sizeof *s.outputs);
    for (bool better = true; better && s.tries < MOST_TRIES;) {
        better = drop_outputs(&s);
        for (int k = 0; k < g->n_nodes; k++)
            if (s.keep[k]) better |= drop_node(&s, k);
    }
    *n = s.n;
    return s.bytes;
}
