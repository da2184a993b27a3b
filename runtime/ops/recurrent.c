/* SPDX-License-Identifier: Apache-2.0
 * recurrent.c - RNN, GRU and LSTM, by the equations of the ONNX operator pages, in double.
 *
 * A cell is a row: its number of gates, its default activations, and one step that turns the gates' sums into
 * the next state.  The products are the same for all: sums[gate][hidden] = bias + x W' + h R', with W and R
 * transposed once a run so that the inner loop runs along the gates.
 *
 * In domain "moire" the products x W' and the biases are an operand already
 * (codegen/passes/pass_recurrent.c): X [..,..,directions x gates x hidden], R, nothing, B, lengths, first h,
 * first c, P B [directions, hidden] is what a GRU with linear_before_reset adds to h R' of its last gate;
 * else absent. moire.Lengths copies lengths of sequences, of at most `most` steps, and fails for others. */
#include <math.h>
#include <string.h>
#include "runtime/ops/recurrent.h"

/* --- one layer in one direction --- */
/* What a direction works on; all in one piece of memory. */
struct work {
    const struct mo_recurrent_act *act;
    double *w, *r;           /* [in][gates x hidden], [hidden][gates x hidden] */
    double *w_bias, *r_bias; /* [gates x hidden] */
    double *peep;            /* [3 x hidden] or zeros */
    double *x, *from_x, *from_h;
    double *h, *c;
};

struct cell {
    const char *op;
    int gates, acts;
    const char *act[MO_RECURRENT_ACTS];
    /* from_x and from_h hold the sums of both products, biases included */
    void (*step)(const struct mo_recurrent *l, struct work *k);
};

static double apply(const struct mo_recurrent *l, const struct mo_recurrent_act *a, double x) {
    double cut = x > l->clip ? l->clip : x < -l->clip ? -l->clip : x;
    return a->f(cut, a->a, a->b);
}

/* out[j] += v[i] m[i][j] over n columns of a matrix with rows of `width`. */
static void add_product(double *out, const double *v, int64_t rows, const double *m, int64_t width,
                        int64_t n) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            out[j] += v[i] * m[i * width + j];
}

static void step_rnn(const struct mo_recurrent *l, struct work *k) {
    for (int64_t j = 0; j < l->hidden; j++)
        k->h[j] = apply(l, &k->act[0], k->from_x[j] + k->from_h[j]);
}

static void step_gru(const struct mo_recurrent *l, struct work *k) {
    int64_t n = l->hidden;
    double *z = k->from_x, *r = k->from_x + n, *g = k->from_x + 2 * n, *from_h = k->from_h + 2 * n;
    for (int64_t j = 0; j < 2 * n; j++)
        k->from_x[j] = apply(l, &k->act[0], k->from_x[j] + k->from_h[j]);
    if (l->before_reset) {
        for (int64_t j = 0; j < n; j++)
            g[j] += r[j] * from_h[j];
    } else {
        for (int64_t j = 0; j < n; j++) {
            g[j] += k->r_bias[2 * n + j];
            r[j] *= k->h[j];
        }
        add_product(g, r, n, k->r + 2 * n, 3 * n, n);
    }
    for (int64_t j = 0; j < n; j++)
        k->h[j] = (1 - z[j]) * apply(l, &k->act[1], g[j]) + z[j] * k->h[j];
}

static void step_lstm(const struct mo_recurrent *l, struct work *k) {
    int64_t n = l->hidden;
    const double *peep_i = k->peep, *peep_o = k->peep + n, *peep_f = k->peep + 2 * n;
    for (int64_t j = 0; j < 4 * n; j++)
        k->from_x[j] += k->from_h[j];
    const double *i = k->from_x, *o = i + n, *f = i + 2 * n, *g = i + 3 * n;
    for (int64_t j = 0; j < n; j++) {
        double in = apply(l, &k->act[0], i[j] + peep_i[j] * k->c[j]);
        double forget = l->input_forget ? 1 - in : apply(l, &k->act[0], f[j] + peep_f[j] * k->c[j]);
        k->c[j] = forget * k->c[j] + in * apply(l, &k->act[1], g[j]);
        double out = apply(l, &k->act[0], o[j] + peep_o[j] * k->c[j]);
        k->h[j] = out * k->act[2].f(k->c[j], k->act[2].a, k->act[2].b);
    }
}

