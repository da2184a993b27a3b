/* SPDX-License-Identifier: Apache-2.0
 * recurrent.c - RNN, GRU and LSTM on a GPU.
 *
 * The inputs' products of all steps and both directions are one product of the library.  Then every step is a
 * product of the library, the state by the weights for all sequences and directions, and a kernel for what is
 * no product: the equations of the ONNX operator pages for unit o2 of sequence o1 in direction o0.  The
 * kernels of all steps have the same text: they learn their number from a constant. */
#include <math.h>
#include <string.h>
#include "runtime/gpu/lower/lower.h"
#include "runtime/ops/recurrent.h"

/* What kernels read and write, by the coordinates that follow: d direction, b sequence, t time, j unit, g
 * gate and unit. */
enum part {
    STEP,      /* 0 */
    INPUTS,    /* t, b, d, g: the inputs' products */
    BIAS,      /* d, g (of the inputs' products, then of the states') */
    INITIAL_H, /* d, b, j */
    INITIAL_C,
    STATE_H,
    STATE_C,
    OPERAND, /* the state as the product reads it, where that is of another type */
    SUMS,    /* d, b, g: the state's products */
    ALL_H,   /* t, d, b, j */
    LAST_H,  /* d, b, j */
    LAST_C,
    PARTS
};

struct job {
    struct mo_lower *l;
    struct mo_recurrent r;
    struct mo_gpu_view part[PARTS]; /* rank -1: there is none */
    struct mo_each e;               /* the kernel at hand */
    int operand[PARTS];             /* of it, -1: not yet */
};

static bool has(const struct job *j, enum part part) {
    return j->part[part].rank >= 0;
}

/* --- text ----------------------------------------------------------------------------------------------- */

/* A new kernel, a thread a unit of every state. */
static void begin(struct job *j) {
    mo_each_init(j->l, &j->e, &j->part[STATE_H]);
    for (int i = 0; i < PARTS; i++)
        j->operand[i] = -1;
}

/* Its operand of that number. */
static int operand(struct job *j, enum part part) {
    static const bool written[PARTS] = {[STATE_H] = true, [STATE_C] = true, [OPERAND] = true, [ALL_H] = true};
    if (j->operand[part] < 0) j->operand[part] = mo_each_arg(&j->e, &j->part[part], written[part]);
    return j->operand[part];
}

static void store(struct job *j, enum part part, const char *value) {
    static const char *const of_all[MO_VIEW_RANK] = {"when", "o0", "o1", "o2"};
    if (has(j, part)) mo_each_store(&j->e, operand(j, part), part == ALL_H ? of_all : mo_each_here, value);
}

static void add_bias(struct job *j, int64_t first) {
    if (has(j, BIAS)) mo_each_text(&j->e, " + @%d(o0, %lld + o2)", operand(j, BIAS), (long long)first);
}

/* x<gate> and p<gate>: both products with their biases. */
static void sums_text(struct job *j, int gate) {
    const int64_t first = gate * j->r.hidden;
    mo_each_text(&j->e, "    const float x%d = @%d(when, o1, o0, %lld + o2)", gate, operand(j, INPUTS),
                 (long long)first);
    add_bias(j, first);
    mo_each_text(&j->e, ";\n    const float p%d = @%d(o0, o1, %lld + o2)", gate, operand(j, SUMS),
                 (long long)first);
    add_bias(j, (j->r.gates + gate) * j->r.hidden);
    mo_each_text(&j->e, ";\n");
}

/* The next state: `next`, and `next_c`. */
static void cell_text(struct job *j) {
    for (int gate = 0; gate < j->r.gates; gate++)
        sums_text(j, gate);
    if (j->r.cell == MO_CELL_LSTM)
        mo_each_text(&j->e,
                     "    const float i = mo_sigmoid(x0 + p0, 0, 0), o = mo_sigmoid(x1 + p1, 0, 0);\n"
                     "    const float f = mo_sigmoid(x2 + p2, 0, 0), g = mo_tanh(x3 + p3, 0, 0);\n"
                     "    const float next_c = f * @%d + i * g, next = o * mo_tanh(next_c, 0, 0);\n",
                     operand(j, STATE_C));
    else if (j->r.cell == MO_CELL_GRU)
        mo_each_text(&j->e,
                     "    const float z = mo_sigmoid(x0 + p0, 0, 0), reset = mo_sigmoid(x1 + p1, 0, 0);\n"
                     "    const float g = mo_tanh(x2 + reset * p2, 0, 0), next = (1 - z) * g + z * @%d;\n",
                     operand(j, STATE_H));
    else
        mo_each_text(&j->e, "    const float next = mo_tanh(x0 + p0, 0, 0);\n");
}

/* when, the time of the step. */
static void time_text(struct job *j) {
    const long long last = (long long)j->r.seq - 1;
    mo_each_text(&j->e, "    const int step = (int)@%d(0);\n", operand(j, STEP));
    if (j->r.directions > 1)
        mo_each_text(&j->e, "    const int when = o0 ? %lld - step : step;\n", last);
    else if (j->r.reverse)
        mo_each_text(&j->e, "    const int when = %lld - step;\n", last);
    else
        mo_each_text(&j->e, "    const int when = step;\n");
}

/* --- steps ---------------------------------------------------------------------------------------------- */

static void initial_text(struct job *j, const char *name, enum part part) {
    if (has(j, part))
        mo_each_text(&j->e, "    const float %s = @%d;\n", name, operand(j, part));
    else
        mo_each_text(&j->e, "    const float %s = 0;\n", name);
}

