/* SPDX-License-Identifier: Apache-2.0
 * settings.h - what simulated results depend on beside policies and the code: a document that grows over
 * several runs (bench/data/journal.h) keeps them with each result, so that a later run does not mix in
 * others. */
#ifndef MO_BENCH_SETTINGS_H
#define MO_BENCH_SETTINGS_H
#include "bench/sim/simulate.h"

/* A new object: of the machine, the scenario, the arrivals and the search; to be added to. */
json_t *mo_bench_settings(const struct mo_bench_simulate_options *options);
/* Whether a result {"piece", "settings"} was made with these; MOIRE_EINVAL names the first that differs. */
int mo_bench_settings_check(const json_t *result, const json_t *settings, moire_error *err);
#endif
