/* SPDX-License-Identifier: Apache-2.0
 * papi.h - the source `papi` with other counters than the processor's: libpapi also reads components that
 * count in software (libsde), which every machine has. */
#ifndef MO_PAPI_H
#define MO_PAPI_H
#include "runtime/proxy/source.h"

enum { MO_PAPI_COUNTERS = 4 };
/* What counts L3 misses, L3 accesses, instructions and cycles. */
struct mo_papi_names {
    const char *component; /* whose counters belong to the process; NULL = the first, attached to each core */
    const char *event[MO_PAPI_COUNTERS];
};
/* As mo_source.open, with the first of n sets of names, tried in order, that the first core knows; they live
 * as long as what is opened.  Sampled and closed by mo_source_papi. */
int mo_papi_open(const struct mo_source_config *config, const struct mo_papi_names *names, int n, void **out,
                 moire_error *err);
#endif