static const struct cell cells[] = {
    /* in the order of enum mo_cell */
    {"RNN", 1, 1, {"Tanh"}, step_rnn},
    {"GRU", 3, 2, {"Sigmoid", "Tanh"}, step_gru},
    {"LSTM", 4, 3, {"Sigmoid", "Tanh", "Tanh"}, step_lstm},
};

/* --- attributes and shapes --- */
static enum mo_cell cell_of(const struct mo_op_ctx *ctx) {
    int i = MO_CELL_RNN;
    while (i < MO_CELL_LSTM && strcmp(cells[i].op, ctx->node->op_type))
        i++;
    return (enum mo_cell)i;
}

static int find_act(const struct mo_op_ctx *ctx, const char *name, struct mo_recurrent_act *out) {
    const struct mo_recurrent_act *act = mo_recurrent_act_of(name);
    if (!act) return mo_op_fail(ctx, MOIRE_EUNSUPPORTED, "activation '%.40s' is not supported", name);
    *out = *act;
    return MOIRE_OK;
}

/* The list gives parameters to the functions that take some, in order. */
static void take_parameter(const struct mo_attr *list, int *at, double *to) {
    if (list && list->type == MO_ATTR_FLOATS && *at < list->n) *to = (double)list->floats[(*at)++];
}

static int read_acts(const struct mo_op_ctx *ctx, struct mo_recurrent *l) {
    const struct mo_attr *names = mo_attr_find(ctx->node, "activations");
    const struct mo_attr *a = mo_attr_find(ctx->node, "activation_alpha");
    const struct mo_attr *b = mo_attr_find(ctx->node, "activation_beta");
    int wanted = l->directions * l->acts, at_a = 0, at_b = 0;
    if (names && (names->type != MO_ATTR_STRINGS || names->n != wanted))
        return mo_op_fail(ctx, MOIRE_EINVAL, "'activations' must name %d functions", wanted);
    for (int i = 0; i < wanted; i++) {
        struct mo_recurrent_act *act = &l->act[i / l->acts][i % l->acts];
        int rc = find_act(ctx, names ? names->strings[i] : cells[l->cell].act[i % l->acts], act);
        if (rc) return rc;
        if (act->parameters > 0) take_parameter(a, &at_a, &act->a);
        if (act->parameters > 1) take_parameter(b, &at_b, &act->b);
    }
    return MOIRE_OK;
}

int mo_recurrent_describe(const struct mo_op_ctx *ctx, struct mo_recurrent *l) {
    const char *direction = mo_attr_string(ctx->node, "direction", "forward");
    const struct mo_shape *x = &ctx->in[MO_RECURRENT_X].shape;
    *l = (struct mo_recurrent){.cell = cell_of(ctx)};
    l->stepped = !strcmp(ctx->node->domain, "moire");
    l->r = l->stepped ? MO_RECURRENT_W : MO_RECURRENT_R;
    l->gates = cells[l->cell].gates;
    l->acts = cells[l->cell].acts;
    l->batch_first = mo_attr_int(ctx->node, "layout", 0) != 0;
    l->before_reset = mo_attr_int(ctx->node, "linear_before_reset", 0) != 0;
    l->input_forget = mo_attr_int(ctx->node, "input_forget", 0) != 0;
    l->clip = (double)mo_attr_float(ctx->node, "clip", INFINITY);
    l->seq = x->d[l->batch_first];
    l->batch = x->d[!l->batch_first];
    l->in = l->stepped ? 0 : x->d[2];
    l->hidden = ctx->in[l->r].shape.d[2];
    l->directions = strcmp(direction, "bidirectional") ? 1 : 2;
    l->reverse = !strcmp(direction, "reverse");
    if (l->directions == 1 && !l->reverse && strcmp(direction, "forward"))
        return mo_op_fail(ctx, MOIRE_EINVAL, "direction '%.40s' is unknown", direction);
    if (mo_attr_int(ctx->node, "hidden_size", l->hidden) != l->hidden)
        return mo_op_fail(ctx, MOIRE_EINVAL, "hidden_size is %lld but R has %lld columns",
                          (long long)mo_attr_int(ctx->node, "hidden_size", 0), (long long)l->hidden);
    return read_acts(ctx, l);
}

