/* SPDX-License-Identifier: Apache-2.0
 * cluster_routing.h - which replica a query goes to.  The router knows what it has sent and what was
 * answered, and the profiles; it asks no machine.
 *
 *   random       a replica drawn by its part of the model's rate in the plan
 *   outstanding  the replica whose machine has fewest queries of this router unanswered
 *   two          of two replicas drawn like that, the one with fewer (power of two choices)
 *   deadline     the same, and of equals the one that is predicted to answer first
 *
 * Predicted is how long the queries that are due before this one keep their machine busy, by the rate that it
 * holds of each model, and then the model's least time there.  "Due before": machines serve by deadlines, so
 * a query waits for those of models with a target that is not longer, and for as many of the others as are
 * old enough, which is taken to be the ratio of the targets.
 *
 * The prediction is a rough one: what is left of a query that runs is not known, and the rate that a machine
 * holds within targets is below what it does when full, so there most queries are predicted late of which
 * nearly all are in time.  So it rules no machine out; docs/results/cluster.md has what was tried. */
#ifndef MO_CLUSTER_ROUTING_H
#define MO_CLUSTER_ROUTING_H
#include "bench/cluster/replicas.h"

enum mo_routing {
    MO_ROUTING_RANDOM,
    MO_ROUTING_OUTSTANDING,
    MO_ROUTING_TWO,
    MO_ROUTING_DEADLINE,
    MO_ROUTINGS
};
const char *mo_routing_name(enum mo_routing routing);
bool mo_routing_find(const char *name, enum mo_routing *out);

struct mo_route_model {
    int64_t qos_ns; /* 0 = no target: due last */
    const struct mo_place_list *placed;
    const int64_t *least_ns; /* by kind of machine: on as many cores as help; */
    const int64_t *part_ns; /* and how long a query keeps all of it busy: of a rate that it holds, 1 / rate */
};

struct mo_route_node {
    int kind;
};

struct mo_router_config {
    const struct mo_env *env;
    enum mo_routing routing;
    const struct mo_route_model *models; /* these two are read once */
    const struct mo_route_node *nodes;
    int n_models, n_nodes;
    uint64_t seed;
};

struct mo_router;
int mo_router_create(const struct mo_router_config *config, struct mo_router **out, moire_error *err);
void mo_router_destroy(struct mo_router *router); /* NULL is fine */

/* The replica for a query of the model, an index into its list, which now has one more on its way. */
int mo_router_send(struct mo_router *router, int model);
/* A query that was sent there has its answer, whatever it is. */
void mo_router_answered(struct mo_router *router, int model, int replica);
/* Queries on their way to a machine. */
int mo_router_outstanding(const struct mo_router *router, int node);
#endif
