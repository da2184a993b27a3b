/* SPDX-License-Identifier: Apache-2.0
 * recurrent.c - the steps of RNN, GRU and LSTM, for some sequences of a batch in one direction.
 *
 * A step has one row of sums a sequence, gate after gate, each padded to whole panels.  It starts from the
 * inputs' products, and the tile of matrix products adds h times R, whose panels stream by once a step for
 * all sequences.  Gates and next states are loops over rows that lie in the first cache.  A sequence that has
 * ended keeps its states; its sums are still made, and nobody reads them.  Lanes beyond `hidden` hold any
 * numbers.
 *
 * In rounds, a round is a step of every direction, and its units are blocks of 16 states.  Members read all
 * states of the step before and write those of their own columns, to the other of two places; of cells only
 * the own columns are read. */
#include "variants/simd/gemm.h"
#include "variants/simd/math.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"
#include "variants/simd/vec_math.h"

struct piece {
    const struct mo_recurrent_params *p;
    const struct mo_fuse *act;
    bool backward;
    int64_t rows, blocks;               /* sequences, and tiles of them */
    int64_t first, columns;             /* states that it makes, in whole panels; from `first` on begin: */
    const float *x, *weights;           /* of the first sequence; of the direction */
    const int32_t *lengths;             /* NULL: all steps */
    const float *peep, *bias;           /* of the direction, or NULL */
    const float *old;                   /* all states before the step, by sequence */
    float *h, *c, *gated, *sums, *tall; /* by sequence; tall: old or gated as tiles read them */
};

static int64_t length_of(const struct piece *w, int64_t row) {
    return w->lengths ? w->lengths[row] : w->p->seq;
}

/* The time of a step of a sequence that has one. */
static int64_t time_of(const struct piece *w, int64_t row, int64_t step) {
    return w->backward ? length_of(w, row) - 1 - step : step;
}

static const float *products_of(const struct piece *w, int64_t row, int64_t step) {
    return w->x + row * w->p->x_row + time_of(w, row, step) * w->p->x_step;
}

static float *sums_of(const struct piece *w, int64_t row, int gate) {
    return w->sums + (row * w->p->gates + gate) * w->columns;
}

/* Columns that are no padding. */
static int64_t valid_of(const struct piece *w) {
    const int64_t left = w->p->hidden - w->first;
    return left < w->columns ? left : w->columns;
}

/* What sums of a step start from. */
static void begin_sums(const struct piece *w, int64_t row, int64_t step) {
    const struct mo_recurrent_params *p = w->p;
    const float *from = products_of(w, row, step);
    const size_t bytes = (size_t)valid_of(w) * sizeof *from;
    for (int gate = 0; gate < p->gates; gate++)
        memcpy(sums_of(w, row, gate), from + gate * p->hidden, bytes);
    if (p->cell != MO_CELL_GRU || !p->before_reset) return;
    if (w->bias)
        memcpy(sums_of(w, row, 2), w->bias, bytes);
    else
        memset(sums_of(w, row, 2), 0, bytes);
}

/* `panels` of sums from those of a gate on += states by R. */
static void multiply_panels(const struct piece *w, const float *states, int gate, int64_t panels) {
    const struct mo_recurrent_params *p = w->p;
    const int64_t n = p->hidden;
    int64_t top;
    const int tallest = tile_block(w->rows, w->blocks, w->blocks - 1, &top);
    int wide;
    for (int64_t at = 0; at < panels; at += wide) {
        wide = tile_width(tallest, panels - at);
        for (int64_t i = 0; i < w->blocks; i++) {
            const int rows = tile_block(w->rows, w->blocks, i, &top);
            const struct gemm_tile t = {.a = w->rows > 1 ? w->tall + top * n : states,
                                        .b = w->weights + (gate * p->padded + w->first + at * 16) * n,
                                        .ldb = 16,
                                        .panel = n * 16,
                                        .c = sums_of(w, top, gate) + at * 16,
                                        .ldc = p->gates * w->columns,
                                        .k_count = n};
            tile_run(&t, rows, wide);
        }
    }
}