bool mo_recurrent_of(const struct mo_graph *g, const struct mo_node *node, struct mo_recurrent *out) {
    struct mo_value in[MO_RECURRENT_INPUTS] = {{0}};
    struct mo_op_ctx ctx = {.node = node, .env = g->env, .n_in = node->n_in, .in = in};
    for (int i = 0; i < node->n_in && i < MO_RECURRENT_INPUTS; i++)
        if (node->in[i] >= 0) in[i] = mo_tensor_value(g->tensors[node->in[i]]);
    const int r = strcmp(node->domain, "moire") ? MO_RECURRENT_R : MO_RECURRENT_W;
    if (in[MO_RECURRENT_X].shape.rank != 3 || in[r].shape.rank != 3) return false;
    return !mo_recurrent_describe(&ctx, out);
}

/* State tensors are [directions][batch][hidden], batch first with layout 1. */
static struct mo_shape state_shape(const struct mo_recurrent *l) {
    struct mo_shape s = {.rank = 3, .d = {l->directions, l->batch, l->hidden}};
    if (l->batch_first) {
        s.d[0] = l->batch;
        s.d[1] = l->directions;
    }
    return s;
}

static int check_shapes(const struct mo_op_ctx *ctx, const struct mo_recurrent *l) {
    int64_t rows = l->gates * l->hidden;
    struct mo_shape state = state_shape(l), inputs = {.rank = 3, .d = {l->directions, rows, l->in}},
                    products = ctx->in[MO_RECURRENT_X].shape;
    products.d[2] = l->directions * rows;
    const struct {
        int input;
        struct mo_shape shape;
    } wanted[] = {
        {l->stepped ? MO_RECURRENT_X : MO_RECURRENT_W, l->stepped ? products : inputs},
        {l->r, {.rank = 3, .d = {l->directions, rows, l->hidden}}},
        {MO_RECURRENT_BIAS, {.rank = 2, .d = {l->directions, l->stepped ? l->hidden : 2 * rows}}},
        {MO_RECURRENT_LENGTHS, {.rank = 1, .d = {l->batch}}},
        {MO_RECURRENT_INITIAL_H, state},
        {MO_RECURRENT_INITIAL_C, state},
        {MO_RECURRENT_PEEPHOLES, {.rank = 2, .d = {l->directions, 3 * l->hidden}}},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        char is[160], needs[160];
        const struct mo_value *v = &ctx->in[wanted[i].input];
        if (!mo_given(ctx, wanted[i].input) || mo_shape_equal(&v->shape, &wanted[i].shape)) continue;
        return mo_op_fail(ctx, MOIRE_ESHAPE, "input %d is %s, needs %s", wanted[i].input,
                          mo_shape_text(&v->shape, is, sizeof is),
                          mo_shape_text(&wanted[i].shape, needs, sizeof needs));
    }
    return MOIRE_OK;
}

static int infer_recurrent(const struct mo_op_ctx *ctx) {
    struct mo_recurrent l = {0};
    int rc = MOIRE_OK;
    const int r = strcmp(ctx->node->domain, "moire") ? MO_RECURRENT_R : MO_RECURRENT_W;
    for (int i = MO_RECURRENT_X; i <= r; i++)
        if ((rc = mo_check_type(ctx, i, MO_FLOATS)) || (rc = mo_check_rank(ctx, i, 3, 3))) return rc;
    for (int i = MO_RECURRENT_W; i < ctx->n_in; i++) {
        if (!mo_given(ctx, i)) continue;
        unsigned set =
            i == MO_RECURRENT_LENGTHS ? MO_TYPE(MOIRE_I32) : MO_TYPE(ctx->in[MO_RECURRENT_X].dtype);
        if ((rc = mo_check_type(ctx, i, set))) return rc;
    }
    if ((rc = mo_recurrent_describe(ctx, &l)) || (rc = check_shapes(ctx, &l))) return rc;
    struct mo_shape y = {.rank = 4, .d = {l.seq, l.directions, l.batch, l.hidden}}, state = state_shape(&l);
    if (l.batch_first) y = (struct mo_shape){.rank = 4, .d = {l.batch, l.seq, l.directions, l.hidden}};
    rc = mo_set_out(ctx, MO_RECURRENT_Y, ctx->in[MO_RECURRENT_X].dtype, &y);
    for (int i = MO_RECURRENT_Y_H; !rc && i <= MO_RECURRENT_Y_C; i++)
        rc = mo_set_out(ctx, i, ctx->in[MO_RECURRENT_X].dtype, &state);
    return rc;
}

