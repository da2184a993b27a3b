/* SPDX-License-Identifier: Apache-2.0
 * stress.h - a calibrated neighbour: threads that load what cores share, at one of six levels.
 *
 * On other cores a walker adds to every cache line of a buffer of its own, in pieces of 16 KiB.  The kind
 * says how large the buffers are together and so what they load: the walker's private cache (a neighbour
 * that keeps to itself), the shared cache, or memory.  Level 5 walks as fast as it can, level n is paced to
 * n/5 of the traffic that this machine's walkers reach together; level 0 sleeps.  Pacing is even within a
 * microsecond, so that a kernel meets the same pressure in every run and minima over runs are fair.
 *
 * Where there is no other core, the same-core mode stands for a neighbour by what it leaves behind: at level
 * n a part of the private cache, twice it at most, is overwritten between two pieces of the victim's work. */
#ifndef MO_STRESS_H
#define MO_STRESS_H
#include "runtime/base/env.h"

enum { MO_STRESS_LEVELS = 6 };
enum mo_stress_kind { MO_STRESS_L2, MO_STRESS_L3, MO_STRESS_MEMORY, MO_STRESS_KINDS };
const char *mo_stress_kind_name(enum mo_stress_kind kind); /* "l2", "l3", "memory" */

struct mo_stress_config {
    const struct mo_env *env; /* lives as long as the neighbour */
    enum mo_stress_kind kind;
    const int *cpu;             /* OS cpu of each walker, -1 = anywhere */
    int n;                      /* walkers; 0: only mo_stress_evict() works */
    int64_t l2_bytes, l3_bytes; /* of the machine; 0 = unknown: 1 MiB, 32 MiB */
    bool bursts;                /* same core: every millisecond a burst of what mo_stress_evict() does */
};

struct mo_stress;
/* Starts the walkers, measures how fast they are together, and leaves them at level 0.  MOIRE_ENOMEM,
 * MOIRE_EIO when a thread cannot be started. */
int mo_stress_create(const struct mo_stress_config *config, struct mo_stress **out, moire_error *err);
void mo_stress_destroy(struct mo_stress *stress); /* NULL is fine */

/* Levels outside 0..5 are cut to that.  Takes effect within microseconds. */
void mo_stress_set(struct mo_stress *stress, int level);
int mo_stress_level(const struct mo_stress *stress);
/* Bytes that the walkers have moved so far, reads and writes. */
int64_t mo_stress_bytes(const struct mo_stress *stress);
/* Walkers that could not be pinned to their core. */
int mo_stress_unpinned(const struct mo_stress *stress);

/* Same core: overwrites the level's share of the private cache from the calling thread. */
void mo_stress_evict(struct mo_stress *stress, int level);
int64_t mo_stress_evict_bytes(const struct mo_stress *stress, int level);

/* The victim: streams a quarter of the shared cache on the calling thread for about so many ns; the best rate
 * of one pass, GB/s.  The first pass after mo_stress_create() brings the buffer in. */
double mo_stress_victim(struct mo_stress *stress, int64_t ns);

/* What a level does to a victim on the calling thread that streams a quarter of the shared cache. */
struct mo_stress_effect {
    double gbs;             /* the walkers' traffic */
    double victim_gbs;      /* the victim's reads */
    double solo_gbs;        /* the same at level 0 */
    double victim_slowdown; /* solo / victim */
};
/* Takes some 40 ms; the level is in force afterwards. */
void mo_stress_measure(struct mo_stress *stress, int level, struct mo_stress_effect *out);
#endif
