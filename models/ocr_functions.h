/* SPDX-License-Identifier: Apache-2.0
 * ocr_functions.h - the steps between the networks of the reading pipeline as functions on tensors, for a
 * server that runs the pipeline as a graph of models.
 *
 * They are host code of models/, so that `moire ocr` and `moire serve` read with one copy of it; the server
 * gets them handed in as a table (tools/moire/serve_functions.c), as it includes nothing of this.
 *
 * A list of tensors of differing shapes is two tensors: the elements of all one behind the other [-1], and
 * the shapes int64 [n, rank]. */
#ifndef MO_OCR_FUNCTIONS_H
#define MO_OCR_FUNCTIONS_H
#include "models/ocr.h"

enum { MO_FUNCTION_PORTS = 5 };
struct mo_function {
    const char *name;
    const char *file; /* what the file is that it needs; NULL: none */
    moire_port input[MO_FUNCTION_PORTS], output[MO_FUNCTION_PORTS];
    int n_inputs, n_outputs;
    /* Inputs have types, ranks and shapes of the ports; outputs lie in the region.  dictionary: of its file.
     */
    int (*run)(struct mo_region *region, const struct mo_ocr_dictionary *dictionary, const moire_tensor *in,
               moire_tensor *out, moire_error *err);
};
/* The table; *n rows. */
const struct mo_function *mo_ocr_functions(int *n);
#endif