/* --- running --- */
/* Rows of a matrix [rows][n] become columns. */
static void load_transposed(const struct mo_value *v, int64_t at, int64_t rows, int64_t n, double *out) {
    for (int64_t i = 0; i < n; i++)
        mo_load_span(v, at + i, n, rows, out + i * rows);
}

/* Weights of direction d; what is not given stays zero. */
static void load_weights(const struct mo_op_ctx *ctx, const struct mo_recurrent *l, int d, struct work *k) {
    int64_t rows = l->gates * l->hidden;
    k->act = l->act[d];
    if (!l->stepped) load_transposed(&ctx->in[MO_RECURRENT_W], d * rows * l->in, rows, l->in, k->w);
    load_transposed(&ctx->in[l->r], d * rows * l->hidden, rows, l->hidden, k->r);
    if (mo_given(ctx, MO_RECURRENT_BIAS) && l->stepped) {
        mo_load_span(&ctx->in[MO_RECURRENT_BIAS], d * l->hidden, 1, l->hidden, k->r_bias + rows - l->hidden);
    } else if (mo_given(ctx, MO_RECURRENT_BIAS)) {
        mo_load_span(&ctx->in[MO_RECURRENT_BIAS], d * 2 * rows, 1, rows, k->w_bias);
        mo_load_span(&ctx->in[MO_RECURRENT_BIAS], (d * 2 + 1) * rows, 1, rows, k->r_bias);
    }
    if (mo_given(ctx, MO_RECURRENT_PEEPHOLES))
        mo_load_span(&ctx->in[MO_RECURRENT_PEEPHOLES], d * 3 * l->hidden, 1, 3 * l->hidden, k->peep);
}

static int64_t state_at(const struct mo_recurrent *l, int d, int64_t b) {
    return (l->batch_first ? b * l->directions + d : d * l->batch + b) * l->hidden;
}

static int64_t y_at(const struct mo_recurrent *l, int d, int64_t b, int64_t t) {
    int64_t row =
        l->batch_first ? (b * l->seq + t) * l->directions + d : (t * l->directions + d) * l->batch + b;
    return row * l->hidden;
}

/* One sequence; `length` of its steps count. */
static void run_sequence(const struct mo_op_ctx *ctx, const struct mo_recurrent *l, struct work *k, int d,
                         int64_t b, int64_t length) {
    int64_t rows = l->gates * l->hidden, at = state_at(l, d, b);
    double *states[] = {k->h, k->c};
    for (int i = 0; i < 2; i++) {
        memset(states[i], 0, (size_t)l->hidden * sizeof *k->h);
        if (mo_given(ctx, MO_RECURRENT_INITIAL_H + i))
            mo_load_span(&ctx->in[MO_RECURRENT_INITIAL_H + i], at, 1, l->hidden, states[i]);
    }
    for (int64_t s = 0; s < length; s++) {
        int64_t t = d == 1 || l->reverse ? length - 1 - s : s;
        int64_t row = l->batch_first ? b * l->seq + t : t * l->batch + b;
        memcpy(k->from_x, k->w_bias, (size_t)rows * sizeof *k->from_x);
        memcpy(k->from_h, k->r_bias, (size_t)rows * sizeof *k->from_h);
        if (l->stepped) {
            mo_load_span(&ctx->in[MO_RECURRENT_X], (row * l->directions + d) * rows, 1, rows, k->from_x);
        } else {
            mo_load_span(&ctx->in[MO_RECURRENT_X], row * l->in, 1, l->in, k->x);
            add_product(k->from_x, k->x, l->in, k->w, rows, rows);
        }
        add_product(k->from_h, k->h, l->hidden, k->r, rows, rows);
        cells[l->cell].step(l, k);
        if (mo_wanted(ctx, MO_RECURRENT_Y))
            mo_store_span(&ctx->out[MO_RECURRENT_Y], y_at(l, d, b, t), 1, l->hidden, k->h);
    }
    for (int i = 0; i < 2; i++)
        if (mo_wanted(ctx, MO_RECURRENT_Y_H + i))
            mo_store_span(&ctx->out[MO_RECURRENT_Y_H + i], at, 1, l->hidden, states[i]);
}

