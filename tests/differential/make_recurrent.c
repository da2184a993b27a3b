/* SPDX-License-Identifier: Apache-2.0
 * make_recurrent.c - random LSTM, GRU and RNN with constant weights.  ONNX Runtime knows no layout 1, and
 * what it makes of clip and of a sequence of no steps is its own: none of these is drawn. */
#include <math.h>
#include "runtime/ops/util.h"
#include "tests/differential/make.h"

static const struct {
    const char *op;
    int gates;
} cells[] = {{"RNN", 1}, {"GRU", 3}, {"LSTM", 4}};

static int maybe(struct dt_maker *m, int rank, const int64_t *d, double scale) {
    return dt_roll(m, 2) ? dt_const(m, MOIRE_F32, rank, d, scale, 0) : -1;
}

/* x is [steps, sequences, numbers]; one in three reads another tensor as its first state, if there is one. */
static void recurrent(struct dt_maker *m, int x) {
    const struct mo_shape s = *dt_shape(m, x);
    if (s.rank != 3 || s.d[0] > 40 || mo_extent(&s, 0, 3) < 1) return;
    const int cell = dt_roll(m, 3);
    const int64_t hidden = 1 + dt_roll(m, 24), ways = 1 + dt_roll(m, 2), rows = cells[cell].gates * hidden;
    const int64_t w[] = {ways, rows, s.d[2]}, r[] = {ways, rows, hidden}, bias[] = {ways, 2 * rows},
                  state[] = {ways, s.d[1], hidden}, peep[] = {ways, 3 * hidden};
    const double scale = 1 / sqrt((double)hidden);
    int in[8] = {x,
                 dt_const(m, MOIRE_F32, 3, w, 1 / sqrt((double)s.d[2]), 0),
                 dt_const(m, MOIRE_F32, 3, r, scale, 0),
                 maybe(m, 2, bias, 0.3),
                 -1,
                 maybe(m, 3, state, 0.5),
                 maybe(m, 3, state, 0.5),
                 maybe(m, 2, peep, 0.3)};
    const struct mo_shape like = {3, {ways, s.d[1], hidden}};
    if (dt_roll(m, 3) == 0) in[5] = dt_like(m, MOIRE_F32, &like);
    struct mo_node *n = dt_node(m, cells[cell].op, cell == 2 ? 8 : 6, in, 1 + dt_roll(m, 2));
    dt_int(m, n, "hidden_size", hidden);
    if (ways == 2)
        dt_string(m, n, "direction", "bidirectional");
    else if (dt_roll(m, 2))
        dt_string(m, n, "direction", "reverse");
    if (cell == 1 && dt_roll(m, 2)) dt_int(m, n, "linear_before_reset", 1);
    dt_keep(m, n);
}

const struct dt_kind dt_kinds_recurrent[] = {{"recurrent", 12, MO_TYPE(MOIRE_F32), recurrent}, {0}};
