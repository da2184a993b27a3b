/* SPDX-License-Identifier: Apache-2.0
 * solo_times.h - the solo times that targets and loads rest on, and whether they can be trusted.
 *
 * All systems and numbers of threads of all tenants are loaded at once, as far as memory allows, and measured
 * in turn, in short slices, until their times agree (bench/trust/agreement.h).  A host that is slow for some
 * seconds so meets one slice of a series, not all.  What still stands against them then is part of the
 * result: "calibration": {"trusted": false, "why": ["..."], ...}. */
#ifndef MO_BENCH_SOLO_TIMES_H
#define MO_BENCH_SOLO_TIMES_H
#include "bench/trust/agreement.h"
#include "bench/load/serve.h"

/* Fills mix->qos_ns, solo_ms and calibration. */
int mo_bench_measure_targets(struct mo_bench_session *session, const struct mo_bench_serve_options *options,
                             struct mo_bench_mix *mix, moire_error *err);

/* Shortest time of the peers (or of all systems) with at most so many threads, ms; 0 = none.  More threads
 * that are slower than fewer do not lengthen it. */
double mo_bench_solo_best(const struct mo_solo_series *series, int n, int threads, bool peers);
/* Appends a sentence to `why` for each series of a tenant's model that cannot be trusted. */
void mo_bench_doubt_series(const char *tenant, const struct mo_solo_series *series, int n,
                           const struct mo_solo_rule *rule, json_t *why);
/* Appends a sentence when others kept the processors busy; when: "before the measurement". */
void mo_bench_doubt_machine(const struct mo_others *others, const char *when, json_t *why);
#endif
