/* SPDX-License-Identifier: Apache-2.0
 * veltair_example.c - see veltair_example.h. */
#include "tests/unit/policy/veltair_example.h"

#include <assert.h>
#include "tests/unit/policy/policy_bed.h"

struct mo_profile *veltair_example(void) {
    struct mo_profile *p = mo_profile_create(policy_bed_env(), LAYERS, CORES);
    assert(p);
    for (int n = 1; n <= CORES; n++)
        mo_profile_record(p, n, (const int64_t[]){1600 / n, 100 / n, 250, 2100 / n, 200 / n});
    mo_profile_operations(p, (const int64_t[]){40, 10, 10, 30, 10});
    mo_profile_finish(p);
    return p;
}
