/* SPDX-License-Identifier: Apache-2.0
 * sim.h - the second engine: carries decisions out against profiles in virtual time.
 *
 * The scheduler core, queues, policies, admission and statistics are the objects of the live engine
 * (runtime/engine/device.h); only the clock and the kernels are not real.  Single-threaded and deterministic:
 * the same calls with the same seed give the same answers, whatever the machine.  The driver owns the
 * arrivals: it advances the clock to the next one and submits.
 *
 * How long a block takes: the profile's time of its layers on its cores, in the versions chosen for it, times
 * one draw of the noise, at a speed that depends on who else runs and is revised whenever that changes; plus
 * the costs of a block and of a query.  What was measured may take the place of the noise, of the costs and
 * of a machine that is always equally fast.
 *
 * Who else runs: of what a model reads once a query, the share goes to memory that the caches do not hold
 * with all active models in them; of what its versions read again (profile_versions.h), what its part of the
 * shared cache does not hold, and that part shrinks as other cores get busy.  When all blocks together ask
 * for more than memory gives, it is shared max-min fair by cores: a let gets what it asks for or at least
 * its cores' part, and one that gets less than it asks for is slower by as much.
 * The pressure that policies see is the share of the ceiling that is asked for.  Other models of who slows
 * whom are in contention.h.
 *
 * A running block may gain and lose cores (resized.c): those that join it work at once, those that leave it
 * go at the end of the layer that it is in.
 *
 * Where reset_ns is given, a running block may be killed (killed.c): nothing of it remains but the time that
 * its cores were busy, and they are out of use for that long.
 *
 * On GPUs (device_gpus.c) a block is a batch of a whole model on a let.  Its input and output pass the GPU's
 * one link first come, first served; then it takes the profile's latency of its batch and share, times a draw
 * of the noise, times the interference with what runs on the other lets of that GPU, revised whenever that
 * changes.  One that was queued behind another (mo_gpus.ahead_ns) begins when that ends: what the host takes
 * has passed meanwhile, the copies have not. */
#ifndef MO_SIM_H
#define MO_SIM_H
#include "runtime/sched/sched.h"
#include "runtime/sim/contention.h"
#include "runtime/sim/pace.h"
#include "runtime/sim/reuse.h"

/* What the simulator knows about a machine beside its profiles.  Zeros: an ideal machine. */
struct mo_sim_machine {
    int n_cores;
    int64_t block_ns;   /* from a decision to the block's first layer, and from its last layer to the core */
    int64_t resize_ns;  /* a running block stands still for so long when cores join it */
    int64_t reset_ns;   /* cores whose block was killed are out of use for so long; 0 = none can be */
    int64_t query_ns;   /* once a query, with its first block: its input is brought in */
    double noise;       /* block times are uniform within this relative width around the profile */
    double slowdown;    /* true times are this multiple of the profile; 0 = 1 */
    double corun;       /* blocks run slower by this share while another let is busy */
    double bytes_ns;    /* memory ceiling; with profiles that know their traffic, blocks share it */
    double cache_bytes; /* shared cache; what fits it does not go to memory.  0 = all traffic does; from it
                           others put out what layers then read cold (reuse.h), when profiles know that */
    int slice_cores;    /* cores that share a private slice of it (slices.h); 0 = all share all of it */
    struct mo_contention contention; /* who slows whom; the ceiling counts under `memory` only */
    /* Finished, and n_cores are its units; NULL = a machine of cores.  Of the above it knows block_ns,
     * query_ns, noise and slowdown. */
    const struct mo_gpus *gpus;
    double interference_error; /* true slowdowns lie within this share of the kinds' model, by who runs beside
                                  whom: the model that planners and policies use is not the truth */
};

/* What was measured of one tenant, as means of equally large parts in rising order: how block times lie
 * around its profile, for blocks on one core and on several; and ns from a decision to the block's first
 * layer, for later and for first blocks of a query, on cores that spin and on cores that sleep.  On GPUs
 * cores are units and never asleep, block times are those of kernels, with what runs beside them, and a
 * start's time is all that was neither kernels nor copies. */
enum { MO_SIM_PARTS = 32 };
struct mo_sim_spread {
    double ratio[2][MO_SIM_PARTS];
    double start[2][2][MO_SIM_PARTS]; /* [first][asleep] */
};

struct mo_sim_config {
    const struct mo_env *env;
    const struct mo_policy *policy;
    struct mo_sim_machine machine;
    int max_queries, max_tenants;
    int64_t block_ns; /* bound on blocks, as mo_sched_config.block_ns */
    enum mo_objective objective;
    uint64_t seed;                      /* of the noise */
    const struct mo_sim_spread *spread; /* by tenant: takes the place of slowdown and noise; NULL = none */
    bool starts;                        /* and of the constant costs of a block and of a query */
    const struct mo_sim_pace *pace;     /* of n_cores cores; NULL = the machine's speed does not change */
    struct mo_ring *ring;
    int64_t (*cost_clock)(void *ctx); /* real time for the cost of decisions; NULL = not measured */
    /* The answer of a query; must not call back. */
    void (*answer)(void *ctx, int tenant, const struct mo_answer *answer);
    void *ctx;
};

struct mo_sim;
int mo_sim_create(const struct mo_sim_config *config, struct mo_sim **out, moire_error *err);
void mo_sim_destroy(struct mo_sim *sim); /* NULL is fine */

int mo_sim_open(struct mo_sim *sim, const struct mo_sched_tenant_config *config, int *tenant,
                moire_error *err);
/* A query that was due at `arrival`, not later than now, comes in.  MOIRE_OK and its handle, or why it was
 * refused; mo_sim_submit(): it is due now. */
int mo_sim_submit_late(struct mo_sim *sim, int tenant, int64_t arrival, void *user, uint64_t *handle,
                       moire_error *err);
int mo_sim_submit(struct mo_sim *sim, int tenant, void *user, uint64_t *handle, moire_error *err);
/* The same with a deadline of its own, absolute; MO_NEVER = none. */
int mo_sim_submit_by(struct mo_sim *sim, int tenant, int64_t deadline, void *user, uint64_t *handle,
                     moire_error *err);
int mo_sim_cancel(struct mo_sim *sim, uint64_t handle);

/* On a machine of GPUs: that one is lost, what runs there fails with MOIRE_EDEVICE; or it is back.  The last
 * one that is left is not lost. */
void mo_sim_gpu_lost(struct mo_sim *sim, int gpu, bool lost);

int64_t mo_sim_now(const struct mo_sim *sim);
/* When something happens by itself next: a block ends, a timer is due.  MO_NEVER = nothing will. */
int64_t mo_sim_next(struct mo_sim *sim);
/* Lets everything happen that is due until `to`, which becomes now. */
void mo_sim_advance(struct mo_sim *sim, int64_t to);
/* Goes on until no accepted query is unanswered; returns how many are, when nothing more can happen. */
int64_t mo_sim_drain(struct mo_sim *sim);

struct mo_sched *mo_sim_sched(struct mo_sim *sim);
/* Decisions that the core let through and that no machine could carry out: a core twice, none, beyond the
 * last.  Anything but 0 is a defect of the core. */
int64_t mo_sim_broken(const struct mo_sim *sim);
#endif
