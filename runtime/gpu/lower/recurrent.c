/* SPDX-License-Identifier: Apache-2.0
 * recurrent.c - RNN, GRU and LSTM on a GPU.
 *
 * The inputs' products of all steps and both directions are one product of the library.  The recurrence is
 * one of two:
 *   looped   one launch, a block a sequence and direction: the state lies in shared memory, and the block
 *            reads the weights anew at every step.  For weights that one SM reads about as soon as a launch
 *            takes, and batches that fill no more than a few blocks an SM.
 *   stepped  every step is a product of the library for all sequences and directions, and a kernel for what
 *            is no product.  All steps have the same text: they learn their number from a constant.
 * Neither has blocks wait for one another, so any let may run them and any graph hold them.
 *
 * The cell's text (recurrent_text.c) is one for both: it computes unit o2 of sequence o1 in direction o0 at
 * time t. */
#include <math.h>
#include <string.h>
#include "runtime/base/numbers.h"
#include "runtime/gpu/lower/recurrent_impl.h"

enum { LOOPED_WEIGHTS = 512 << 10 /* bytes of a direction */, LOOPED_BLOCKS = 64, WARP = 32, THREADS = 1024 };

static void initial_text(struct mo_recurrent_job *j, const char *to, enum mo_part part) {
    mo_gpu_printf(&j->e.body, "    %s = ", to);
    if (mo_recurrent_has(j, part))
        mo_recurrent_value(j, part, mo_each_here);
    else
        mo_gpu_printf(&j->e.body, "0");
    mo_gpu_printf(&j->e.body, ";\n");
}

/* --- one launch ----------------------------------------------------------------------------------------- */

/* sums[] of the state by the weights, and a barrier before and behind. */
static void product_text(struct mo_recurrent_job *j) {
    struct mo_gpu_text *t = &j->e.body;
    const int64_t columns = j->r.gates * j->r.hidden;
    mo_gpu_printf(t,
                  "    MO_SYNC();\n    for (int k = me; k < %lld; k += %d) {\n    float v = 0;\n"
                  "    for (int i = 0; i < %lld; i++) v += state[i] * ",
                  (long long)columns, j->e.threads, (long long)j->r.hidden);
    mo_recurrent_value(j, MO_PART_WEIGHTS, MO_AT("o0", "k", "i"));
    mo_gpu_printf(t, ";\n    sums[k] = v;\n    }\n    MO_SYNC();\n");
}

static void each_unit(struct mo_recurrent_job *j) {
    mo_gpu_printf(&j->e.body, "    for (int o2 = me; o2 < %lld; o2 += %d) {\n", (long long)j->r.hidden,
                  j->e.threads);
}

static void looped_body(struct mo_recurrent_job *j) {
    const struct mo_recurrent *r = &j->r;
    struct mo_gpu_text *t = &j->e.body;
    const bool lstm = r->cell == MO_CELL_LSTM;
    mo_gpu_printf(t, "    MO_SHARED float sums[%lld];\n", (long long)r->gates * r->hidden);
    mo_gpu_printf(t, "    MO_SHARED float state[%lld];\n", (long long)r->hidden);
    if (lstm) mo_gpu_printf(t, "    MO_SHARED float cell[%lld];\n", (long long)r->hidden);
    mo_gpu_printf(t,
                  "    const int me = (int)threadIdx.x, o1 = (int)blockIdx.x %% %lld, o0 = (int)blockIdx.x / "
                  "%lld;\n",
                  (long long)r->batch, (long long)r->batch);
    each_unit(j);
    initial_text(j, "state[o2]", MO_PART_INITIAL_H);
    if (lstm) initial_text(j, "cell[o2]", MO_PART_INITIAL_C);
    mo_gpu_printf(t, "    }\n    for (int step = 0; step < %lld; step++) {\n", (long long)r->seq);
    mo_recurrent_time(j);
    product_text(j);
    each_unit(j);
    mo_recurrent_cell(j);
    mo_gpu_printf(t, "    state[o2] = next;\n");
    if (lstm) mo_gpu_printf(t, "    cell[o2] = next_c;\n");
    mo_recurrent_store(j, MO_PART_ALL_H, MO_AT("when", "o0", "o1", "o2"), "next");
    mo_gpu_printf(t, "    }\n    }\n    MO_SYNC();\n");
    each_unit(j);
    mo_recurrent_store(j, MO_PART_LAST_H, mo_each_here, "state[o2]");
    if (lstm) mo_recurrent_store(j, MO_PART_LAST_C, mo_each_here, "cell[o2]");
    mo_gpu_printf(t, "    }\n");
}

