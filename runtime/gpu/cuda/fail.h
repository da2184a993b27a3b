/* SPDX-License-Identifier: Apache-2.0
 * fail.h - results of the driver as codes and messages. */
#ifndef MO_CUDA_FAIL_H
#define MO_CUDA_FAIL_H
#include "runtime/gpu/cuda/driver.h"

/* The code of a CUresult: MOIRE_OK, _ENOMEM, _EUNSUPPORTED, _EINVAL, _EFAILED, or _EDEVICE for errors after
 * which no call of this process on the GPU succeeds (illegal address, ECC, reset and the like). */
int mo_cuda_code(unsigned result);

/* Fills err with "WHAT: CUDA_ERROR_NAME (n): text" and what to do where there is something; returns the code.
 */
int mo_cuda_error(const struct mo_cuda_driver *cu, unsigned result, moire_error *err, const char *what, ...)
    __attribute__((format(printf, 4, 5)));
#endif
