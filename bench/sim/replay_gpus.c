/* SPDX-License-Identifier: Apache-2.0
 * replay_gpus.c - see replay_gpus.h.  The simulation owns its profiles, so those of the trace are copied. */
#include "bench/sim/replay_gpus.h"

static int copy_profile(const struct mo_env *env, const struct mo_share_profile *p,
                        struct mo_share_profile **out, moire_error *err) {
    struct mo_share_profile *to = *out = mo_share_create(env, p->n_batches, p->batch, p->n_shares, p->share);
    if (!to) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a profile");
    to->memory_bytes = p->memory_bytes;
    to->in_bytes = p->in_bytes;
    to->out_bytes = p->out_bytes;
    to->copy_bytes_ns = p->copy_bytes_ns;
    for (int b = 0; b < p->n_batches; b++)
        for (int s = 0; s < p->n_shares; s++)
            mo_share_record(to, b, s, &p->cell[b * p->n_shares + s]);
    return mo_share_finish(to, err);
}

static int as_recorded(const struct mo_trace *t, struct mo_bench_simulation *m, moire_error *err) {
    struct mo_bench_gpu_side *side = m->side;
    int code = MOIRE_OK;
    side->env = m->env;
    side->gpus = t->gpus;
    m->mix.cores = t->gpus.n_gpus;
    for (int i = 0; i < t->n_tenants && !code; i++) {
        const struct mo_trace_tenant *from = &t->tenants[i];
        struct mo_bench_gpu_tenant *to = &side->tenant[i];
        *to = (struct mo_bench_gpu_tenant){
            .model = from->name, .source = i, .stage = -1, .qos_ns = from->qos_ns};
        side->first[i] = side->n++;
        int any = 0;
        for (int k = 0; k < t->gpus.n_kinds && !code; k++) {
            if (!from->share[k]) continue;
            any++;
            code = copy_profile(m->env, from->share[k], &to->share[k], err);
        }
        if (!code && !any)
            code = mo_fail(err, MOIRE_EINVAL, "the trace has no profile of tenant '%s' on GPUs", from->name);
        if (!code) code = mo_trace_profile(m->env, from, 1, &to->profile, err);
    }
    return code;
}

static void declare(const struct mo_trace *t, const struct mo_bench_schedule *s,
                    struct mo_bench_gpu_side *side) {
    for (int i = 0; i < side->n; i++) {
        struct mo_bench_gpu_tenant *to = &side->tenant[i];
        int n = 0;
        for (int k = 0; k < s->n; k++)
            n += s->items[k].tenant == to->source;
        to->declared = t->tenants[to->source].declared;
        if (!(to->declared > 0)) to->declared = n * 1e9 / (double)s->total_ns;
    }
}

int mo_replay_gpus(const struct mo_trace *t, const struct mo_bench_schedule *s, bool other,
                   struct mo_bench_simulation *m, moire_error *err) {
    m->side = mo_alloc(m->env, sizeof *m->side);
    if (!m->side) return mo_fail(err, MOIRE_ENOMEM, "out of memory for the replay");
    if (other && !m->machine.n_gpus)
        return mo_fail(err, MOIRE_EINVAL, "the recording is of GPUs, machine '%s' has none", m->machine.name);
    int code =
        other ? mo_bench_gpu_side_open(m->env, &m->machine, &m->mix, m->side, err) : as_recorded(t, m, err);
    declare(t, s, m->side);
    m->mix.scenario.rated = true; /* by what tenants declare */
    m->machine.sim.gpus = &m->side->gpus;
    m->machine.sim.n_cores = m->side->gpus.n_units;
    return code;
}
