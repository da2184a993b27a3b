/* SPDX-License-Identifier: Apache-2.0
 * run_energy.h - joules of one run under load: the runtime's rows at its beginning and at its end. */
#ifndef MO_BENCH_RUN_ENERGY_H
#define MO_BENCH_RUN_ENERGY_H
#include <jansson.h>
#include "runtime/serve/parts.h"

enum { MO_RUN_ENERGY_ROWS = 80 }; /* more than moire_energy() has */

struct mo_run_look {
    moire_energy_row row[MO_RUN_ENERGY_ROWS];
    int n; /* 0: nothing is known */
    int64_t at;
};
void mo_run_look(moire_runtime *runtime, struct mo_run_look *out);
/* From one look to another, in which so many queries were answered: {"seconds", "joules", "watts", "queries",
 * "joules_query" (0 without any), "basis": "measured", "modelled" or "measured and modelled", "line", "rows":
 * [{"device", "domain", "source", "measured", "joules", "part"}]}; NULL where nothing is known. */
json_t *mo_run_energy_json(moire_runtime *runtime, const struct mo_run_look *from,
                           const struct mo_run_look *to, int64_t queries);
#endif
