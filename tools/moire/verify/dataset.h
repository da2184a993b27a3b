/* SPDX-License-Identifier: Apache-2.0
 * dataset.h - inputs and expected outputs of a model, as the ONNX backend tests keep them (input_0.pb,
 * output_0.pb) or as NumPy files named after inputs and outputs; and the comparison of tensors. */
#ifndef MO_DATASET_H
#define MO_DATASET_H
#include <stdbool.h>
#include "codegen/frontend.h"

enum { MO_DATASET_PORTS = 64 };

struct mo_dataset {
    const struct mo_env *env;
    struct mo_graph *store; /* owns what was read */
    int n_in, n_out;
    const char *in_name[MO_DATASET_PORTS], *out_name[MO_DATASET_PORTS];
    moire_tensor in[MO_DATASET_PORTS], out[MO_DATASET_PORTS]; /* dtype MOIRE_NONE: no file */
    moire_shape shape[MO_DATASET_PORTS];                      /* of the inputs, for mo_frontend_options */
    int contradicts; /* 1 + index of an input file whose shape is not what the model declares; 0 = none */
};

/* Reads the model's input and output names (initializers are no inputs) and the files of `folder`.  A missing
 * file leaves its port empty; a 16-bit file of a port declared bfloat16 holds its bits; one that is no dense
 * tensor of numbers is MOIRE_EUNSUPPORTED. */
int mo_dataset_open(const struct mo_env *env, const char *model, const char *folder, struct mo_dataset *out,
                    moire_error *err);
void mo_dataset_close(struct mo_dataset *data);

struct mo_difference {
    double max_abs, max_rel; /* relative to the range of the expected values */
    int64_t n_bad, first_bad;
    double got, want;  /* at first_bad */
    bool finite;       /* NaN and infinity are where they should be */
    const char *shape; /* not NULL: type or shape differ */
};

/* Element by element: floats agree when |got - want| <= atol + rtol |want|, all else exactly.  True = agree.
 */
bool mo_tensors_agree(const moire_tensor *want, const moire_tensor *got, double rtol, double atol,
                      struct mo_difference *out);
#endif
