/* SPDX-License-Identifier: Apache-2.0
 * recurrent_text.c - the text of recurrent cells: the equations of the ONNX operator pages over operands that
 * lie in memory, or in shared memory where the whole recurrence is one launch. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "runtime/gpu/lower/recurrent_impl.h"

static const bool writes[MO_PARTS] = {
    [MO_PART_STATE_H] = true, [MO_PART_STATE_C] = true, [MO_PART_OPERAND] = true, [MO_PART_GATED] = true,
    [MO_PART_ALL_H] = true,   [MO_PART_LAST_H] = true,  [MO_PART_LAST_C] = true};

bool mo_recurrent_has(const struct mo_recurrent_job *j, enum mo_part part) {
    return j->part[part].rank >= 0;
}

/* --- text ----------------------------------------------------------------------------------------------- */

void mo_recurrent_begin(struct mo_recurrent_job *j, const struct mo_gpu_view *over) {
    mo_each_init(j->l, &j->e, over);
    for (int i = 0; i < MO_PARTS; i++)
        j->at[i] = -1;
}

static int operand(struct mo_recurrent_job *j, enum mo_part part) {
    if (j->at[part] < 0) j->at[part] = mo_each_arg(&j->e, &j->part[part], writes[part]);
    return j->at[part];
}

void mo_recurrent_value(struct mo_recurrent_job *j, enum mo_part part, const char *const *at) {
    mo_each_value(&j->e, operand(j, part), at);
}

void mo_recurrent_store(struct mo_recurrent_job *j, enum mo_part part, const char *const *at,
                        const char *what) {
    if (mo_recurrent_has(j, part)) mo_each_store(&j->e, operand(j, part), at, what);
}

/* The column of a gate: `first` units before its own. */
static const char *column(char (*name)[40], int64_t first) {
    snprintf(*name, sizeof *name, "%lld + o2", (long long)first);
    return *name;
}

static void add_bias(struct mo_recurrent_job *j, int64_t first) {
    char name[40];
    if (!mo_recurrent_has(j, MO_PART_BIAS)) return;
    mo_gpu_printf(&j->e.body, " + ");
    mo_recurrent_value(j, MO_PART_BIAS, MO_AT("o0", column(&name, first)));
}

/* x<gate> and p<gate>: both products with their biases. */
static void sums_text(struct mo_recurrent_job *j, int gate) {
    struct mo_gpu_text *t = &j->e.body;
    const int64_t first = gate * j->r.hidden;
    const bool last = j->later && gate == j->r.gates - 1;
    char name[40];
    mo_gpu_printf(t, "    const float x%d = ", gate);
    mo_recurrent_value(j, MO_PART_INPUTS, MO_AT("when", "o1", "o0", column(&name, first)));
    add_bias(j, first);
    mo_gpu_printf(t, ";\n    const float p%d = ", gate);
    if (j->looped)
        mo_gpu_printf(t, "sums[%s]", column(&name, first));
    else
        mo_recurrent_value(j, last ? MO_PART_LAST : MO_PART_SUMS,
                           MO_AT("o0", "o1", last ? "o2" : column(&name, first)));
    add_bias(j, (j->r.gates + gate) * j->r.hidden);
    mo_gpu_printf(t, ";\n");
}

static void act_call(struct mo_gpu_text *t, const struct mo_recurrent_act *act) {
    static const char *const names[][2] = {
        {"Affine", "affine"},
        {"Relu", "relu"},
        {"Tanh", "tanh"},
        {"Sigmoid", "sigmoid"},
        {"LeakyRelu", "leaky"},
        {"ThresholdedRelu", "threshold"},
        {"HardSigmoid", "hsigmoid"},
        {"ScaledTanh", "scaled_tanh"},
        {"Elu", "elu"},
        {"Softsign", "softsign"},
        {"Softplus", "softplus"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i][0], act->name)) mo_gpu_printf(t, "mo_%s(v, ", names[i][1]);
    mo_gpu_literal(t, (float)act->a);
    mo_gpu_printf(t, ", ");
    mo_gpu_literal(t, (float)act->b);
    mo_gpu_printf(t, ")");
}

/* "name = act(sum)", of the direction's function k. */
static void act_text(struct mo_recurrent_job *j, const char *name, int k, const char *sum, bool clipped) {
    struct mo_gpu_text *t = &j->e.body;
    const struct mo_recurrent *r = &j->r;
    mo_gpu_printf(t, "    float %s;\n    { const float v = ", name);
    if (clipped && !isinf(r->clip)) {
        mo_gpu_printf(t, "mo_clip(%s, ", sum);
        mo_gpu_literal(t, (float)-r->clip);
        mo_gpu_printf(t, ", ");
        mo_gpu_literal(t, (float)r->clip);
        mo_gpu_printf(t, ")");
    } else {
        mo_gpu_printf(t, "%s", sum);
    }
    mo_gpu_printf(t, "; %s = ", name);
    if (r->directions > 1) {
        mo_gpu_printf(t, "o0 ? ");
        act_call(t, &r->act[1][k]);
        mo_gpu_printf(t, " : ");
    }
    act_call(t, &r->act[0][k]);
    mo_gpu_printf(t, "; }\n");
}

