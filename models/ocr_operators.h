/* SPDX-License-Identifier: Apache-2.0
 * ocr_operators.h - the steps between the networks of the reading pipeline as operators on tensors, for a
 * server that runs the pipeline as a graph of models.
 *
 * They are host code of models/, so that `moire ocr` and `moire serve` read with one copy of it; the server
 * gets them handed in as a table (tools/moire/serve_operators.c), as it includes nothing of this.
 *
 * A list of tensors of differing shapes is two tensors: the elements of all one behind the other [-1], and
 * the shapes int64 [n, rank]. */
#ifndef MO_OCR_OPERATORS_H
#define MO_OCR_OPERATORS_H
#include "models/ocr.h"

enum { MO_OPERATOR_PORTS = 5 };
struct mo_operator {
    const char *name;
    const char *file; /* what the file is that it needs; NULL: none */
    moire_port input[MO_OPERATOR_PORTS], output[MO_OPERATOR_PORTS];
    int n_inputs, n_outputs;
    /* Inputs have types, ranks and shapes of the ports; outputs lie in the region.  dictionary: of its file.
     */
    int (*run)(struct mo_region *region, const struct mo_ocr_dictionary *dictionary, const moire_tensor *in,
               moire_tensor *out, moire_error *err);
};
/* The table; *n rows. */
const struct mo_operator *mo_ocr_operators(int *n);
#endif