/* Sums of gates [first, last) += states by R. */
static void multiply(const struct piece *w, const float *states, int first, int last) {
    const struct mo_recurrent_params *p = w->p;
    for (int64_t i = 0, top; w->rows > 1 && i < w->blocks; i++) {
        const int rows = tile_block(w->rows, w->blocks, i, &top);
        tile_pack(states + top * p->padded, p->padded, 1, rows, p->hidden, w->tall + top * p->hidden);
    }
    if (w->columns == p->padded) {
        multiply_panels(w, states, first, (last - first) * p->padded / 16);
        return;
    }
    for (int gate = first; gate < last; gate++)
        multiply_panels(w, states, gate, w->columns / 16);
}

/* y = act(x) of a whole row, padding included; y may be x. */
static void activate_to(const struct piece *w, int act, const float *x, float *y) {
    const struct mo_fuse *fuse = &w->act[act];
    const int64_t n = w->columns;
    if (fuse->act == MO_ACT_SIGMOID)
        for (int64_t i = 0; i < n; i += LANES)
            *(vec *)(y + i) = vec_sigmoid(*(const vec *)(x + i));
    else if (fuse->act == MO_ACT_TANH)
        for (int64_t i = 0; i < n; i += LANES)
            *(vec *)(y + i) = vec_tanh(*(const vec *)(x + i));
    else
        activate_row(fuse->act, fuse->a, fuse->b, x, y, n);
}

/* v = act(v), of clipped numbers. */
static void activate(const struct piece *w, int act, float *v) {
    const float most_of = w->p->clip;
    for (int64_t i = 0; most_of < INFINITY && i < w->columns; i++) {
        const float low = v[i] < -most_of ? -most_of : v[i];
        v[i] = low > most_of ? most_of : low;
    }
    activate_to(w, act, v, v);
}

/* v += a b */
static void add_times(float *v, const float *a, const float *b, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        v[i] += a[i] * b[i];
}

static void finish_rnn(const struct piece *w, int64_t row, int64_t step) {
    float *sums = sums_of(w, row, 0);
    (void)step;
    activate(w, 0, sums);
    memcpy(w->h + row * w->p->padded, sums, (size_t)valid_of(w) * sizeof *sums);
}

static void finish_lstm(const struct piece *w, int64_t row, int64_t step) {
    const struct mo_recurrent_params *p = w->p;
    const int64_t n = valid_of(w);
    float *in = sums_of(w, row, 0), *out = sums_of(w, row, 1), *forget = sums_of(w, row, 2),
          *next = sums_of(w, row, 3), *h = w->h + row * p->padded, *c = w->c + row * p->padded;
    (void)step;
    if (w->peep) {
        add_times(in, w->peep, c, n);
        add_times(forget, w->peep + 2 * p->hidden, c, n);
    }
    activate(w, 0, in);
    activate(w, 1, next);
    if (p->input_forget) {
        for (int64_t i = 0; i < w->columns; i++)
            forget[i] = 1 - in[i];
    } else {
        activate(w, 0, forget);
    }
    for (int64_t i = 0; i < w->columns; i++)
        c[i] = forget[i] * c[i] + in[i] * next[i];
    if (w->peep) add_times(out, w->peep + p->hidden, c, n);
    activate(w, 0, out);
    activate_to(w, 2, c, h);
    for (int64_t i = 0; i < w->columns; i++)
        h[i] *= out[i];
}

/* Both gates, and the states that the reset gate lets through where that comes before the product. */
static void begin_gru(const struct piece *w, int64_t row) {
    const struct mo_recurrent_params *p = w->p;
    float *reset = sums_of(w, row, 1);
    activate(w, 0, sums_of(w, row, 0));
    activate(w, 0, reset);
    if (p->before_reset) return; /* in rounds, too, which have no place for gated */
    float *gated = w->gated + row * p->padded;
    const float *h = w->old + row * p->padded;
    for (int64_t i = 0; i < p->padded; i++)
        gated[i] = reset[i] * h[i];
}