/* The sum of an LSTM's gate with what its peephole sees of the cell. */
static void peep_text(struct mo_recurrent_job *j, const char *name, int gate, int peephole,
                      const char *cell) {
    struct mo_gpu_text *t = &j->e.body;
    char at[40];
    mo_gpu_printf(t, "    const float %s = x%d + p%d", name, gate, gate);
    if (mo_recurrent_has(j, MO_PART_PEEPHOLES)) {
        mo_gpu_printf(t, " + %s * ", cell);
        mo_recurrent_value(j, MO_PART_PEEPHOLES, MO_AT("o0", column(&at, peephole * j->r.hidden)));
    }
    mo_gpu_printf(t, ";\n");
}

static void state_text(struct mo_recurrent_job *j, const char *name, enum mo_part part) {
    mo_gpu_printf(&j->e.body, "    const float %s = ", name);
    if (j->looped)
        mo_gpu_printf(&j->e.body, "%s[o2]", part == MO_PART_STATE_H ? "state" : "cell");
    else
        mo_recurrent_value(j, part, mo_each_here);
    mo_gpu_printf(&j->e.body, ";\n");
}

static void lstm_text(struct mo_recurrent_job *j) {
    state_text(j, "c", MO_PART_STATE_C);
    peep_text(j, "si", 0, 0, "c");
    act_text(j, "i", 0, "si", true);
    if (j->r.input_forget) {
        mo_gpu_printf(&j->e.body, "    const float f = 1 - i;\n");
    } else {
        peep_text(j, "sf", 2, 2, "c");
        act_text(j, "f", 0, "sf", true);
    }
    act_text(j, "g", 1, "x3 + p3", true);
    mo_gpu_printf(&j->e.body, "    const float next_c = f * c + i * g;\n");
    peep_text(j, "so", 1, 1, "next_c");
    act_text(j, "o", 0, "so", true);
    act_text(j, "seen", 2, "next_c", false);
    mo_gpu_printf(&j->e.body, "    const float next = o * seen;\n");
}

static void gru_text(struct mo_recurrent_job *j) {
    state_text(j, "h", MO_PART_STATE_H);
    act_text(j, "z", 0, "x0 + p0", true);
    if (!j->later) act_text(j, "reset", 0, "x1 + p1", true);
    act_text(j, "g", 1, j->later ? "x2 + p2" : "x2 + reset * p2", true);
    mo_gpu_printf(&j->e.body, "    const float next = (1 - z) * g + z * h;\n");
}

/* The next state: `next`, and `next_c`. */
void mo_recurrent_cell(struct mo_recurrent_job *j) {
    for (int gate = 0; gate < j->r.gates; gate++)
        if (!(j->later && gate == 1)) sums_text(j, gate);
    if (j->r.cell == MO_CELL_LSTM)
        lstm_text(j);
    else if (j->r.cell == MO_CELL_GRU)
        gru_text(j);
    else
        act_text(j, "next", 0, "x0 + p0", true);
}

/* What the GRU's last gate sees of the state: `gated`. */
void mo_recurrent_gate(struct mo_recurrent_job *j) {
    sums_text(j, 1);
    state_text(j, "h", MO_PART_STATE_H);
    act_text(j, "reset", 0, "x1 + p1", true);
    mo_gpu_printf(&j->e.body, "    const float gated = reset * h;\n");
}

/* n: the steps that count of sequence o1. */
void mo_recurrent_length(struct mo_recurrent_job *j) {
    struct mo_gpu_text *t = &j->e.body;
    const long long seq = (long long)j->r.seq;
    if (!mo_recurrent_has(j, MO_PART_LENGTHS)) {
        mo_gpu_printf(t, "    const int n = %lld;\n", seq);
        return;
    }
    mo_gpu_printf(t, "    int n = (int)");
    mo_recurrent_value(j, MO_PART_LENGTHS, MO_AT("o1"));
    mo_gpu_printf(t, ";\n    n = n < 0 ? 0 : n > %lld ? %lld : n;\n", seq, seq);
}

void mo_recurrent_time(struct mo_recurrent_job *j) {
    mo_gpu_printf(&j->e.body, "    const int when = %s;\n",
                  j->r.directions > 1 ? "o0 ? n - 1 - step : step"
                  : j->r.reverse      ? "n - 1 - step"
                                      : "step");
}
