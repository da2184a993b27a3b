/* SPDX-License-Identifier: Apache-2.0
 * census.h - which operators a model uses, and which of them moire has: the model is read without importing
 * it, so that every obstacle is listed at once instead of the first. */
#ifndef MO_CENSUS_H
#define MO_CENSUS_H
#include <stdbool.h>
#include "runtime/base/env.h"

struct mo_census_row {
    const char *op, *domain; /* of the model: untrusted text */
    int version;             /* of the domain, as the model imports it; 0 = not imported */
    int count;               /* nodes */
    int since;               /* first version moire reads; 0 = it has no such operator */
    bool supported;
    const char *first; /* name of the first node, for messages */
};

struct mo_census {
    struct mo_region *region;
    struct mo_census_row *rows; /* sorted by domain and operator */
    int n_rows, n_nodes, n_unsupported /* nodes */, opset;
    const char *producer, *graph;
    int64_t ir_version;
    int n_strings; /* initializers and inputs that are no dense tensors of numbers */
};

int mo_census_take(const struct mo_env *env, const char *model, struct mo_census *out, moire_error *err);
void mo_census_free(struct mo_census *census);
#endif