/* Weights with neighbouring gates together: [D][H][gates H]. */
static struct mo_gpu_view turned_weights(struct mo_recurrent_job *j) {
    static const int order[] = {0, 2, 1};
    struct mo_lower *l = j->l;
    const int id = l->node->in[MO_RECURRENT_R];
    if (!l->graph->tensors[id]->data)
        return mo_lower_ordered(l, mo_lower_in(l, MO_RECURRENT_R), order, l->storage);
    struct mo_gpu_view v = mo_lower_weight(l, id, MO_FORM_TRANSPOSED, l->storage);
    if (l->rc) return v;
    v.stride[1] = 1;
    v.stride[2] = v.d[1];
    return v;
}

static void in_one_launch(struct mo_recurrent_job *j) {
    const struct mo_recurrent *r = &j->r;
    const int64_t columns = r->gates * r->hidden;
    j->part[MO_PART_WEIGHTS] = turned_weights(j);
    if (j->l->rc) return;
    mo_recurrent_begin(j, &j->part[MO_PART_INPUTS]);
    j->e.blocks = r->directions * r->batch;
    j->e.threads = columns < THREADS ? (int)mo_round_up(columns, WARP) : THREADS;
    j->e.flops = 2 * r->directions * r->batch * r->seq * columns * r->hidden;
    looped_body(j);
    mo_each_done(j->l, &j->e);
}

/* --- step by step --------------------------------------------------------------------------------------- */

/* States as initial values have them. */
static void start(struct mo_recurrent_job *j) {
    mo_recurrent_begin(j, &j->part[MO_PART_STATE_H]);
    initial_text(j, "const float h", MO_PART_INITIAL_H);
    mo_recurrent_store(j, MO_PART_STATE_H, mo_each_here, "h");
    mo_recurrent_store(j, MO_PART_OPERAND, mo_each_here, "h");
    if (mo_recurrent_has(j, MO_PART_STATE_C)) {
        initial_text(j, "const float c", MO_PART_INITIAL_C);
        mo_recurrent_store(j, MO_PART_STATE_C, mo_each_here, "c");
    }
    mo_each_done(j->l, &j->e);
}

/* A kernel of one step. */
static void step_kernel(struct mo_recurrent_job *j) {
    struct mo_gpu_text *t = &j->e.body;
    mo_recurrent_begin(j, &j->part[MO_PART_STATE_H]);
    mo_gpu_printf(t, "    const int step = (int)");
    mo_recurrent_value(j, MO_PART_STEP, MO_AT("0"));
    mo_gpu_printf(t, ";\n");
    mo_recurrent_time(j);
    mo_recurrent_cell(j);
    mo_recurrent_store(j, MO_PART_STATE_H, mo_each_here, "next");
    mo_recurrent_store(j, MO_PART_OPERAND, mo_each_here, "next");
    mo_recurrent_store(j, MO_PART_STATE_C, mo_each_here, "next_c");
    mo_recurrent_store(j, MO_PART_ALL_H, MO_AT("when", "o0", "o1", "o2"), "next");
    mo_each_done(j->l, &j->e);
}

/* The state by the weights, for all sequences and directions. */
static void step_product(struct mo_recurrent_job *j, const struct mo_gpu_matrix *weights, bool transposed) {
    const enum mo_part from = mo_recurrent_has(j, MO_PART_OPERAND) ? MO_PART_OPERAND : MO_PART_STATE_H;
    static const struct mo_fuse none = {.residual = -1};
    const struct mo_recurrent *r = &j->r;
    const bool both = r->directions > 1;
    const struct mo_gpu_view *to = &j->part[MO_PART_SUMS];
    const int64_t columns = to->d[2];
    const struct mo_gpu_gemm g = {
        .count = r->directions,
        .m = r->batch,
        .n = columns,
        .k = r->hidden,
        .transposed = transposed,
        .alpha = 1,
        .a = {.at = j->part[from].place, .row = r->hidden, .step = both ? r->batch * r->hidden : 0},
        .b = *weights,
        .d = {.at = to->place, .row = columns, .step = both ? r->batch * columns : 0}};
    mo_lower_gemm(j->l, &g, to, NULL, &none);
}

