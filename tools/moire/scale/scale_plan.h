/* SPDX-License-Identifier: Apache-2.0
 * scale_plan.h - a plan of models on machines, which `moire capacity --nodes` writes, read strictly.
 *
 * What is read goes into files that other programs take as their configuration: no name may end a word, a
 * line or a folder there.  So names are of letters, digits, '.', '_' and '-' only, and what cannot be
 * written as it is, is refused here, once, and nowhere else.
 *
 * Invariants of a plan that was read.  Names of models are distinct, and so are names of nodes and their
 * doors (address and port).  Every node has a model; every model is on as many nodes as it has replicas. */
#ifndef MO_SCALE_PLAN_H
#define MO_SCALE_PLAN_H
#include "bench/data/json_read.h"

enum { MO_SCALE_NAME = 64, MO_SCALE_MODELS = 256, MO_SCALE_NODES = 4096 };

struct mo_scale_model {
    const char *name, *file; /* file: UTF-8 without control characters and without ".." */
    double qos_ms, qps, attainment;
    int64_t replicas;
};

/* A model on a node. */
struct mo_scale_share {
    int model; /* index */
    double qps;
};

struct mo_scale_node {
    const char *name, *address; /* address: a name of a host or an IP address; the name where none is said */
    bool is_ipv6;
    int64_t port, cores, memory_mb;
    struct mo_scale_share *share;
    int n_shares;
};

struct mo_scale_plan {
    double qps;
    const char *routing;
    struct mo_scale_model *model;
    struct mo_scale_node *node;
    int n_models, n_nodes;
    struct mo_json_file file; /* texts and arrays lie in its region */
};

/* Returns: MOIRE_OK, and the plan is to be closed; MOIRE_EFORMAT: it is no plan, with the place; MOIRE_EIO;
 * MOIRE_ELIMIT; MOIRE_ENOMEM. */
int mo_scale_plan_load(const struct mo_env *env, const char *path, struct mo_scale_plan *out,
                       moire_error *err);
/* The same from memory. */
int mo_scale_plan_parse(const struct mo_env *env, const char *path, const char *text, size_t n,
                        struct mo_scale_plan *out, moire_error *err);
void mo_scale_plan_close(struct mo_scale_plan *plan);

/* The node's share of a model; NULL: it does not have it. */
const struct mo_scale_share *mo_scale_share_of(const struct mo_scale_node *node, int model);
#endif
