/* SPDX-License-Identifier: Apache-2.0
 * no_store.c - the variant store of a program that has none: plans bind to the built-in kernels. */
#include "variants/store.h"

bool mo_store_find(const struct mo_store *store, const char *signature, enum mo_isa isa,
                   struct mo_variant *out) {
    (void)store, (void)signature, (void)isa, (void)out;
    return false;
}
