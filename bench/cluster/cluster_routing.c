/* SPDX-License-Identifier: Apache-2.0
 * cluster_routing.c - the router's books and its choices; see cluster_routing.h.
 *
 * What a query of one model waits for on a machine is kept as a sum per replica, in whole nanoseconds, so
 * that it is exactly 0 again when nothing is on its way.  A query that comes or goes changes the predictions
 * of all models on its machine, which are few; so the choice, which looks at all replicas of one model, reads
 * one number after the other.  Scans begin at a drawn replica: those that are alike take turns. */
#include "bench/cluster/cluster_routing.h"

#include <string.h>

/* A replica. */
struct target {
    int node, model;
    int64_t least_ns;
    double upto; /* part of the model's rate that replicas up to this one have */
};

/* The replicas on a machine: `on` [first, first + n). */
struct shelf {
    int first, n, outstanding;
    int kind;
};

struct mo_router {
    const struct mo_env *env;
    struct mo_region *region;
    enum mo_routing routing;
    int n_models;
    int *first, *n; /* by model: its targets */
    struct target *targets;
    struct shelf *shelves;
    int *on;        /* targets, machine by machine */
    int64_t *ahead; /* by target: time that a query waits for there */
    int64_t *cost;  /* by target: what the least of is chosen by `deadline` */
    int64_t *waits; /* [kind of machine][model sent][model that waits]: what it adds to that */
    uint64_t rng;
};

/* What is predicted decides among machines with as many queries: it is below MORE, a quarter of an hour. */
static const int64_t MORE = INT64_C(1) << 40;

static const char *const names[MO_ROUTINGS] = {"random", "outstanding", "two", "deadline"};

const char *mo_routing_name(enum mo_routing routing) {
    return names[routing];
}

bool mo_routing_find(const char *name, enum mo_routing *out) {
    for (int i = 0; i < MO_ROUTINGS; i++)
        if (!strcmp(name, names[i])) {
            *out = (enum mo_routing)i;
            return true;
        }
    return false;
}

