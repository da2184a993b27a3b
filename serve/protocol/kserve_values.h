/* SPDX-License-Identifier: Apache-2.0
 * kserve_values.h - elements of tensors as JSON numbers. */
#ifndef MS_KSERVE_VALUES_H
#define MS_KSERVE_VALUES_H
#include "serve/protocol/kserve.h"

/* Reads `data` (flat or nested, row-major) into `count` elements at `to`.  MOIRE_EINVAL: not that many, no
 * number, or one that the type cannot hold. */
int ms_values_read(const json_t *data, const char *name, moire_dtype type, int64_t count, void *to,
                   moire_error *err);
/* Appends the elements as one flat array. */
int ms_values_write(const moire_tensor *tensor, const char *name, struct ms_bytes *to, moire_error *err);
#endif
