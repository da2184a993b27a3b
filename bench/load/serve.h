/* SPDX-License-Identifier: Apache-2.0
 * serve.h - `moire bench serve`: a scenario under load on policies of moire and arrangements of
 * peers, all fed the same arrivals. */
#ifndef MO_BENCH_SERVE_H
#define MO_BENCH_SERVE_H
#include "bench/alone/latency.h"
#include "bench/load/budget.h"
#include "bench/load/limit.h"
#include "bench/load/score.h"
#include "bench/load/stalling.h"

enum {
    MO_BENCH_MAX_LOADS = 32,
    MO_BENCH_MAX_SEEDS = 64,
    MO_BENCH_MAX_NEIGHBOUR = 8,
    MO_BENCH_MAX_POLICIES = 64,
    MO_BENCH_MAX_OVER = 3
};

struct mo_bench_serve_options {
    const char *scenario;
    const char *objective; /* in place of the scenario's; NULL = that */
    const char *policies[MO_BENCH_MAX_POLICIES];
    int n_policies;
    const struct mo_bench_system *peers[MO_BENCH_MAX_SYSTEMS];
    int n_peers;
    const char *over[MO_BENCH_MAX_OVER]; /* NULL: in one process; "http", "grpc": its server's network */
    int n_over;                          /* 0: in one process */
    double loads[MO_BENCH_MAX_LOADS];
    int n_loads;
    double find_max; /* share within QoS that must hold; 0 = no search */
    double step, max_load;
    double expected; /* load at which that search begins; 0 = 0.5 */
    double seconds, warmup;
    int enough; /* queries that each tenant is to expect in a probe of the search; 0 = `seconds` suffice */
    struct mo_process process; /* of the arrivals */
    uint64_t seeds[MO_BENCH_MAX_SEEDS];
    int n_seeds;
    double calibration_seconds;
    const char *calibration; /* an earlier result whose QoS targets and solo times are used again */
    const char *against;     /* a policy that is compared with the first, in turns; NULL = none */
    /* Levels of a neighbour beside which policies are compared with themselves less the choice of versions;
     * none = no such comparison.  pairs: of turns under each of its conditions. */
    int neighbour[MO_BENCH_MAX_NEIGHBOUR], n_neighbour, pairs;
    struct mo_bench_stalls stalls;         /* that runs on this machine are given; zeros = none */
    bool in_turns;                         /* all systems with a seed before the next seed */
    bool comes_again;                      /* filled in: a system's next turn, with its report, comes */
    bool timeline;                         /* record cores and blocks of moire's policies */
    const struct mo_bench_schedule *given; /* arrivals in place of drawn ones; NULL = none */
};

/* A scenario with files, targets and rates: what a load needs. */
struct mo_bench_mix {
    struct mo_bench_scenario scenario;
    struct mo_region *region;
    int64_t qos_ns[MO_BENCH_MAX_TENANTS];
    double solo_ms[MO_BENCH_MAX_TENANTS]; /* one core, fastest system measured */
    double weight[MO_BENCH_MAX_TENANTS];
    struct mo_bench_need need[MO_BENCH_MAX_TENANTS];
    bool proved; /* nothing takes less than its need: the limit by needs is one, not an estimate */
    int cores;
    json_t *calibration; /* for the document */
};

/* Loads the scenario, finds its models and measures (or reads) the solo times that targets and loads rest on.
 */
int mo_bench_calibrate(struct mo_bench_session *session, const struct mo_bench_serve_options *options,
                       struct mo_bench_mix *out, moire_error *err);
void mo_bench_mix_close(struct mo_bench_mix *mix);
/* The least time of a tenant's query alone, with any number of cores, on a family of systems or the fastest
 * one (NULL), as the calibration has it; 0 = not known. */
double mo_bench_alone_ms(const struct mo_bench_mix *mix, int tenant, const char *family);
/* The closed loops of the mix, and room for four times what all cores would answer at the solo time. */
void mo_bench_close_loops(const struct mo_bench_mix *mix, struct mo_bench_schedule *schedule);
/* Arrival rates, queries a second, that make the given load, 0 in a closed loop: sum of rate x solo one-core
 * time = load x cores; in a scenario with rates, these times the load.
 */
void mo_bench_rates(const struct mo_bench_mix *mix, double load, double *rates);
/* What an operator would declare of a tenant with such a rate: that at the beginning of its curve.  Simulated
 * and live tenants are told the same. */
double mo_bench_first_rate(const struct mo_bench_tenant *tenant, double rate);

/* What a run is for: a share in time, of all queries or of every tenant's. */
struct mo_bench_goal {
    double share;
    bool every;
};

/* Who plays a schedule: a runner process in real time (mo_bench_child_player), or the simulator. */
struct mo_bench_player {
    const struct mo_bench_system *system;
    /* As mo_bench_play(), records included. */
    int (*play)(void *self, const struct mo_bench_schedule *schedule, const struct mo_bench_budget *budget,
                struct mo_bench_record *records, int64_t *cut_ns, moire_error *err);
    void *self;
    /* The process that plays, or less than 0 its group, all of it, for others' use of the processors
     * meanwhile; NULL or 0 = not one that runs here alone. */
    pid_t (*pid)(void *self);
    /* The one of them that asks and is no part of the system; NULL or 0 = there is none. */
    pid_t (*client)(void *self);
    /* What it plays is the limit of all queries, and that of every tenant is another run's: both shares of
     * the point are the limits. */
    bool limit;
};
struct mo_bench_player mo_bench_child_player(struct mo_bench_child *child);

/* One run of one system: draws the schedule, has it played, scores it, and describes it as one element of
 * "loads", with what others used of the processors meanwhile.  With a goal it ends as soon as that is out of
 * reach; NULL = it is played to its end.  *out is NULL when by a proved limit no scheduler reaches the goal
 * and keeps up: nothing was played.
 *
 * A run that was not stopped early has "backlog" and "keeps_up" (bench/load/backlog.h), and where the mix
 * knows what its queries need "bound" and "bound_worst": what no scheduler exceeds, of those that keep up
 * when this run did. */
int mo_bench_point(const struct mo_env *env, const struct mo_bench_player *player,
                   const struct mo_bench_mix *mix, const struct mo_bench_serve_options *options, double load,
                   uint64_t seed, const struct mo_bench_goal *goal, json_t **out, moire_error *err);

/* Appends a sentence when other programs used the processors during runs of these results. */
void mo_bench_doubt_runs(const json_t *results, json_t *why);
/* The seeds as a list; the process as the command line has it. */
json_t *mo_bench_seeds_json(const struct mo_bench_serve_options *options);
json_t *mo_bench_process_json(const struct mo_bench_serve_options *options);
/* Fills weights that the scenario leaves to the targets. */
void mo_bench_weigh(struct mo_bench_mix *mix);
/* QoS targets and solo times from an earlier result, "calibration" of `path`. */
int mo_bench_reuse(const struct mo_env *env, const char *path, struct mo_bench_mix *mix, moire_error *err);

/* The whole command: fills *out with the JSON document, also when interrupted (what has been measured). */
int mo_bench_serve(struct mo_bench_session *session, const struct mo_bench_serve_options *options,
                   json_t **out, moire_error *err);
#endif