static void new_part(struct mo_recurrent_job *j, enum mo_part part, moire_dtype dtype, int64_t columns) {
    const int64_t d[3] = {j->r.directions, j->r.batch, columns};
    j->part[part] = mo_lower_new(j->l, dtype, 3, d, NULL);
}

static void new_parts(struct mo_recurrent_job *j) {
    const struct mo_recurrent *r = &j->r;
    const moire_dtype storage = j->l->storage;
    new_part(j, MO_PART_STATE_H, MOIRE_F32, r->hidden);
    if (r->cell == MO_CELL_LSTM) new_part(j, MO_PART_STATE_C, MOIRE_F32, r->hidden);
    if (storage != MOIRE_F32) new_part(j, MO_PART_OPERAND, storage, r->hidden);
    new_part(j, MO_PART_SUMS, storage, r->gates * r->hidden);
}

static struct mo_gpu_view numbers_of_steps(struct mo_recurrent_job *j) {
    struct mo_gpu_view v = {.rank = -1};
    int32_t *number = mo_alloc(j->l->env, (size_t)j->r.seq * sizeof *number);
    if (!number) mo_lower_fail(j->l, MOIRE_ENOMEM, "out of memory");
    for (int64_t i = 0; i < j->r.seq && number; i++)
        number[i] = (int32_t)i;
    if (number) v = mo_lower_numbers(j->l, MOIRE_I32, j->r.seq, number);
    mo_free(j->l->env, number);
    return v;
}

static void step_by_step(struct mo_recurrent_job *j) {
    static const int turn[] = {0, 2, 1};
    const struct mo_gpu_view steps = numbers_of_steps(j), r = mo_lower_stored(j->l, MO_RECURRENT_R);
    bool flip = false;
    if (j->l->rc) return;
    const struct mo_gpu_matrix weights = mo_lower_operand(j->l, mo_gpu_permute(&r, turn), &flip);
    new_parts(j);
    if (j->l->rc) return;
    start(j);
    for (int64_t s = 0; s < j->r.seq && !j->l->rc; s++) {
        j->part[MO_PART_STEP] = mo_gpu_slice(&steps, 0, s, 1, 1);
        step_product(j, &weights, flip);
        step_kernel(j);
    }
    if (mo_recurrent_has(j, MO_PART_LAST_H))
        mo_lower_copy(j->l, &j->part[MO_PART_STATE_H], &j->part[MO_PART_LAST_H]);
    if (mo_recurrent_has(j, MO_PART_LAST_C))
        mo_lower_copy(j->l, &j->part[MO_PART_STATE_C], &j->part[MO_PART_LAST_C]);
}

/* --- the operator --------------------------------------------------------------------------------------- */

/* The inputs' products: [steps][sequences][directions][gates and units], or the first two turned round. */
static void inputs_of(struct mo_recurrent_job *j) {
    static const struct mo_fuse none = {.residual = -1};
    static const int columns[] = {1, 0}, turn[] = {1, 0, 2, 3};
    const struct mo_recurrent *r = &j->r;
    struct mo_lower *l = j->l;
    struct mo_gpu_view x = mo_lower_in(l, MO_RECURRENT_X), w = mo_lower_stored(l, MO_RECURRENT_W), rows;
    if (l->rc) return;
    x = mo_lower_ordered(l, x, NULL, l->storage);
    if (w.place.space != MO_GPU_WEIGHT) w = mo_lower_ordered(l, w, NULL, l->storage);
    struct mo_gpu_gemm g = {.count = 1,
                            .m = r->seq * r->batch,
                            .n = r->directions * r->gates * r->hidden,
                            .k = r->in,
                            .alpha = 1};
    const int64_t d[4] = {x.d[0], x.d[1], r->directions, r->gates * r->hidden};
    struct mo_gpu_view y = mo_lower_new(l, l->storage, 4, d, NULL);
    if (l->rc || !mo_gpu_reshape(&x, 2, (int64_t[]){g.m, g.k}, &rows)) return;
    g.a = mo_lower_operand(l, rows, NULL);
    if (!mo_gpu_reshape(&w, 2, (int64_t[]){g.n, g.k}, &rows)) return;
    g.b = mo_lower_operand(l, mo_gpu_permute(&rows, columns), &g.transposed);
    g.d = (struct mo_gpu_matrix){.at = y.place, .row = g.n};
    mo_lower_gemm(l, &g, &y, NULL, &none);
    j->part[MO_PART_INPUTS] = r->batch_first ? mo_gpu_permute(&y, turn) : y;
}

