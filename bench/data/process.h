/* SPDX-License-Identifier: Apache-2.0
 * process.h - random processes of arrivals with a given rate.
 *
 *   poisson     independent arrivals
 *   uniform     equal gaps, the first one cut at random
 *   gamma:CV    renewal process; gaps from a Gamma distribution with that coefficient of variation
 *   mmpp:CV     Poisson whose rate switches between a high and a low level of equal mean duration
 *               (Markov-modulated); the durations are chosen so that its limiting index of dispersion of
 *               counts is CV^2, that of the Gamma process of the same CV
 *
 * The last two burst to the same degree and queue differently: gaps of a renewal process forget each other,
 * a modulated process stays high for a while. */
#ifndef MO_BENCH_PROCESS_H
#define MO_BENCH_PROCESS_H
#include <stdbool.h>
#include <stdint.h>

/* xoshiro256**; seeded through splitmix64 so that near seeds give unrelated streams */
struct mo_rng {
    uint64_t s[4];
};
void mo_rng_seed(struct mo_rng *rng, uint64_t seed, uint64_t stream);
uint64_t mo_rng_next(struct mo_rng *rng);
double mo_rng_uniform(struct mo_rng *rng);     /* [0, 1) */
double mo_rng_exponential(struct mo_rng *rng); /* mean 1 */
double mo_rng_normal(struct mo_rng *rng);      /* mean 0, variance 1 */
double mo_rng_gamma(struct mo_rng *rng, double shape);

enum mo_process_kind { MO_PROCESS_POISSON, MO_PROCESS_UNIFORM, MO_PROCESS_GAMMA, MO_PROCESS_MMPP };

struct mo_process {
    enum mo_process_kind kind; /* 0: Poisson */
    double cv;                 /* > 1 for gamma and mmpp */
};

/* "poisson", "uniform", "gamma:4", "mmpp:4"; false: not such a text. */
bool mo_process_parse(const char *text, struct mo_process *out);
const char *mo_process_name(enum mo_process_kind kind);

/* The gaps of one process at rate 1, one after the other. */
struct mo_process_state {
    struct mo_process process;
    struct mo_rng rng;
    double left; /* of the present level, mmpp */
    bool high, begun;
};
void mo_process_start(struct mo_process_state *state, const struct mo_process *process, uint64_t seed,
                      uint64_t stream);
double mo_process_gap(struct mo_process_state *state);
#endif
