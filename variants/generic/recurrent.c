/* SPDX-License-Identifier: Apache-2.0
 * recurrent.c - binds moire.RNN, GRU and LSTM: constant R, fused activations, lengths that somebody has
 * checked.  A unit steps through some sequences in one direction.
 *
 * Few sequences make few units.  A step of theirs is cut by states instead, in a round for each step, where
 * that is worth handing every step over: R is long, and a part of it may fit a private cache that R does not.
 * Not so where lengths differ, or where a step has two products after each other. */
#include <math.h>
#include <string.h>
#include "variants/generic/bind.h"
#include "variants/packed.h"

/* Sequences of a unit; and of the units that a call takes through their steps together, so that weights are
 * read once for all of them: their sums are to stay in a private cache beside those. */
enum { PIECE = 4, MOST = 28, SLACK = 16 };
/* Flops of a worker's piece of a round, at least: some 0.5 us, where a round costs 0.3 us. */
enum { ROUND_FLOPS = 45000 };

static bool is_constant(const struct mo_tensor *t) {
    return !t || (mo_f32(t) && t->data);
}

/* The kernel trusts them. */
static bool are_checked(const struct mo_graph *g, const struct mo_tensor *t, int64_t most) {
    if (!t) return true;
    const struct mo_node *from = t->producer < 0 ? NULL : g->nodes[t->producer];
    if (t->dtype != MOIRE_I32 || t->dynamic) return false;
    if (!t->data) return from && mo_node_is_ours(from, "Lengths") && mo_attr_int(from, "most", -1) == most;
    for (int64_t i = 0; i < mo_shape_count(&t->shape); i++)
        if (((const int32_t *)t->data)[i] < 0 || ((const int32_t *)t->data)[i] > most) return false;
    return true;
}

static unsigned layouts(const struct mo_graph *g, const struct mo_node *node) {
    struct mo_recurrent l = {0};
    if (!mo_node_is_ours(node, "RNN") && !mo_node_is_ours(node, "GRU") && !mo_node_is_ours(node, "LSTM"))
        return 0;
    const struct mo_tensor *r = mo_node_in(g, node, MO_RECURRENT_W);
    if (!mo_f32(mo_node_in(g, node, MO_RECURRENT_X)) || !r || !is_constant(r)) return 0;
    if (!is_constant(mo_node_in(g, node, MO_RECURRENT_BIAS)) ||
        !is_constant(mo_node_in(g, node, MO_RECURRENT_PEEPHOLES)))
        return 0;
    for (int i = MO_RECURRENT_INITIAL_H; i <= MO_RECURRENT_INITIAL_C; i++)
        if (mo_node_in(g, node, i) && !mo_f32(mo_node_in(g, node, i))) return 0;
    if (!mo_recurrent_of(g, node, &l) || !mo_recurrent_is_fused(node)) return 0;
    return are_checked(g, mo_node_in(g, node, MO_RECURRENT_LENGTHS), l.seq) ? MO_CAN_PLAIN : 0;
}

static bool is_plain(const struct mo_graph *g, const struct mo_tensor *t) {
    return !t || (t->layout == MO_PLAIN && mo_dense(g, t));
}

static bool all_plain(const struct mo_graph *g, const struct mo_node *node) {
    bool all = true;
    for (int i = 0; i < node->n_in; i++)
        all = all && is_plain(g, mo_node_in(g, node, i));
    for (int i = 0; i < node->n_out; i++)
        all = all && is_plain(g, mo_node_out(g, node, i));
    return all;
}

/* A constant operand stays with the layer: the plan may release the model's. */
static bool keep(const struct mo_binder *binder, const struct mo_node *node, int i, const void **to) {
    const struct mo_tensor *t = mo_node_in(binder->graph, node, i);
    if (!t || !t->data) return true;
    *to = mo_keep(binder, t->data, (size_t)mo_tensor_bytes(t));
    return *to;
}

/* Panels of every gate by themselves: [direction][gate][hidden/16][hidden][16], zeros beyond `hidden`. */
static float *pack(const struct mo_binder *binder, const struct mo_node *node, const struct mo_recurrent *l,
                   int64_t padded) {
    const struct mo_tensor *r = mo_node_in(binder->graph, node, MO_RECURRENT_W);
    const int64_t n = l->hidden, gates = l->directions * l->gates;
    bool filled;
    float *to = mo_packed_take(binder->graph, node, binder->region, MO_FORM_RECURRENT,
                               (size_t)(gates * padded * n) * sizeof *to, &filled);
    for (int64_t i = 0; to && !filled && i < gates * n; i++) {
        const float *row = (const float *)r->data + i * n;
        float *column = to + (i / n * padded + i % n / 16 * 16) * n + i % n % 16;
        for (int64_t k = 0; k < n; k++)
            column[k * 16] = row[k];
    }
    return to;
}

static void set_activations(const struct mo_recurrent *l, struct mo_recurrent_params *p) {
    for (int d = 0; d < l->directions; d++) {
        p->backward[d] = d == 1 || l->reverse;
        for (int i = 0; i < l->acts; i++)
            p->act[d][i] = (struct mo_fuse){.act = l->act[d][i].fused,
                                            .a = (float)l->act[d][i].a,
                                            .b = (float)l->act[d][i].b,
                                            .residual = -1};
    }
}

