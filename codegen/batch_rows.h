/* SPDX-License-Identifier: Apache-2.0
 * batch_rows.h - whether a model computes every row of a batch from that row alone, so that queries may be
 * joined.
 *
 * The same file is prepared twice, without passes: for inputs of one row, and of n.  A tensor of the second
 * graph `has its rows at axis a` when it can be cut there into n equal parts, of which part i is, bit by bit,
 * what the first graph computes from row i.  That holds for inputs at their axis; a rule for each operator
 * carries it from operands to results (batch_rows_rules.c), and what no rule covers is not shown.  Since both
 * graphs are at hand, a constant that the batch size went into is seen: it must be the same in both, or
 * repeat itself row by row. */
#ifndef MO_BATCH_ROWS_H
#define MO_BATCH_ROWS_H
#include "runtime/graph/graph.h"

/* Every output of `many`, whose inputs have n rows at axis `in`, has its rows there as well, or, where `out`
 * is not NULL, at axis out[i].  `one`: of the same file, for inputs of one row.  Positions of a sequence are
 * rows in this sense, at another axis than the batch.
 * Returns: MOIRE_OK: it is so; MOIRE_EUNSUPPORTED: it is not, or cannot be shown; err names the operator;
 * MOIRE_ENOMEM. */
int mo_rows_are_separate(const struct mo_graph *one, const struct mo_graph *many, int64_t n, int in, int *out,
                         moire_error *err);
#endif
