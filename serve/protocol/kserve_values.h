/* SPDX-License-Identifier: Apache-2.0
 * kserve_values.h - elements of tensors as JSON numbers. */
#ifndef MS_KSERVE_VALUES_H
#define MS_KSERVE_VALUES_H
#include "serve/protocol/kserve.h"

/* Reads `data` (flat or nested, row-major) into `count` elements at `to`.  MOIRE_EINVAL: not that many, no
 * number, or one that the type cannot hold. */
int ms_values_read(const json_t *data, const char *name, moire_dtype type, int64_t count, void *to,
                   moire_error *err);
/* Whether elements of the type are numbers that can be compared; which of two is higher (above 0: the first),
 * NaN below all; one as text, real ones as %f. */
bool ms_values_have_order(moire_dtype type);
int ms_values_compare(const moire_tensor *tensor, size_t a, size_t b);
void ms_values_text(const moire_tensor *tensor, size_t i, char *text, size_t room);
/* Appends the elements as one flat array.  Strings are as the binary form has them, each behind its length in
 * 4 bytes; JSON has no form for one that is not UTF-8. */
int ms_values_write(const moire_tensor *tensor, const char *name, struct ms_bytes *to, moire_error *err);
#endif
