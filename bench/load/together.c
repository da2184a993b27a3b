/* SPDX-License-Identifier: Apache-2.0
 * together.c - a team that runs one job and ends; see together.h. */
#include "bench/load/together.h"
#include "runtime/device/fpu.h"
#include "runtime/device/team.h"
#include "runtime/device/topology.h"

enum { BARRIER_SPIN = 20000, TEAM_SPIN_NS = 50000 };

struct call {
    const struct mo_env *env;
    mo_together_fn *fn;
    void *ctx;
    struct mo_together together;
    _Atomic uint32_t left; /* workers that are not done */
};

static void work(void *ctx, int core, int worker, int n_workers) {
    struct call *call = ctx;
    (void)core;
    (void)n_workers;
    call->fn(call->ctx, &call->together, worker);
    if (atomic_fetch_sub(&call->left, 1) == 1)
        call->env->sys->futex_wake(call->env->sys->self, &call->left, 1);
}

static int on_team(struct call *call, moire_error *err) {
    const struct mo_env *env = call->env;
    struct mo_topology *topology = NULL;
    struct mo_team *team = NULL;
    const int n = call->together.n;
    int rc = mo_topology_create(env, NULL, n, "", &topology, err);
    if (!rc && topology->n_cores < n)
        rc = mo_fail(err, MOIRE_EINVAL, "--threads %d: only %d cores are usable here", n, topology->n_cores);
    if (!rc) {
        struct mo_team_config config = {.env = env, .n = n, .cpu = topology->cpu, .spin_ns = TEAM_SPIN_NS};
        rc = mo_team_create(&config, &team, err);
    }
    if (!rc) {
        mo_barrier_begin(&call->together.barrier, n);
        atomic_store(&call->left, (uint32_t)n);
        for (int w = 0; w < n; w++)
            mo_team_post(team, w, &(struct mo_job){.run = work, .ctx = call, .worker = w, .n_workers = n});
        for (uint32_t left; (left = atomic_load(&call->left)) > 0;)
            env->sys->futex_wait(env->sys->self, &call->left, left, 0);
    }
    mo_team_destroy(team);
    mo_topology_destroy(topology);
    return rc;
}

/* Two blocks take turns: when all have come to one, nobody is in the one before the last any more. */
struct mo_claims *mo_together_begin(struct mo_together *team, int worker, int n_steps, int block) {
    struct mo_claims *claims = &team->claims[block & 1];
    if (worker == 0) mo_claims_begin(claims, n_steps, team->n);
    if (team->n > 1) mo_barrier_wait(&team->barrier, worker);
    return claims;
}

int mo_together(const struct mo_env *env, int n, mo_together_fn *fn, void *ctx, moire_error *err) {
    struct call call = {.env = env, .fn = fn, .ctx = ctx, .together.n = n};
    const size_t workers = (size_t)n;
    struct mo_barrier_flag *flags = mo_alloc(env, workers * sizeof *flags);
    struct mo_claims_range *ranges = mo_alloc(env, 2 * workers * sizeof *ranges);
    struct mo_claims_member *members = mo_alloc(env, workers * sizeof *members);
    int rc = flags && ranges && members ? MOIRE_OK
                                        : mo_fail(err, MOIRE_ENOMEM, "out of memory for a team of %d", n);
    if (!rc) {
        mo_barrier_init(&call.together.barrier, env, flags, BARRIER_SPIN);
        for (size_t i = 0; i < 2; i++)
            mo_claims_init(&call.together.claims[i], env, ranges + i * workers, n, BARRIER_SPIN);
        for (int w = 0; w < n; w++)
            mo_claims_seat(&members[w], w);
        call.together.member = members;
    }
    if (!rc && n > 1) {
        rc = on_team(&call, err);
    } else if (!rc) {
        unsigned old = mo_fpu_flush();
        fn(ctx, &call.together, 0);
        mo_fpu_restore(old);
    }
    mo_free(env, flags);
    mo_free(env, ranges);
    mo_free(env, members);
    return rc;
}
