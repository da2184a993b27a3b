/* SPDX-License-Identifier: Apache-2.0
 * bundle.h - sequences and optionals: values that hold other values, as one run of bytes.
 *
 * A bundle is a vector of bytes to whatever copies, keeps and frees values: a head, an entry for each
 * element, then the elements' contents, each 64-byte aligned.  An optional has no element or one, which may
 * be a sequence. Operators make them; a model's inputs and outputs may be bundles inside the library only:
 * moire_load() refuses such models, for a query's tensors say what they are by type and shape. */
#ifndef MO_BUNDLE_OPS_H
#define MO_BUNDLE_OPS_H
#include "runtime/ops/op.h"

enum mo_bundle_kind { MO_SEQUENCE = 1, MO_OPTIONAL = 2 };

/* Elements; -1: it is no bundle of that kind. */
int64_t mo_bundle_count(const struct mo_value *v, enum mo_bundle_kind kind);
/* Element i, which lies in the bundle. */
struct mo_value mo_bundle_at(const struct mo_value *v, int64_t i);
/* The type that all elements have; MOIRE_NONE where nobody has said. */
moire_dtype mo_bundle_type(const struct mo_value *v);
/* A bundle of these elements, in memory of mo_alloc() that is the caller's. */
int mo_bundle_make(const struct mo_env *env, enum mo_bundle_kind kind, moire_dtype type,
                   const struct mo_value *items, int64_t n, struct mo_value *out, moire_error *err);
#endif
