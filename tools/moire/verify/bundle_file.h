/* SPDX-License-Identifier: Apache-2.0
 * bundle_file.h - sequences and optionals as the ONNX backend tests keep them (SequenceProto, OptionalProto),
 * and their comparison. */
#ifndef MO_BUNDLE_FILE_H
#define MO_BUNDLE_FILE_H
#include "codegen/import/import.h"
#include "runtime/ops/control/bundle.h"

/* The message of that kind in the bytes, in memory of mo_alloc() that is the caller's.  `path` is for
 * messages. */
int mo_bundle_read(const struct mo_import *im, enum mo_bundle_kind kind, const uint8_t *bytes, size_t n,
                   const char *path, struct mo_value *out);
#endif
