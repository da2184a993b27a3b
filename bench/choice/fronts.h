/* SPDX-License-Identifier: Apache-2.0
 * fronts.h - what `moire tune` found for the models of a mix: the sampled kernels of every layer, and which
 * of them were kept as versions. */
#ifndef MO_BENCH_FRONTS_H
#define MO_BENCH_FRONTS_H
#include "bench/load/serve.h"

/* Of the tenants whose layers had versions to choose among in any of the results:
 *   [{"tenant", "index", "layers": [{"layer": signature, "uses", "points": [{"state", "version": place among
 *     those kept or null, "kernel", "parallelism", "block_kib", "beyond_kib", "us": [by level of
 *     pressure]}]}]}]
 * Empty where there is no store or nothing is tuned. */
json_t *mo_bench_fronts(const struct mo_bench_session *session, const struct mo_bench_mix *mix,
                        const json_t *results);
#endif
