/* SPDX-License-Identifier: Apache-2.0
 * cold.h - `moire bench cold`: from nothing to the first answer of every model of a set, in one process.
 *
 * Each round starts a fresh process a system, which loads all models and then runs each once.  The clock
 * starts when that process is ready to load: interpreters and imports of the peers do not count (process_ms
 * has them).  Files are in the page cache after the first round, so disks do not count either. */
#ifndef MO_BENCH_COLD_H
#define MO_BENCH_COLD_H
#include "bench/alone/latency.h"

/* options: models, shapes, the first of threads, families, moire and generic of spec.  Fills *out with the
 * document, also when interrupted (what has been measured). */
int mo_bench_cold(struct mo_bench_session *session, const struct mo_bench_latency_options *options,
                  json_t **out, moire_error *err);
/* The table for the terminal. */
void mo_bench_cold_print(const json_t *document);
#endif
