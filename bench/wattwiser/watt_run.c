/* SPDX-License-Identifier: Apache-2.0
 * watt_run.c - see watt_run.h. */
#include "bench/wattwiser/watt_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "bench/data/device_kinds.h"
#include "runtime/base/numbers.h"
#include "runtime/sim/sim.h"

enum { START_NS = 1 }; /* 0 means "never" to the core */
static const double p95 = 0.95;

/* A query that was answered. */
struct answered {
    int step;
    float over_slo;
};

struct run {
    const struct mo_watt_run_options *o;
    struct mo_watt_ran *out;
    struct mo_gpus gpus;
    struct mo_power_machine power;
    struct mo_profile *profile[MO_WATT_MODELS];
    const struct mo_share_profile *share[MO_WATT_MODELS][MO_PLAN_KINDS];
    struct mo_process_state process[MO_WATT_MODELS];
    double next[MO_WATT_MODELS]; /* ns, of the next arrival */
    struct answered *answered[MO_WATT_MODELS];
    size_t n[MO_WATT_MODELS], cap[MO_WATT_MODELS];
    struct mo_sim *sim;
    int64_t from, to, step_ns;
};

/* --- the load ------------------------------------------------------------------------------------------- */
static int step_at(const struct run *r, double ns) {
    const int s = ns < (double)r->from ? 0 : (int)((ns - (double)r->from) / (double)r->step_ns);
    return s < r->o->load->n ? s : r->o->load->n - 1;
}

static double rate_at(const struct run *r, int model, int step) {
    return r->o->load->part[step][model] * MO_WATT_GPUS * r->o->model[model]->rate * 1e-9;
}

/* The gap at rate 1 is spent at the rates of the steps that it reaches over. */
static void go_on(struct run *r, int model) {
    double gap = mo_process_gap(&r->process[model]), at = r->next[model];
    for (;;) {
        const int step = step_at(r, at);
        const double rate = rate_at(r, model, step);
        const double end =
            step + 1 < r->o->load->n ? (double)r->from + (double)(step + 1) * (double)r->step_ns : INFINITY;
        if (at + gap / rate <= end) {
            r->next[model] = at + gap / rate;
            return;
        }
        gap -= (end - at) * rate;
        at = end;
    }
}

static void answer(void *ctx, int tenant, const struct mo_answer *a) {
    struct run *r = ctx;
    if (a->arrival < r->from || a->arrival >= r->to || a->code != MOIRE_OK) return;
    const double over = (double)(a->end - a->arrival) / (r->o->model[tenant]->slo_ms * 1e6);
    const int step = step_at(r, (double)a->arrival);
    if (r->n[tenant] < r->cap[tenant])
        r->answered[tenant][r->n[tenant]++] = (struct answered){step, (float)over};
    if (over <= 1) r->out->step[step].late[tenant]--;
}

static double awake(const struct run *r) {
    const struct mo_view *view = mo_sched_view(mo_sim_sched(r->sim));
    return r->gpus.n_gpus - (double)mo_cores_count(&view->parked) / mo_gpus_kind(&r->gpus, 0)->units;
}

/* Up to the end of a step; awake GPUs are looked at ten times in it. */
static void drive_step(struct run *r, int step) {
    enum { LOOKS = 10 };
    const int64_t begin = r->from + step * r->step_ns;
    struct mo_watt_step *out = step >= 0 ? &r->out->step[step] : NULL;
    const double joules = mo_sim_joules(r->sim);
    for (int look = 1; look <= LOOKS; look++) {
        const int64_t end = step >= 0 ? begin + r->step_ns * look / LOOKS : r->from;
        for (;;) {
            const int m = r->next[1] < r->next[0];
            const int64_t at = (int64_t)r->next[m];
            if (at >= end) break;
            mo_sim_advance(r->sim, at);
            if (out) out->came[m]++;
            if (out) out->late[m]++; /* until it is answered in time */
            (void)mo_sim_submit(r->sim, m, NULL, NULL, NULL);
            go_on(r, m);
        }
        mo_sim_advance(r->sim, end);
        if (out) out->awake += awake(r) / LOOKS;
        if (!out) break;
    }
    if (out) out->watts = (mo_sim_joules(r->sim) - joules) / ((double)r->step_ns * 1e-9);
}

/* --- what came of it ------------------------------------------------------------------------------------ */
static int by_step(const void *a, const void *b) {
    const struct answered *x = a, *y = b;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    return x->over_slo < y->over_slo ? -1 : x->over_slo > y->over_slo;
}

static int by_time(const void *a, const void *b) {
    const float x = ((const struct answered *)a)->over_slo, y = ((const struct answered *)b)->over_slo;
    return x < y ? -1 : x > y;
}

/* n rising values. */
static double high(const struct answered *list, size_t n) {
    return n ? list[(size_t)ceil(p95 * (double)n) - 1].over_slo : 0;
}

static void conclude(struct run *r, int model) {
    struct answered *list = r->answered[model];
    const size_t n = r->n[model];
    qsort(list, n, sizeof *list, by_step);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && list[end].step == list[i].step; end++)
            ;
        r->out->step[list[i].step].p95_over_slo[model] = high(list + i, end - i);
    }
    qsort(list, n, sizeof *list, by_time);
    r->out->p95_over_slo[model] = high(list, n);
    const double least = mo_watt_least_joules(r->o->model[model], r->power.kind[0]);
    for (int s = 0; s < r->o->load->n; s++) {
        r->out->came += r->out->step[s].came[model];
        r->out->late += r->out->step[s].late[model];
        r->out->bound_joules += least * (double)r->out->step[s].came[model];
    }
}

