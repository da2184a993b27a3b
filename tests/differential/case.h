/* SPDX-License-Identifier: Apache-2.0
 * case.h - one model with inputs and what its outputs have to be.
 *
 * The expected values are those of the references, which compute sums in double.  How far an answer may lie
 * from them is measured, not guessed: the references run again with an error put into the result of every
 * operator that rounds - of some units of its element type, relative to the value and, for sums, to the
 * typical value of the tensor - and what comes out differs from the expected values by `spread`.  This
 * follows depth, cancellation and conditioning of every graph, and is zero where nothing rounds: a graph that
 * only moves values must be right to the bit.  Values that are rounded to 8 bits go to the next step where an
 * error carries them past the middle, so errors go up in one run and down in another.  All other integers
 * must always be equal. */
#ifndef MO_DT_CASE_H
#define MO_DT_CASE_H
#include "runtime/graph/graph.h"
#include "tests/differential/make.h"

struct dt_output {
    moire_tensor want;
    double *spread, typical;        /* of every element; root of the mean square */
    double *coarse, typical_coarse; /* with errors of the coarsest type of the model everywhere */
    bool rounded; /* some operator before it rounds, even if errors of the disturbed runs have cancelled */
};

struct dt_case {
    const struct mo_env *env;
    uint64_t seed;
    const uint8_t *bytes; /* the ONNX file */
    size_t n;
    struct mo_graph *graph; /* as imported; owns the rest */
    int n_in, n_out;
    moire_tensor in[DT_PORTS];
    struct dt_output out[DT_PORTS];
    bool halves;
};

/* inputs: NULL = drawn from the seed.  The code and message of the importer or of the references when these
 * refuse it. */
int dt_case_open(const struct mo_env *env, const uint8_t *bytes, size_t n, uint64_t seed,
                 const moire_tensor *inputs, struct dt_case *out, moire_error *err);
void dt_case_close(struct dt_case *c);

enum dt_strictness { DT_CLOSE, DT_MIXED, DT_PEER };
/* True: `got` is right.  Else says where it is not.  DT_MIXED: a kernel mixes pixels before it sums (struct
 * mo_step); DT_PEER: it rounds every result to the element type that the model names. */
bool dt_case_agrees(const struct dt_case *c, int output, const moire_tensor *got, enum dt_strictness how,
                    char *why, size_t n);
#endif
