/* SPDX-License-Identifier: Apache-2.0
 * recurrent_text.c - the text of recurrent cells: the equations of the ONNX operator pages over operands that
 * lie in memory, or in shared memory where the whole recurrence is one launch. */
#include <stdio.h>
#include "runtime/gpu/lower/recurrent_impl.h"

static const bool writes[MO_PARTS] = {
    [MO_PART_STATE_H] = true, [MO_PART_STATE_C] = true, [MO_PART_OPERAND] = true,
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
    char name[40];
    mo_gpu_printf(t, "    const float x%d = ", gate);
    mo_recurrent_value(j, MO_PART_INPUTS, MO_AT("when", "o1", "o0", column(&name, first)));
    add_bias(j, first);
    mo_gpu_printf(t, ";\n    const float p%d = ", gate);
    if (j->looped)
        mo_gpu_printf(t, "sums[%s]", column(&name, first));
    else
        mo_recurrent_value(j, MO_PART_SUMS, MO_AT("o0", "o1", column(&name, first)));
    add_bias(j, (j->r.gates + gate) * j->r.hidden);
    mo_gpu_printf(t, ";\n");
}

static void act_text(struct mo_recurrent_job *j, const char *name, bool gate, const char *sum) {
    mo_gpu_printf(&j->e.body, "    const float %s = mo_%s(%s, 0, 0);\n", name, gate ? "sigmoid" : "tanh",
                  sum);
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
    act_text(j, "i", true, "x0 + p0");
    act_text(j, "o", true, "x1 + p1");
    act_text(j, "f", true, "x2 + p2");
    act_text(j, "g", false, "x3 + p3");
    mo_gpu_printf(&j->e.body, "    const float next_c = f * c + i * g;\n");
    act_text(j, "seen", false, "next_c");
    mo_gpu_printf(&j->e.body, "    const float next = o * seen;\n");
}

static void gru_text(struct mo_recurrent_job *j) {
    state_text(j, "h", MO_PART_STATE_H);
    act_text(j, "z", true, "x0 + p0");
    act_text(j, "reset", true, "x1 + p1");
    act_text(j, "g", false, "x2 + reset * p2");
    mo_gpu_printf(&j->e.body, "    const float next = (1 - z) * g + z * h;\n");
}

/* The next state: `next`, and `next_c`. */
void mo_recurrent_cell(struct mo_recurrent_job *j) {
    for (int gate = 0; gate < j->r.gates; gate++)
        sums_text(j, gate);
    if (j->r.cell == MO_CELL_LSTM)
        lstm_text(j);
    else if (j->r.cell == MO_CELL_GRU)
        gru_text(j);
    else
        act_text(j, "next", false, "x0 + p0");
}

void mo_recurrent_time(struct mo_recurrent_job *j) {
    const long long last = (long long)j->r.seq - 1;
    if (j->r.directions > 1)
        mo_gpu_printf(&j->e.body, "    const int when = o0 ? %lld - step : step;\n", last);
    else if (j->r.reverse)
        mo_gpu_printf(&j->e.body, "    const int when = %lld - step;\n", last);
    else
        mo_gpu_printf(&j->e.body, "    const int when = step;\n");
}