double mo_watt_least_joules(const struct mo_watt_model *model, const struct mo_power_kind *kind) {
    double least = INFINITY;
    for (int clock = 0; clock <= mo_power_top_clock(kind); clock++)
        for (int b = 1; b <= model->profile->max_batch; b++) {
            const double s = (double)mo_share_latency(model->profile, b, MO_SHARE_WHOLE) * 1e-9 /
                             mo_power_clock_at(kind, clock).speed;
            const double sm = mo_share_use_at(model->profile, b, MO_SHARE_WHOLE).sm;
            if (s > model->slo_ms * 1e-3) continue;
            least = fmin(least, mo_power_busy_joules(kind, 1, sm > 0 ? sm : 1, clock) * s / b);
        }
    return least;
}

/* --- a run ---------------------------------------------------------------------------------------------- */
static int describe(struct run *r, moire_error *err) {
    const struct mo_bench_machine *m = r->o->machine;
    mo_bench_kinds(m, r->gpus.kinds, &r->gpus.n_kinds, r->gpus.kind, &r->gpus.n_gpus);
    for (int k = 0; k < m->n_gpus; k++)
        r->gpus.prepare_ns[k] = m->gpus[k].reorganise_ns;
    if (!mo_bench_machine_powered(m, true, &r->power))
        return mo_fail(err, MOIRE_EINVAL, "%s: says nothing of its GPUs' power (\"power\")", m->name);
    return mo_gpus_finish(&r->gpus, err);
}

/* Batches are not cut, so a model is one layer; and room for all answers. */
static int make_model(struct run *r, int i, moire_error *err) {
    const struct mo_watt_run_options *o = r->o;
    const int units = r->gpus.kinds[0].units;
    struct mo_profile *p = r->profile[i] = mo_profile_create(o->env, 1, units);
    for (int u = 1; p && u <= units; u++) {
        const int64_t ns = mo_share_latency(o->model[i]->profile, 1, mo_share_of_units(u, units));
        mo_profile_record(p, u, &ns);
    }
    if (p) mo_profile_finish(p);
    for (int s = 0; s < o->load->n; s++)
        r->cap[i] += (size_t)(rate_at(r, i, s) * (double)r->step_ns * 1.5) + 1000;
    r->answered[i] = mo_alloc(o->env, r->cap[i] * sizeof(struct answered));
    r->share[i][0] = o->model[i]->profile;
    mo_process_start(&r->process[i], &(struct mo_process){MO_PROCESS_POISSON, 0}, o->seed, (uint64_t)i);
    r->next[i] = START_NS;
    go_on(r, i);
    return p && r->answered[i] ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory for a run");
}

static int open_tenant(struct run *r, int i, moire_error *err) {
    const struct mo_limits *limits = &r->o->env->limits;
    double most = 0;
    int index;
    for (int s = 0; s < r->o->load->n; s++)
        most = fmax(most, r->o->load->part[s][i]);
    const struct mo_sched_tenant_config c = {.qos_ns = (int64_t)(r->o->model[i]->slo_ms * 1e6),
                                             .queue = (int)limits->queue,
                                             .instances = (int)limits->queue,
                                             .profile = r->profile[i],
                                             .share = r->share[i],
                                             .declared = most * MO_WATT_GPUS * r->o->model[i]->rate};
    return mo_sim_open(r->sim, &c, &index, err);
}

static int play(struct run *r, moire_error *err) {
    const struct mo_watt_run_options *o = r->o;
    struct mo_sim_config config = {.env = o->env,
                                   .policy = o->policy,
                                   .machine = o->machine->sim,
                                   .max_queries = (int)o->env->limits.queries,
                                   .max_tenants = MO_WATT_MODELS,
                                   .seed = o->seed,
                                   .answer = answer,
                                   .ctx = r};
    config.machine.gpus = &r->gpus;
    config.machine.n_cores = r->gpus.n_units;
    config.machine.power = &r->power;
    int code = mo_sim_create(&config, &r->sim, err);
    for (int i = 0; !code && i < MO_WATT_MODELS; i++)
        code = open_tenant(r, i, err);
    double joules = 0;
    for (int step = -1; !code && step < o->load->n; step++) {
        drive_step(r, step);
        if (step < 0) joules = mo_sim_joules(r->sim);
    }
    if (!code) {
        mo_sim_drain(r->sim);
        r->out->joules = mo_sim_joules(r->sim) - joules;
        r->out->seconds = (double)(mo_sim_now(r->sim) - r->from) * 1e-9;
    }
    if (!code && mo_sim_broken(r->sim))
        code = mo_fail(err, MOIRE_EFAILED, "policy '%s': blocks that no machine could run", o->policy->name);
    mo_sim_destroy(r->sim);
    return code;
}

int mo_watt_run(const struct mo_watt_run_options *o, struct mo_watt_ran *out, moire_error *err) {
    struct run *r = mo_alloc(o->env, sizeof *r);
    memset(out, 0, sizeof *out);
    if (!r) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a run");
    r->o = o;
    r->out = out;
    r->from = START_NS + (int64_t)(o->warmup_s * 1e9);
    r->step_ns = (int64_t)(o->step_s * 1e9);
    r->to = r->from + o->load->n * r->step_ns;
    int code = describe(r, err);
    for (int i = 0; !code && i < MO_WATT_MODELS; i++)
        code = make_model(r, i, err);
    if (!code) code = play(r, err);
    for (int i = 0; !code && i < MO_WATT_MODELS; i++)
        conclude(r, i);
    for (int d = 0; d < r->power.n_devices; d++)
        out->bound_joules += r->power.kind[d]->off_w * out->seconds;
    for (int i = 0; i < MO_WATT_MODELS; i++) {
        mo_profile_destroy(r->profile[i]);
        mo_free(o->env, r->answered[i]);
    }
    mo_free(o->env, r);
    return code;
}