/* Optional operands, and outputs that are asked for; batch first is only another view. */
static void ports_of(struct mo_recurrent_job *j) {
    static const int state[] = {1, 0, 2}, all[] = {1, 2, 0, 3};
    static const struct {
        enum mo_part part;
        int port;
        bool out;
        const int *turn;
    } ports[] = {{MO_PART_BIAS, MO_RECURRENT_BIAS, false, NULL},
                 {MO_PART_INITIAL_H, MO_RECURRENT_INITIAL_H, false, state},
                 {MO_PART_INITIAL_C, MO_RECURRENT_INITIAL_C, false, state},
                 {MO_PART_ALL_H, MO_RECURRENT_Y, true, all},
                 {MO_PART_LAST_H, MO_RECURRENT_Y_H, true, state},
                 {MO_PART_LAST_C, MO_RECURRENT_Y_C, true, state}};
    const struct mo_node *node = j->l->node;
    for (size_t i = 0; i < sizeof ports / sizeof *ports && !j->l->rc; i++) {
        struct mo_gpu_view *v = &j->part[ports[i].part];
        const int k = ports[i].port;
        if (ports[i].out ? k >= node->n_out || node->out[k] < 0 : !mo_lower_has(j->l, k)) continue;
        *v = ports[i].out ? mo_lower_out(j->l, k, NULL) : mo_lower_in(j->l, k);
        if (j->r.batch_first && ports[i].turn && v->rank >= 0) *v = mo_gpu_permute(v, ports[i].turn);
    }
}

/* With the functions that ONNX takes where none are given, for whole sequences, without clipping, peepholes,
 * coupled gates or a reset gate before the product: all else is left to cores. */
static bool is_plain(struct mo_lower *l, const struct mo_recurrent *r) {
    static const char *const functions[] = {"Sigmoid", "Tanh", "Tanh"};
    const bool rnn = r->cell == MO_CELL_RNN;
    bool plain = isinf(r->clip) && (r->cell != MO_CELL_GRU || r->before_reset) && !r->input_forget &&
                 !mo_lower_has(l, MO_RECURRENT_LENGTHS) && !mo_lower_has(l, MO_RECURRENT_PEEPHOLES);
    for (int i = 0; i < r->acts * r->directions; i++)
        plain = plain && !strcmp(r->act[i / r->acts][i % r->acts].name, functions[rnn ? 1 : i % r->acts]);
    return plain;
}

void mo_lower_recurrent(struct mo_lower *l) {
    struct mo_value in[MO_RECURRENT_INPUTS];
    const struct mo_op_ctx ctx = mo_lower_ctx(l, in, MO_RECURRENT_INPUTS);
    struct mo_recurrent_job j = {.l = l};
    if (in[MO_RECURRENT_X].dtype != MOIRE_F32)
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "%s is not supported by this operator on a GPU",
                      mo_dtype_name(in[MO_RECURRENT_X].dtype));
    if (!l->rc) l->rc = mo_recurrent_describe(&ctx, &j.r);
    for (int i = 0; i < MO_PARTS; i++)
        j.part[i].rank = -1;
    if (!l->rc && !is_plain(l, &j.r))
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "this form of the operator is not supported on a GPU");
    if (l->rc) return;
    j.looped = j.r.gates * j.r.hidden * j.r.hidden * (int64_t)mo_dtype_bytes(l->storage) <= LOOPED_WEIGHTS &&
               j.r.directions * j.r.batch <= LOOPED_BLOCKS;
    inputs_of(&j);
    ports_of(&j);
    if (l->rc) return;
    if (j.looped)
        in_one_launch(&j);
    else
        step_by_step(&j);
}