/* States as initial values have them. */
static void start(struct job *j) {
    begin(j);
    initial_text(j, "h", INITIAL_H);
    initial_text(j, "c", INITIAL_C);
    store(j, STATE_H, "h");
    store(j, OPERAND, "h");
    store(j, STATE_C, "c");
    mo_each_done(j->l, &j->e);
}

static void step_kernel(struct job *j) {
    begin(j);
    time_text(j);
    cell_text(j);
    store(j, STATE_H, "next");
    store(j, OPERAND, "next");
    store(j, STATE_C, "next_c");
    store(j, ALL_H, "next");
    mo_each_done(j->l, &j->e);
}

/* The state by the weights, for all sequences and directions. */
static void step_product(struct job *j, const struct mo_gpu_matrix *weights, bool transposed) {
    static const struct mo_fuse none = {.residual = -1};
    const struct mo_recurrent *r = &j->r;
    const bool both = r->directions > 1;
    const struct mo_gpu_view *to = &j->part[SUMS];
    const int64_t columns = to->d[2];
    const struct mo_gpu_gemm g = {
        .count = r->directions,
        .m = r->batch,
        .n = columns,
        .k = r->hidden,
        .transposed = transposed,
        .alpha = 1,
        .a = {.at = j->part[has(j, OPERAND) ? OPERAND : STATE_H].place,
              .row = r->hidden,
              .step = both ? r->batch * r->hidden : 0},
        .b = *weights,
        .d = {.at = to->place, .row = columns, .step = both ? r->batch * columns : 0}};
    mo_lower_gemm(j->l, &g, to, NULL, &none);
}

static void new_part(struct job *j, enum part part, moire_dtype dtype, int64_t columns) {
    const int64_t d[3] = {j->r.directions, j->r.batch, columns};
    j->part[part] = mo_lower_new(j->l, dtype, 3, d, NULL);
}

static void new_parts(struct job *j) {
    const struct mo_recurrent *r = &j->r;
    const moire_dtype storage = j->l->storage;
    new_part(j, STATE_H, MOIRE_F32, r->hidden);
    if (r->cell == MO_CELL_LSTM) new_part(j, STATE_C, MOIRE_F32, r->hidden);
    if (storage != MOIRE_F32) new_part(j, OPERAND, storage, r->hidden);
    new_part(j, SUMS, storage, r->gates * r->hidden);
}

static struct mo_gpu_view numbers_of_steps(struct job *j) {
    struct mo_gpu_view v = {.rank = -1};
    int32_t *number = mo_alloc(j->l->env, (size_t)j->r.seq * sizeof *number);
    if (!number) mo_lower_fail(j->l, MOIRE_ENOMEM, "out of memory");
    for (int64_t i = 0; i < j->r.seq && number; i++)
        number[i] = (int32_t)i;
    if (number) v = mo_lower_numbers(j->l, MOIRE_I32, j->r.seq, number);
    mo_free(j->l->env, number);
    return v;
}

static void step_by_step(struct job *j) {
    static const int turn[] = {0, 2, 1};
    const struct mo_gpu_view steps = numbers_of_steps(j), r = mo_lower_stored(j->l, MO_RECURRENT_R);
    bool flip = false;
    if (j->l->rc) return;
    const struct mo_gpu_matrix weights = mo_lower_operand(j->l, mo_gpu_permute(&r, turn), &flip);
    new_parts(j);
    if (j->l->rc) return;
    start(j);
    for (int64_t s = 0; s < j->r.seq && !j->l->rc; s++) {
        j->part[STEP] = mo_gpu_slice(&steps, 0, s, 1, 1);
        step_product(j, &weights, flip);
        step_kernel(j);
    }
    if (has(j, LAST_H)) mo_lower_copy(j->l, &j->part[STATE_H], &j->part[LAST_H]);
    if (has(j, LAST_C)) mo_lower_copy(j->l, &j->part[STATE_C], &j->part[LAST_C]);
}

/* --- the operator --------------------------------------------------------------------------------------- */

/* The inputs' products: [steps][sequences][directions][gates and units], or the first two turned round. */
static void inputs_of(struct job *j) {
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
    j->part[INPUTS] = r->batch_first ? mo_gpu_permute(&y, turn) : y;
}

/* Optional operands, and outputs that are asked for; batch first is only another view. */
static void ports_of(struct job *j) {
    static const int state[] = {1, 0, 2}, all[] = {1, 2, 0, 3};
    static const struct {
        enum part part;
        int port;
        bool out;
        const int *turn;
    } ports[] = {{BIAS, MO_RECURRENT_BIAS, false, NULL},
                 {INITIAL_H, MO_RECURRENT_INITIAL_H, false, state},
                 {INITIAL_C, MO_RECURRENT_INITIAL_C, false, state},
                 {ALL_H, MO_RECURRENT_Y, true, all},
                 {LAST_H, MO_RECURRENT_Y_H, true, state},
                 {LAST_C, MO_RECURRENT_Y_C, true, state}};
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
    struct job j = {.l = l};
    if (in[MO_RECURRENT_X].dtype != MOIRE_F32)
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "%s is not supported by this operator on a GPU",
                      mo_dtype_name(in[MO_RECURRENT_X].dtype));
    if (!l->rc) l->rc = mo_recurrent_describe(&ctx, &j.r);
    for (int i = 0; i < PARTS; i++)
        j.part[i].rank = -1;
    if (!l->rc && !is_plain(l, &j.r))
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "this form of the operator is not supported on a GPU");
    if (l->rc) return;
    inputs_of(&j);
    ports_of(&j);
    if (!l->rc) step_by_step(&j);
}