static void finish_gru(const struct piece *w, int64_t row, int64_t step) {
    const struct mo_recurrent_params *p = w->p;
    const float *update = sums_of(w, row, 0), *reset = sums_of(w, row, 1),
                *from = products_of(w, row, step) + 2 * p->hidden, *old = w->old + row * p->padded + w->first;
    float *next = sums_of(w, row, 2), *h = w->h + row * p->padded;
    if (p->before_reset) {
        begin_gru(w, row);
        for (int64_t i = 0; i < valid_of(w); i++)
            next[i] = from[i] + reset[i] * next[i];
    }
    activate(w, 1, next);
    for (int64_t i = 0; i < w->columns; i++)
        h[i] = (1 - update[i]) * next[i] + update[i] * old[i];
}

static void run_step(const struct piece *w, int64_t step, float *y) {
    static void (*const finish[])(const struct piece *, int64_t, int64_t) = {
        [MO_CELL_RNN] = finish_rnn, [MO_CELL_GRU] = finish_gru, [MO_CELL_LSTM] = finish_lstm};
    const struct mo_recurrent_params *p = w->p;
    const bool twice = p->cell == MO_CELL_GRU && !p->before_reset;
    for (int64_t row = 0; row < w->rows; row++)
        if (step < length_of(w, row)) begin_sums(w, row, step);
    multiply(w, w->old, 0, twice ? 2 : p->gates);
    for (int64_t row = 0; twice && row < w->rows; row++)
        if (step < length_of(w, row)) begin_gru(w, row);
    if (twice) multiply(w, w->gated, 2, 3);
    for (int64_t row = 0; row < w->rows; row++) {
        if (step >= length_of(w, row)) continue;
        finish[p->cell](w, row, step);
        if (y)
            memcpy(y + row * p->y_row + time_of(w, row, step) * p->y_step, w->h + row * p->padded,
                   (size_t)valid_of(w) * sizeof *y);
    }
}

static void load_states(const struct piece *w, const float *from, float *to) {
    const struct mo_recurrent_params *p = w->p;
    for (int64_t row = 0; row < w->rows; row++) {
        memset(to + row * p->padded, 0, (size_t)p->padded * sizeof *to);
        if (from) memcpy(to + row * p->padded, from + row * p->state_row, (size_t)p->hidden * sizeof *to);
    }
}

static void store_states(const struct piece *w, const float *from, float *to) {
    const struct mo_recurrent_params *p = w->p;
    for (int64_t row = 0; to && row < w->rows; row++)
        memcpy(to + row * p->state_row, from + row * p->padded, (size_t)valid_of(w) * sizeof *to);
}

/* All steps; results beyond the end of a sequence are 0. */
static void run_steps(const struct piece *w, float *y) {
    const struct mo_recurrent_params *p = w->p;
    int64_t longest = 0;
    for (int64_t row = 0; row < w->rows; row++) {
        longest = length_of(w, row) > longest ? length_of(w, row) : longest;
        for (int64_t t = length_of(w, row); y && t < p->seq; t++)
            memset(y + row * p->y_row + t * p->y_step, 0, (size_t)p->hidden * sizeof *y);
    }
    for (int64_t step = 0; step < longest; step++)
        run_step(w, step, y);
}

/* The first sequence of a piece of the batch. */
static int64_t top_of(const struct mo_recurrent_params *p, int64_t piece) {
    return p->batch * piece / p->pieces;
}

/* How many of `n` pieces from `first` on go through their steps together: as many as the scratch has room
 * for, in shares of about one size. */
static int64_t together(const struct mo_recurrent_params *p, int64_t first, int64_t n) {
    const int64_t rows = top_of(p, first + n) - top_of(p, first), shares = (rows + p->most - 1) / p->most;
    int64_t some = (n + shares - 1) / shares;
    while (some > 1 && top_of(p, first + some) - top_of(p, first) > p->most)
        some--;
    return some;
}

