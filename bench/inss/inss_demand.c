/* SPDX-License-Identifier: Apache-2.0
 * inss_demand.c - see inss_demand.h. */
#include "bench/inss/inss_demand.h"

#include <math.h>

enum { TARGET_BATCH = 8, FIFTH = MO_SHARE_WHOLE / 5 };
static const double usual_target = 3.5, least_need = 0.1;
const double mo_inss_least_factor = 0.7, mo_inss_most_factor = 1.3;

void mo_inss_demand_look(struct mo_inss_demand_model *m, const struct mo_plan_kind *kind) {
    m->target_ns = (int64_t)(usual_target * (double)mo_share_latency(m->profile, TARGET_BATCH, FIFTH));
    m->cost = INFINITY;
    for (int s = 0; s < kind->n_sizes; s++)
        m->cost = fmin(
            m->cost, mo_share_cost(m->profile, mo_share_of_units(kind->sizes[s], kind->units), m->target_ns));
}

/* The process gives gaps at rate 1: time passes as fast as the rate of the step is. */
static void go_on(const struct mo_inss_demand *demand, struct mo_inss_demand_tenant *t) {
    double gap = mo_process_gap(&t->process);
    for (;;) {
        const int step = (int)(t->at_ns / (double)MO_INSS_DEMAND_STEP_NS);
        const double end = (step + 1) * (double)MO_INSS_DEMAND_STEP_NS;
        const double rate = t->rate * t->factor[step % MO_INSS_DEMAND_STEPS] * 1e-9;
        const double room = rate * (end - t->at_ns);
        if (gap < room) {
            t->at_ns += gap / rate;
            break;
        }
        gap -= room;
        t->at_ns = end;
        if (end >= (double)demand->total_ns) break;
    }
    if (t->at_ns >= (double)demand->total_ns) t->at_ns = INFINITY;
}

/* Leaves the stream where the draws of the steps begin. */
static void draw_needs(const struct mo_inss_demand_options *o, uint64_t seed, struct mo_rng *rng,
                       double *rate) {
    double sum = 0;
    mo_rng_seed(rng, seed, MO_PLAN_TENANTS);
    for (int i = 0; i < o->n_tenants; i++)
        sum += rate[i] = least_need + mo_rng_exponential(rng);
    for (int i = 0; i < o->n_tenants; i++)
        rate[i] = o->gpus_a_tenant * o->n_tenants * rate[i] / sum / o->model[i % o->n_models].cost;
}

void mo_inss_demand_rates(const struct mo_inss_demand_options *o, double *rate) {
    struct mo_rng rng;
    draw_needs(o, o->needs ? o->needs : o->seed, &rng, rate);
}

void mo_inss_demand_begin(struct mo_inss_demand *demand, const struct mo_inss_demand_options *o) {
    double rate[MO_PLAN_TENANTS];
    struct mo_rng rng;
    demand->n = o->n_tenants;
    demand->total_ns = o->total_ns;
    draw_needs(o, o->seed, &rng, rate);
    if (o->needs) mo_inss_demand_rates(o, rate);
    for (int i = 0; i < demand->n; i++) {
        struct mo_inss_demand_tenant *t = &demand->tenant[i];
        *t = (struct mo_inss_demand_tenant){.model = &o->model[i % o->n_models], .rate = rate[i]};
        for (int s = 0; s < MO_INSS_DEMAND_STEPS; s++)
            t->factor[s] =
                mo_inss_least_factor + (mo_inss_most_factor - mo_inss_least_factor) * mo_rng_uniform(&rng);
        mo_process_start(&t->process, &o->process, o->seed, (uint64_t)i);
        go_on(demand, t);
    }
}

int mo_inss_demand_next(struct mo_inss_demand *demand, int64_t *at_ns) {
    int first = 0;
    for (int i = 1; i < demand->n; i++)
        if (demand->tenant[i].at_ns < demand->tenant[first].at_ns) first = i;
    if (!demand->n || isinf(demand->tenant[first].at_ns)) return -1;
    *at_ns = (int64_t)demand->tenant[first].at_ns;
    go_on(demand, &demand->tenant[first]);
    return first;
}
