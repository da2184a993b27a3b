/* SPDX-License-Identifier: Apache-2.0
 * moire_pressure.c - the pressure that a block will meet, predicted from the neighbours that it will have.
 *
 * The measured pressure is that of blocks which have run; it ignores blocks started by the same decision.  So
 * the demand for memory of each neighbour is taken from its profile (demand.h) for as long as the new block
 * runs: of a running block until it ends, then of the remaining layers of its query, on the cores assigned to
 * that query; of the other blocks of this decision; and on cores that become free, of the queries that wait,
 * in proportion to their shares.  The mean of these demands over the block's time, relative to the bandwidth
 * of memory, is the predicted pressure.  Measured pressure that the running blocks do not explain comes from
 * outside the runtime and is added.
 *
 * Nothing is predicted where memory's ceiling is not known, or for blocks whose layers have one version each:
 * these keep the measured pressure. */
#include "runtime/policy/moire_parts.h"

/* What the neighbours have in common. */
struct neighbours {
    const struct mo_moire_state *state;
    const struct mo_view *view;
    const struct mo_decisions *out;
    double missed;  /* demand.h */
    int taken;      /* cores that run blocks, when this dispatch is carried out */
    double outside; /* pressure from outside the runtime */
    double waits;   /* of all that wait for cores in vain: what they will ask for, */
    int wanted;     /* and their cores */
    int spare;      /* cores that this dispatch leaves idle */
};

static double demand(const struct neighbours *nb, int query, int cores, int begin, int end, double pressure) {
    const struct mo_profile *p = nb->view->tenants[nb->view->queries[query].tenant].profile;
    double solo;
    struct mo_demand d = mo_demand_of(p, pressure, cores, begin, end, &solo);
    return mo_demand_now(&d, nb->missed, mo_demand_beside(nb->taken, cores, nb->view->n_cores));
}

/* Of what a query does in about `ns` from a layer on. */
static double demand_from(const struct neighbours *nb, int query, int cores, int begin, double ns) {
    const struct mo_view_tenant *t = &nb->view->tenants[nb->view->queries[query].tenant];
    int end = mo_profile_block(t->profile, cores, begin, (int64_t)(ns / t->residual));
    return demand(nb, query, cores, begin, end, nb->view->pressure[MO_PRESSURE_CACHE]);
}

static const struct mo_decision *decision_of(const struct neighbours *nb, int query) {
    for (int i = 0; i < nb->out->n; i++)
        if (nb->out->list[i].kind == MO_RUN && nb->out->list[i].query == query) return &nb->out->list[i];
    return NULL;
}

/* A model that runs nothing yet and begins with the i-th decision. */
static double newly_resident(const struct neighbours *nb, int i) {
    int tenant = nb->view->queries[nb->out->list[i].query].tenant;
    const struct mo_view_tenant *t = &nb->view->tenants[tenant];
    if (t->n_running) return 0;
    for (int k = 0; k < i; k++)
        if (nb->out->list[k].kind == MO_RUN && nb->view->queries[nb->out->list[k].query].tenant == tenant)
            return 0;
    return (double)mo_profile_bytes(t->profile, 0, t->profile->n_layers);
}

/* Pressure that the running blocks explain by themselves. */
static double explained(const struct neighbours *nb) {
    double sum = 0;
    for (int i = 0; i < nb->view->n_running; i++) {
        const struct mo_view_run *r = &nb->view->runs[nb->view->running[i]];
        if (!mo_view_ends_soon(nb->view, r)) /* the measured pressure leaves those out too */
            sum += demand(nb, r->query, r->n_cores, r->begin, r->end, r->pressure);
    }
    return sum / nb->view->memory.bytes_ns;
}

static void meet(struct neighbours *nb) {
    const struct mo_view *view = nb->view;
    double resident = view->resident;
    nb->taken = view->n_cores - view->n_idle;
    nb->missed = mo_demand_missed(view->memory.cache_bytes, resident);
    nb->outside = view->pressure[MO_PRESSURE_CACHE] - explained(nb);
    if (nb->outside < 0) nb->outside = 0;
    for (int i = 0; i < nb->out->n; i++) {
        if (nb->out->list[i].kind != MO_RUN) continue;
        nb->taken += mo_cores_count(&nb->out->list[i].cores);
        resident += newly_resident(nb, i);
    }
    nb->missed = mo_demand_missed(view->memory.cache_bytes, resident);
    nb->spare = view->n_cores - nb->taken;
    for (int i = 0; i < nb->state->n; i++) {
        const struct mo_moire_candidate *c = &nb->state->list[i];
        if (!c->keep || c->running || decision_of(nb, c->query)) continue;
        nb->waits += demand_from(nb, c->query, c->share, c->begin, (double)view->block_ns);
        nb->wanted += c->share;
    }
}

/* Mean demand of a neighbour over `span` ns from now on; *freed: cores that it leaves, mean over that. */
static double demand_over(const struct neighbours *nb, const struct mo_moire_candidate *c, double span,
                          double *freed) {
    const struct mo_view *view = nb->view;
    const struct mo_view_tenant *t = &view->tenants[c->tenant];
    const struct mo_view_query *q = &view->queries[c->query];
    const struct mo_decision *d = c->running ? NULL : decision_of(nb, c->query);
    if (!c->running && !d) return 0;
    int cores = d ? mo_cores_count(&d->cores) : c->cores,
        begin = d ? q->next_layer : view->runs[q->run].begin;
    int end = d ? d->end : c->begin;
    double now = demand(nb, c->query, cores, begin, end, d ? d->pressure : view->runs[q->run].pressure);
    double rest = d ? (double)mo_view_time(t, cores, begin, end) : (double)c->rest, part = rest / span;
    if (part >= 1) return now;
    int most = cores + nb->spare, then = c->keep && c->share < most ? c->share : c->keep ? most : cores;
    if (end == t->profile->n_layers) then = 0;
    *freed += (1 - part) * (cores - then);
    return part * now + (then ? (1 - part) * demand_from(nb, c->query, then, end, span - rest) : 0);
}

static double pressure_on(const struct neighbours *nb, const struct mo_decision *d) {
    const struct mo_view_query *q = &nb->view->queries[d->query];
    double sum = 0, freed = 0;
    double span =
        (double)mo_view_time(&nb->view->tenants[q->tenant], mo_cores_count(&d->cores), q->next_layer, d->end);
    for (int i = 0; i < nb->state->n; i++)
        if (nb->state->list[i].query != d->query) sum += demand_over(nb, &nb->state->list[i], span, &freed);
    if (nb->wanted && freed > 0) sum += nb->waits * (freed < nb->wanted ? freed / nb->wanted : 1);
    return sum / nb->view->memory.bytes_ns + nb->outside;
}

void mo_moire_predict_pressure(const struct mo_moire_state *s, const struct mo_view *view,
                               struct mo_decisions *out) {
    struct neighbours nb = {.state = s, .view = view, .out = out};
    bool met = false;
    for (int i = 0; i < out->n && view->memory.bytes_ns > 0; i++) {
        struct mo_decision *d = &out->list[i];
        if (d->kind != MO_RUN) continue;
        const struct mo_view_query *q = &view->queries[d->query];
        if (!mo_profile_has_choice(view->tenants[q->tenant].profile, q->next_layer, d->end)) continue;
        if (!met) meet(&nb);
        met = true;
        double p = pressure_on(&nb, d);
        d->pressure = p < 1 ? p : 1;
    }
}