int mo_recurrent_check_length(const struct mo_op_ctx *ctx, int64_t length, int64_t most, int64_t b) {
    if (length >= 0 && length <= most) return MOIRE_OK;
    return mo_op_fail(ctx, MOIRE_EINVAL, "length %lld of sequence %lld is out of range", (long long)length,
                      (long long)b);
}

static int run_direction(const struct mo_op_ctx *ctx, const struct mo_recurrent *l, struct work *k, int d) {
    load_weights(ctx, l, d, k);
    for (int64_t b = 0; b < l->batch; b++) {
        int64_t length =
            mo_given(ctx, MO_RECURRENT_LENGTHS) ? mo_load_int(&ctx->in[MO_RECURRENT_LENGTHS], b) : l->seq;
        int rc = mo_recurrent_check_length(ctx, length, l->seq, b);
        if (rc) return rc;
        run_sequence(ctx, l, k, d, b, length);
    }
    return MOIRE_OK;
}

/* Cuts the scratch into the parts of the work; zeroed. */
static double *lay_out(const struct mo_op_ctx *ctx, const struct mo_recurrent *l, struct work *k) {
    int64_t rows = l->gates * l->hidden;
    struct {
        double **part;
        int64_t n;
    } parts[] = {
        {&k->w, rows * l->in}, {&k->r, rows * l->hidden}, {&k->w_bias, rows},
        {&k->r_bias, rows},    {&k->peep, 3 * l->hidden}, {&k->x, l->in},
        {&k->from_x, rows},    {&k->from_h, rows},        {&k->h, l->hidden},
        {&k->c, l->hidden},
    };
    int64_t total = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        total += parts[i].n;
    double *all = mo_scratch(ctx, total, sizeof *all), *at = all;
    for (size_t i = 0; all && i < sizeof parts / sizeof *parts; at += parts[i++].n)
        *parts[i].part = at;
    if (all) memset(all, 0, (size_t)total * sizeof *all);
    return all;
}

static int run_recurrent(const struct mo_op_ctx *ctx) {
    struct mo_recurrent l = {0};
    struct work k = {0};
    int rc = mo_recurrent_describe(ctx, &l);
    double *memory = rc ? NULL : lay_out(ctx, &l, &k);
    if (!rc && !memory) rc = MOIRE_ENOMEM;
    if (!rc && mo_wanted(ctx, MO_RECURRENT_Y)) /* steps beyond a sequence's length */
        memset(ctx->out[MO_RECURRENT_Y].data, 0,
               (size_t)mo_count(&ctx->out[MO_RECURRENT_Y]) * mo_dtype_bytes(ctx->out[MO_RECURRENT_Y].dtype));
    for (int d = 0; !rc && d < l.directions; d++)
        rc = run_direction(ctx, &l, &k, d);
    mo_free(ctx->env, memory);
    return rc;
}

const struct mo_op mo_ops_recurrent[] = {
    {"RNN", "", 7, 3, 6, 0, 2, infer_recurrent, run_recurrent, 0},
    {"GRU", "", 7, 3, 6, 0, 2, infer_recurrent, run_recurrent, 0},
    {"LSTM", "", 7, 3, 8, 0, 3, infer_recurrent, run_recurrent, 0},
    {"RNN", "moire", 1, 2, 6, 0, 2, infer_recurrent, run_recurrent, 0},
    {"GRU", "moire", 1, 2, 6, 0, 2, infer_recurrent, run_recurrent, 0},
    {"LSTM", "moire", 1, 2, 8, 0, 3, infer_recurrent, run_recurrent, 0},
    {0},
};
