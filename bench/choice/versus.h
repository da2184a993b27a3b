/* SPDX-License-Identifier: Apache-2.0
 * versus.h - two policies of moire in turns on the same arrivals, and how far they are apart.
 *
 * Both are up in processes of their own, one of which waits while the other serves, so that what the machine
 * does in the meantime meets both.  A pair is one turn of each, with the same arrivals; who goes first
 * changes from pair to pair.  What is compared is the mean over pairs, with its 95 % interval. */
#ifndef MO_BENCH_VERSUS_H
#define MO_BENCH_VERSUS_H
#include "bench/load/serve.h"

enum { MO_VERSUS_PAIRS = 5 };

/* One turn. */
struct mo_versus_turn {
    int n;          /* queries that counted */
    double within;  /* share in time */
    double latency; /* mean over queries of the logarithm of their tenant's mean latency */
    double core_s;  /* core time inside kernels for each accepted query */
};

/* A turn's point, and the report of the runner behind it; false: it lacks something, or no query counted. */
bool mo_versus_read(const json_t *point, const json_t *report, struct mo_versus_turn *out);
/* {"pairs", "queries", "within_points": {"mean", "low", "high"}, "latency_ratio": ..., "core_time_ratio":
 * ...}: a against b, a share's difference in per cent, the others as quotients. */
json_t *mo_versus_json(const struct mo_versus_turn *a, const struct mo_versus_turn *b, int n);

/* --- the parts of a comparison, for others that take turns (bench/choice/beside.h) --- */
struct mo_versus_side {
    struct mo_bench_system system;
    char name[64];
    struct mo_bench_child child;
};
/* Starts a runner with that policy; trace: it can tell what it chose.  To be ended, also after an error. */
int mo_versus_begin(struct mo_bench_session *session, const struct mo_bench_mix *mix, const char *policy,
                    bool trace, struct mo_versus_side *side, moire_error *err);
void mo_versus_end(struct mo_versus_side *side); /* one that was never begun (zeros) is fine */
/* Serves the arrivals of `seed`.  choices: what it chose meanwhile as a new reference, NULL where it told
 * nothing; may be NULL. */
int mo_versus_take(const struct mo_bench_mix *mix, const struct mo_bench_serve_options *options, double load,
                   uint64_t seed, struct mo_versus_side *side, struct mo_versus_turn *out, json_t **choices,
                   moire_error *err);
/* The same options with the length of a turn; the load that policies are compared at. */
struct mo_bench_serve_options mo_versus_brief(const struct mo_bench_serve_options *options);
double mo_versus_load(const struct mo_bench_serve_options *options);
/* --- */

/* The first policy of the options against options->against, at the highest load asked for.  *out: as
 * mo_versus_json() with "policy", "against", "load" and "seconds" of a turn. */
int mo_bench_versus(struct mo_bench_session *session, const struct mo_bench_serve_options *options,
                    const struct mo_bench_mix *mix, json_t **out, moire_error *err);
#endif
