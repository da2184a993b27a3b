/* SPDX-License-Identifier: Apache-2.0
 * inss_bench.h - `moire bench inss`: the experiments of InSS's section 6 in simulation.
 *
 * Cases, each served by every system under the same arrivals of every seed:
 *   steps     Poisson, rates that step every 150 s (inss_demand.h)
 *   bursts    the same rates, arrivals of a Markov-modulated process: nothing that a policy was trained with
 *   longer    batches take a fifth longer than profiles say, shorter a fifth less
 *   unseen    other models than those that a policy was trained with
 * Ten tenants on four GPUs have all of them, `steps` at each load and the others at the middle one; 8 to 160
 * tenants on 64 GPUs have `steps` at the middle load.  A load is the part of a GPU that a tenant needs in the
 * mean.
 *
 * Who needs how much is drawn for each seed, or (`needs`) once for all of them, as the paper serves one mix
 * of models.
 *
 * A system and a case are a piece: its seeds are runs on worker processes, and a finished piece is in the
 * document, which a later command may take up.  All but decision times is the same for the same command. */
#ifndef MO_INSS_BENCH_H
#define MO_INSS_BENCH_H
#include <jansson.h>
#include "bench/load/session.h"

enum {
    MO_INSS_BENCH_SYSTEMS = 16,
    MO_INSS_BENCH_LOADS = 16,
    MO_INSS_BENCH_CASES = 8,
    MO_INSS_BENCH_SEEDS = 64
};

struct mo_inss_bench_options {
    const char *machine;                           /* file; its GPUs are of one type */
    const char *weights;                           /* of the trained policy; NULL = the machine's own */
    const char *system[MO_INSS_BENCH_SYSTEMS];     /* none: all there are */
    const char *only[MO_INSS_BENCH_CASES];         /* these cases; none: all */
    double load[MO_INSS_BENCH_LOADS];              /* none: 0.1, 0.2, 0.3 */
    int n_systems, n_only, n_loads, n_seeds, jobs; /* seeds 1 to n_seeds */
    uint64_t needs; /* seed of who needs how much in all runs; 0: each run's own */
    double seconds; /* that count, of a run; 20 before them do not.  0 = 300 on up to 4 GPUs, else 60 */
    bool resume;
    const char *output; /* the document as it grows; NULL: in memory only */
};

/* *out: {"kind": "inss", "experiment", "results": [{"system", "gpus", "models", "case", "load", "arrivals"
 * (queries/s that came), "throughput" (queries/s in time), "throughput_ci" (half of the 95 % interval over
 * seeds; null: one seed), "violations_pct" (of those that came: late or dropped), "violations_ci", "late_pct"
 * (of those answered), "fragments_pct" (of used GPUs, in no let), "plans" (a run), "decisions",
 * "decision_ms_p50", "decision_ms_max" (null: none; processor time of a decision), "seeds", "by_seed"
 * (throughputs)}], "comparison": [{"case", "gpus", "models", "load", "over", "gain_pct", "gain_ci",
 * "claimed_pct"}] (inss over each other system, by seed), "capacity": [{"system", "gpus", "load"}] (the
 * highest load of `steps` up to which violations are below 1 %), "latency_model": [{"model", "case", "n",
 * "mean_error_pct", "max_error_pct", "held_out"}], "left_out", "complete"}; NULL where nothing was begun.
 * MOIRE_EINVAL names an unknown system or case, or what the trained policy lacks; MOIRE_EINTERRUPTED comes
 * with what is done. */
int mo_inss_bench(struct mo_bench_session *session, const struct mo_inss_bench_options *options, json_t **out,
                  moire_error *err);
/* A new list with what the results say, a sentence each. */
json_t *mo_inss_bench_headline(const json_t *document);
void mo_inss_bench_print(const json_t *document);
/* A self-contained page. */
int mo_inss_bench_report(const struct mo_env *env, const json_t *document, const char *path,
                         moire_error *err);
#endif
