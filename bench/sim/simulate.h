/* SPDX-License-Identifier: Apache-2.0
 * simulate.h - `moire sim`: a scenario under load on a simulated machine.
 *
 * Arrivals, scoring, search and document are those of `bench serve`; only who plays a schedule differs. Every
 * pair of policy and seed is a piece of work of its own, distributed to worker processes; the document does
 * not depend on how many there are, nor on anything but the command. */
#ifndef MO_BENCH_SIMULATE_H
#define MO_BENCH_SIMULATE_H
#include "bench/data/machine.h"
#include "bench/sim/replay.h"
#include "bench/sim/run_counters.h"
#include "bench/sim/simulate_gpus.h"

enum { MO_BENCH_WITH = 16 };

struct mo_bench_simulate_options {
    struct mo_bench_serve_options serve; /* peers are not asked for */
    const char *machine;                 /* file, */
    const char *with[MO_BENCH_WITH];     /* and n_with keys of it replaced: mo_bench_machine_open_with() */
    int n_with;
    int jobs;                              /* worker processes; 0 = as many as cores here */
    const char *weights;                   /* of a policy that learned; NULL = the machine's own */
    bool cost;                             /* measure what decisions cost in real time */
    struct mo_bench_replay_options replay; /* .trace NULL: the scenario; else that recording in its place */
};

/* What one run needs to know. */
struct mo_bench_simulation {
    const struct mo_env *env;
    struct mo_bench_machine machine;
    struct mo_power_machine power; /* machine.sim.power, where the file says it */
    struct mo_bench_mix mix;
    struct mo_profile *profile[MO_BENCH_MAX_TENANTS]; /* on cores */
    struct mo_bench_gpu_side *side;                   /* on GPUs; NULL = on cores */
    struct mo_policy_file *learned;                   /* for side->gpus; NULL = nobody needs it */
    struct mo_ring *ring;                             /* events of the next run; NULL = none */
    const struct mo_sim_spread *spread;               /* these three: as in mo_sim_config */
    const struct mo_sim_pace *pace;
    bool starts;
    const int64_t
        *late_ns;        /* of every arrival of a recorded schedule: how late it came in; NULL = none was */
    const bool *put_off; /* arrivals that come without a deadline, though they count by it; NULL = none */
    bool cost;
};
/* Machine, scenario, profiles, targets and solo times; close it also after an error. */
int mo_bench_simulation_open(const struct mo_env *env, const struct mo_bench_simulate_options *options,
                             struct mo_bench_simulation *out, moire_error *err);
void mo_bench_simulation_close(struct mo_bench_simulation *simulation);
/* Fills mix.calibration, targets and one-core times from the profiles and the tenants' "qos"; needs, too. */
int mo_bench_simulation_aim(struct mo_bench_simulation *simulation, moire_error *err);

/* What a query of each tenant needs at least for these targets: by the profiles, as far as blocks may be
 * faster than these. */
void mo_bench_simulation_needs(const struct mo_bench_simulation *simulation, const int64_t *qos_ns,
                               struct mo_bench_need *out);

/* Plays a schedule in virtual time, as mo_bench_play() does in real time; out may be NULL, and so may
 * budget: it is played to its end. */
int mo_bench_simulate_play(const struct mo_bench_simulation *simulation, const struct mo_policy *policy,
                           uint64_t seed, const struct mo_bench_schedule *schedule,
                           const struct mo_bench_budget *budget, struct mo_bench_record *records,
                           int64_t *cut_ns, struct mo_bench_played *out, moire_error *err);

/* The upper limit of runtime/sim/bound.h for all queries as if it were a run: so many are in time, the
 * lightest first, with the target as their latency, and the others are answered late.  Where no run keeps up
 * these have no answer, and the limit is that of any run. */
int mo_bench_simulate_bound(const struct mo_bench_simulation *simulation,
                            const struct mo_bench_schedule *schedule, struct mo_bench_record *records,
                            moire_error *err);

/* The best schedule that a search with all arrivals known found, as if it were a run; `goal`: the share that
 * the search strives for, of all queries and of every tenant's. */
int mo_bench_simulate_offline(const struct mo_bench_simulation *simulation, uint64_t seed, double goal,
                              const struct mo_bench_schedule *schedule, struct mo_bench_record *records,
                              moire_error *err);

/* The whole command: fills *out with the JSON document, also when interrupted. */
int mo_bench_simulate(struct mo_bench_session *session, const struct mo_bench_simulate_options *options,
                      json_t **out, moire_error *err);
#endif
