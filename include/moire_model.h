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

/* Whether queries may be joined to a batch: `shapes` (n_shapes of them, of all inputs) are those of the
 * batch, with the number of its rows, 2 or more, as first dimension of each.  Row i of every output then
 * depends on row i of the inputs only, and is what a run of that row alone gives, by the definitions of the
 * operators; kernels may sum in another order.  It is shown from operator to operator (docs/legality.md) for
 * this number of rows, so that a "no" may be wrong and a "yes" is not.  Reads the file twice. Returns:
 * MOIRE_OK: rows are separate; MOIRE_EUNSUPPORTED: they are not, or it could not be shown, and err names the
 * first operator in question; MOIRE_EINVAL: model or shapes are NULL, n_shapes is less than 1, a shape has no
 * input, another number of rows, or less than 2; MOIRE_ESHAPE: the model cannot have these shapes; MOIRE_EIO,
 * MOIRE_EFORMAT, MOIRE_ELIMIT, MOIRE_ENOMEM: as moire_load(). */
MOIRE_API int moire_model_rows_are_separate(const moire_model *model, const moire_shape *shapes, int n_shapes,
                                            moire_error *err);
/* Whether inputs may be padded along dimension `axis` and outputs cut again: as above, for positions along
 * that dimension of every input in place of rows.  `shapes` are those of the padded inputs, with the same
 * number of positions, 2 or more, in each.  output_axis: for each output of the model an entry, which becomes
 * the dimension along which it has its positions: it is a whole multiple of theirs there, and as many parts
 * of it as there were positions before are the answer.  Which positions other ones are filled with changes
 * nothing.
 * Returns: as moire_model_rows_are_separate(); MOIRE_EINVAL also: axis is no dimension of an input, or
 * output_axis is NULL. */
MOIRE_API int moire_model_positions_are_separate(const moire_model *model, const moire_shape *shapes,
                                                 int n_shapes, int axis, int *output_axis, moire_error *err);

#ifdef __cplusplus
}
#endif
#endif