/* What all pieces have: `top` is the first sequence. */
static struct piece piece_of(const struct mo_kargs *args, int64_t way, int64_t top, int64_t rows,
                             int64_t first, int64_t columns) {
    const struct mo_recurrent_params *p = args->params;
    struct piece w = {.p = p, .act = p->act[way], .backward = p->backward[way]};
    w.rows = rows;
    w.blocks = (rows + TILE_ROWS - 1) / TILE_ROWS;
    w.first = first;
    w.columns = columns;
    w.x = (const float *)args->in[MO_RECURRENT_X] + top * p->x_row + way * p->gates * p->hidden + first;
    w.weights = (const float *)args->weights + way * p->gates * p->padded * p->hidden;
    w.peep = p->peep ? p->peep + way * 3 * p->hidden + first : NULL;
    w.bias = p->bias ? p->bias + way * p->hidden + first : NULL;
    return w;
}

/* Pieces [first, first + n) in one direction. */
static void run_pieces(const struct mo_kargs *args, int64_t way, int64_t first, int64_t n, float *scratch) {
    const struct mo_recurrent_params *p = args->params;
    const int64_t top = top_of(p, first), at = way * p->state_way + top * p->state_row;
    struct piece w = piece_of(args, way, top, top_of(p, first + n) - top, 0, p->padded);
    const int32_t *lengths = p->lengths ? p->lengths : args->in[MO_RECURRENT_LENGTHS];
    w.lengths = lengths ? lengths + top : NULL;
    const int64_t side = w.rows * p->padded;
    w.old = w.h = scratch;
    w.c = w.h + side;
    w.gated = w.c + side;
    w.sums = w.gated + side;
    w.tall = w.sums + side * p->gates;
    memset(w.gated, 0, (size_t)(side * (p->gates + 1)) * sizeof *w.gated);
    float *const states[] = {w.h, w.c}, *y = args->out[MO_RECURRENT_Y];
    for (int i = 0; i < 2; i++) {
        const float *from = p->first[i] ? p->first[i] : args->in[MO_RECURRENT_INITIAL_H + i];
        load_states(&w, from ? from + at : NULL, states[i]);
    }
    run_steps(&w, y ? y + way * p->y_way + top * p->y_row : NULL);
    for (int i = 0; i < 2; i++) {
        float *to = args->out[MO_RECURRENT_Y_H + i];
        store_states(&w, states[i], to ? to + at : NULL);
    }
}

void MO_SIMD(recurrent)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_recurrent_params *p = args->params;
    while (begin < end) {
        const int64_t first = begin % p->pieces, left = p->pieces - first;
        const int64_t n = together(p, first, end - begin < left ? end - begin : left);
        run_pieces(args, begin / p->pieces, first, n, scratch);
        begin += n;
    }
}

/* One step of columns [first, first + columns) in one direction. */
static void run_columns(const struct mo_kargs *args, float *shared, int64_t step, int64_t way, int64_t first,
                        int64_t columns, float *scratch) {
    const struct mo_recurrent_params *p = args->params;
    const int64_t side = p->batch * p->padded;
    struct piece w = piece_of(args, way, 0, p->batch, first, columns);
    float *const place = shared + way * MO_RECURRENT_PLACES * side, *y = args->out[MO_RECURRENT_Y];
    w.old = place + step % 2 * side;
    w.h = place + (step + 1) % 2 * side + first;
    w.c = place + 2 * side + first;
    w.sums = scratch;
    w.tall = w.sums + w.rows * p->gates * columns;
    if (valid_of(&w) < columns) memset(w.sums, 0, (size_t)(w.rows * p->gates * columns) * sizeof *w.sums);
    run_step(&w, step, y ? y + way * p->y_way + first : NULL);
    float *const states[] = {w.h, w.c};
    for (int i = 0; step == p->seq - 1 && i < 2; i++) {
        float *to = args->out[MO_RECURRENT_Y_H + i];
        store_states(&w, states[i], to ? to + way * p->state_way + first : NULL);
    }
}

void MO_SIMD(recurrent_round)(const struct mo_kargs *args, void *shared, int64_t round, int64_t begin,
                              int64_t end, void *scratch) {
    const struct mo_recurrent_params *p = args->params;
    const int64_t panels = p->padded / 16;
    while (begin < end) {
        const int64_t first = begin % panels, left = panels - first,
                      n = end - begin < left ? end - begin : left;
        run_columns(args, shared, round, begin / panels, first * 16, n * 16, scratch);
        begin += n;
    }
}
