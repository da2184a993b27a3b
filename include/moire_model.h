/* SPDX-License-Identifier: Apache-2.0
 *
 * moire_model.h - what an ONNX file says of its inputs and outputs, without loading it: for servers, which
 * must tell their clients, and to find open dimensions.  moire.h includes it.
 */
#ifndef MOIRE_MODEL_H
#define MOIRE_MODEL_H
#include "moire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A file that was read: nothing is prepared, nothing of the weights is kept. */
typedef struct moire_model moire_model;
/* Reads and checks a file.  On success *out is the caller's, to be given to moire_model_close(); else it is
 * NULL.
 * Returns: MOIRE_OK; MOIRE_EINVAL: an argument is NULL; MOIRE_EIO, MOIRE_EFORMAT, MOIRE_EUNSUPPORTED,
 * MOIRE_ELIMIT, MOIRE_ENOMEM: as moire_load(), which may find more: it also infers shapes. */
MOIRE_API int moire_model_open(const char *path, moire_model **out, moire_error *err);
/* Frees a model.  NULL is fine.  Returns: nothing. */
MOIRE_API void moire_model_close(moire_model *model);
/* Inputs that queries give, in order.  Returns: how many; 0 when model is NULL. */
MOIRE_API int moire_model_n_inputs(const moire_model *model);
/* Outputs, in the order of answers.  Returns: how many; 0 when model is NULL. */
MOIRE_API int moire_model_n_outputs(const moire_model *model);
/* Describes input `index`, from 0, in *out.  A dimension that the file leaves open is -1, and so is the rank
 * where it says none: moire_tenant_config.shapes binds them.
 * Returns: MOIRE_OK; MOIRE_EINVAL: model or out is NULL, or there is no such input. */
MOIRE_API int moire_model_input(const moire_model *model, int index, moire_port *out);
/* Describes output `index`, from 0, in *out; open dimensions and ranks as of inputs.
 * Returns: MOIRE_OK; MOIRE_EINVAL: model or out is NULL, or there is no such output. */
MOIRE_API int moire_model_output(const moire_model *model, int index, moire_port *out);

#ifdef __cplusplus
}
#endif
#endif
