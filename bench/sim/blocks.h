/* SPDX-License-Identifier: Apache-2.0
 * blocks.h - `moire blocks`: how VELTAIR cuts a scenario's models into blocks on a simulated machine.
 *
 * For each model, with targets shared by operations and by one-core time: Avg_C, and at three loads the limit
 * Avg_C + thres, the pivots, and the blocks with the cores that they need.  The loads: the query is `alone`;
 * the active queries need `half` of the cores; they need all or more (`full`). */
#ifndef MO_BENCH_BLOCKS_H
#define MO_BENCH_BLOCKS_H
#include "bench/sim/simulate.h"

/* {"kind": "blocks", "machine", "scenario", "cores", "models": [{"model", "layers", "qos_ms", "by", "known",
 * "average", "loads": [{"active", "limit", "pivots", "blocks": [{"begin", "end", "cores"}]}]}]}; known: the
 * profile has operation counts.  Machines of cores only: MOIRE_EINVAL. */
int mo_bench_blocks(const struct mo_env *env, const struct mo_bench_simulate_options *options, json_t **out,
                    moire_error *err);
void mo_bench_blocks_print(const json_t *document);
#endif