static void set_strides(const struct mo_recurrent *l, struct mo_recurrent_params *p) {
    const int64_t columns = l->directions * l->gates * l->hidden, states = l->directions * l->hidden;
    p->x_step = l->batch_first ? columns : l->batch * columns;
    p->x_row = l->batch_first ? l->seq * columns : columns;
    p->y_step = l->batch_first ? states : l->batch * states;
    p->y_row = l->batch_first ? l->seq * states : l->hidden;
    p->y_way = l->batch_first ? l->hidden : l->batch * l->hidden;
    p->state_row = l->batch_first ? states : l->hidden;
    p->state_way = l->batch_first ? l->hidden : l->batch * l->hidden;
}

/* States before the first step, of all directions. */
static void begin_rounds(const struct mo_kargs *args, void *shared) {
    const struct mo_recurrent_params *p = args->params;
    const int64_t side = p->batch * p->padded;
    for (int64_t way = 0; way < p->directions; way++) {
        float *const place = (float *)shared + way * MO_RECURRENT_PLACES * side;
        memset(place, 0, (size_t)(MO_RECURRENT_PLACES * side) * sizeof *place);
        for (int i = 0; i < 2; i++) {
            const float *from = p->first[i] ? p->first[i] : args->in[MO_RECURRENT_INITIAL_H + i];
            for (int64_t row = 0; from && row < p->batch; row++)
                memcpy(place + 2 * i * side + row * p->padded, from + way * p->state_way + row * p->state_row,
                       (size_t)p->hidden * sizeof *from);
        }
    }
}

/* Rounds in place of units, for teams that have more workers; false: out of memory. */
static bool add_rounds(const struct mo_binder *binder, const struct mo_node *node,
                       const struct mo_recurrent_params *p, struct mo_step *step) {
    const bool twice = p->cell == MO_CELL_GRU && !p->before_reset;
    if (p->pieces > 1 || twice || mo_node_in(binder->graph, node, MO_RECURRENT_LENGTHS)) return true;
    struct mo_rounds rounds = {
        .n = p->seq,
        .units = p->directions * (p->padded / 16),
        .pieces = 2 * p->directions * p->batch * p->gates * p->hidden * p->hidden / ROUND_FLOPS,
        .shared_bytes = p->directions * MO_RECURRENT_PLACES * p->batch * p->padded * (int64_t)sizeof(float),
        .begin = begin_rounds,
        .run = mo_simd_of(binder->isa)->recurrent_round};
    if (rounds.pieces > rounds.units) rounds.pieces = rounds.units;
    if (rounds.pieces > p->directions) step->rounds = mo_keep(binder, &rounds, sizeof rounds);
    return rounds.pieces <= p->directions || step->rounds;
}

static int bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                moire_error *err) {
    struct mo_recurrent l = {0};
    if (!mo_recurrent_of(binder->graph, node, &l) || !all_plain(binder->graph, node))
        return MOIRE_EUNSUPPORTED;
    struct mo_recurrent_params p = {.cell = l.cell,
                                    .gates = l.gates,
                                    .directions = l.directions,
                                    .before_reset = l.before_reset,
                                    .input_forget = l.input_forget,
                                    .clip = (float)l.clip,
                                    .seq = l.seq,
                                    .batch = l.batch,
                                    .hidden = l.hidden,
                                    .padded = (l.hidden + 15) / 16 * 16};
    p.pieces = (l.batch + PIECE - 1) / PIECE;
    p.most = l.batch < MOST ? l.batch : MOST;
    set_activations(&l, &p);
    set_strides(&l, &p);
    step->weights = pack(binder, node, &l, p.padded);
    if (!step->weights) return mo_packed_fault(binder->graph, node, err);
    if (!keep(binder, node, MO_RECURRENT_LENGTHS, (const void **)&p.lengths) ||
        !keep(binder, node, MO_RECURRENT_INITIAL_H, (const void **)&p.first[0]) ||
        !keep(binder, node, MO_RECURRENT_INITIAL_C, (const void **)&p.first[1]) ||
        !keep(binder, node, MO_RECURRENT_PEEPHOLES, (const void **)&p.peep) ||
        !keep(binder, node, MO_RECURRENT_BIAS, (const void **)&p.bias))
        return mo_fail(err, MOIRE_ENOMEM, "out of memory for the constants of node '%s'", node->name);
    step->scratch_bytes = 4 * (p.most * ((l.gates + 3) * p.padded + l.hidden) + SLACK);
    step->joint = p.pieces > 1;
    if (!add_rounds(binder, node, &p, step))
        return mo_fail(err, MOIRE_ENOMEM, "out of memory for the rounds of node '%s'", node->name);
    return mo_bound(step, mo_simd_of(binder->isa)->recurrent, "recurrent", mo_keep(binder, &p, sizeof p),
                    l.directions * p.pieces, err);
}

const struct mo_family mo_family_recurrent = {"recurrent", layouts, bind};