/* --- choices -------------------------------------------------------------------------------------------- */
static int draw(struct mo_router *r, int model) {
    const struct target *t = r->targets + r->first[model];
    const double at = mo_draw_unit(&r->rng);
    int low = 0, high = r->n[model] - 1; /* the first whose `upto` is above `at` */
    while (low < high) {
        int middle = (low + high) / 2;
        if (t[middle].upto > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static int waiting(const struct mo_router *r, int model, int replica) {
    return r->shelves[r->targets[r->first[model] + replica].node].outstanding;
}

static int fewest(struct mo_router *r, int model) {
    const int n = r->n[model], begin = (int)(mo_draw_unit(&r->rng) * n);
    int best = begin, least = waiting(r, model, begin);
    for (int k = 1; k < n && least; k++) {
        const int i = begin + k < n ? begin + k : begin + k - n;
        const int now = waiting(r, model, i);
        if (now < least) {
            least = now;
            best = i;
        }
    }
    return best;
}

static int of_two(struct mo_router *r, int model) {
    const int a = draw(r, model);
    int b = draw(r, model);
    if (b == a && r->n[model] > 1) b = (a + 1) % r->n[model];
    return waiting(r, model, b) < waiting(r, model, a) ? b : a;
}

/* The first of the least of [from, to); `best` where none is less than that. */
static int least_of(const int64_t *cost, int from, int to, int best) {
    int64_t least = cost[best];
    for (int i = from; i < to; i++)
        if (cost[i] < least) {
            least = cost[i];
            best = i;
        }
    return best;
}

static int soonest(struct mo_router *r, int model) {
    const int64_t *cost = r->cost + r->first[model];
    const int n = r->n[model], begin = (int)(mo_draw_unit(&r->rng) * n);
    return least_of(cost, 0, begin, least_of(cost, begin, n, begin));
}

static int choose(struct mo_router *r, int model) {
    if (r->n[model] == 1) return 0;
    switch (r->routing) {
    case MO_ROUTING_OUTSTANDING:
        return fewest(r, model);
    case MO_ROUTING_TWO:
        return of_two(r, model);
    case MO_ROUTING_DEADLINE:
        return soonest(r, model);
    case MO_ROUTING_RANDOM:
    case MO_ROUTINGS:
        break;
    }
    return draw(r, model);
}

/* --- books ---------------------------------------------------------------------------------------------- */
static int64_t cost_of(const struct mo_router *r, int target) {
    const struct target *t = &r->targets[target];
    const int64_t predicted = r->ahead[target] + t->least_ns;
    return r->shelves[t->node].outstanding * MORE + (predicted < MORE ? predicted : MORE - 1);
}

/* A query of the model comes (+1) to a machine or is answered there (-1). */
static void note(struct mo_router *r, int model, int node, int change) {
    struct shelf *s = &r->shelves[node];
    const int64_t *adds = r->waits + ((size_t)s->kind * r->n_models + model) * r->n_models;
    s->outstanding += change;
    for (int i = s->first; i < s->first + s->n; i++) {
        const int t = r->on[i];
        r->ahead[t] += change * adds[r->targets[t].model];
        r->cost[t] = cost_of(r, t);
    }
}

int mo_router_send(struct mo_router *r, int model) {
    const int replica = choose(r, model);
    note(r, model, r->targets[r->first[model] + replica].node, 1);
    return replica;
}

void mo_router_answered(struct mo_router *r, int model, int replica) {
    note(r, model, r->targets[r->first[model] + replica].node, -1);
}

int mo_router_outstanding(const struct mo_router *r, int node) {
    return r->shelves[node].outstanding;
}

/* --- create, destroy ------------------------------------------------------------------------------------ */
/* Part of a query's core time that one of another model has to wait for. */
static double before(const struct mo_route_model *sent, const struct mo_route_model *waits) {
    if (!waits->qos_ns) return 1;
    if (!sent->qos_ns) return 0;
    return sent->qos_ns <= waits->qos_ns ? 1 : (double)waits->qos_ns / (double)sent->qos_ns;
}

/* The targets of one model; shelves know by now where theirs begin, and count them here. */
static void fill(struct mo_router *r, const struct mo_router_config *c, int model, int first) {
    const struct mo_route_model *m = &c->models[model];
    double sum = 0, upto = 0;
    r->first[model] = first;
    r->n[model] = m->placed->n;
    for (int i = 0; i < m->placed->n; i++)
        sum += m->placed->replica[i].qps;
    for (int i = 0; i < m->placed->n; i++) {
        const struct mo_replica *replica = &m->placed->replica[i];
        const struct mo_route_node *node = &c->nodes[replica->node];
        struct shelf *s = &r->shelves[replica->node];
        upto += replica->qps;
        r->on[s->first + s->n++] = first + i;
        r->targets[first + i] = (struct target){
            .node = replica->node, .model = model, .least_ns = m->least_ns[node->kind], .upto = upto / sum};
        r->cost[first + i] = cost_of(r, first + i);
    }
}

int mo_router_create(const struct mo_router_config *c, struct mo_router **out, moire_error *err) {
    struct mo_router *r = mo_alloc(c->env, sizeof *r);
    if (!r) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a router");
    *r = (struct mo_router){.env = c->env,
                            .region = mo_region_create(c->env),
                            .routing = c->routing,
                            .n_models = c->n_models,
                            .rng = c->seed};
    const size_t models = (size_t)c->n_models;
    size_t kinds = 1;
    for (int i = 0; i < c->n_nodes; i++)
        if ((size_t)c->nodes[i].kind >= kinds) kinds = (size_t)c->nodes[i].kind + 1;
    size_t n = 0;
    for (int m = 0; m < c->n_models; m++)
        n += (size_t)c->models[m].placed->n;
    if (r->region) {
        r->first = mo_region_array(r->region, models, sizeof *r->first);
        r->n = mo_region_array(r->region, models, sizeof *r->n);
        r->targets = mo_region_array(r->region, n + 1, sizeof *r->targets);
        r->shelves = mo_region_array(r->region, (size_t)c->n_nodes, sizeof *r->shelves);
        r->on = mo_region_array(r->region, n + 1, sizeof *r->on);
        r->cost = mo_region_array(r->region, n + 1, sizeof *r->cost);
        r->ahead = mo_region_array(r->region, n + 1, sizeof *r->ahead);
        r->waits = mo_region_array(r->region, kinds * models * models, sizeof *r->waits);
    }
    if (!r->region || !r->first || !r->n || !r->targets || !r->shelves || !r->on || !r->ahead || !r->cost ||
        !r->waits) {
        mo_router_destroy(r);
        return mo_fail(err, MOIRE_ENOMEM, "out of memory for a router of %d machines", c->n_nodes);
    }
    for (int m = 0; m < c->n_models; m++)
        for (int i = 0; i < c->models[m].placed->n; i++)
            r->shelves[c->models[m].placed->replica[i].node].n++;
    for (int i = 0, at = 0; i < c->n_nodes; i++) {
        r->shelves[i].first = at;
        at += r->shelves[i].n;
        r->shelves[i].n = 0;
    }
    for (int m = 0, at = 0; m < c->n_models; at += c->models[m++].placed->n)
        fill(r, c, m, at);
    for (int i = 0; i < c->n_nodes; i++)
        r->shelves[i].kind = c->nodes[i].kind;
    for (size_t k = 0; k < kinds; k++)
        for (size_t m = 0; m < models; m++)
            for (size_t w = 0; w < models; w++)
                r->waits[(k * models + m) * models + w] =
                    (int64_t)((double)c->models[m].part_ns[k] * before(&c->models[m], &c->models[w]));
    *out = r;
    return MOIRE_OK;
}

void mo_router_destroy(struct mo_router *r) {
    if (!r) return;
    mo_region_destroy(r->region);
    mo_free(r->env, r);
}
