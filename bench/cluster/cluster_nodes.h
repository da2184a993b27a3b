/* SPDX-License-Identifier: Apache-2.0
 * cluster_nodes.h - the machines of a cluster as data: how many, how large, and where they answer.
 *
 *   {"nodes": [{"name": "a", "count": 3, "cores": 16, "memory_mb": 32768, "address": "10.0.0.1", "port":
 * 8001}]}
 *
 * `count` (1), `address` (the machine's name) and `port` (8001) may be left out.  With a count above 1 the
 * machines are a0, a1, ... and the address, which must be an IPv4 one, counts up. */
#ifndef MO_CLUSTER_NODES_H
#define MO_CLUSTER_NODES_H
#include "bench/data/json_read.h"

enum { MO_CLUSTER_MAX_NODES = 4096, MO_CLUSTER_MAX_KINDS = 64, MO_CLUSTER_NAME = 128 };

struct mo_cluster_node {
    const char *name, *address;
    int cores, port;
    double memory_mb;
    int kind; /* machines of as many cores are of one kind, numbered as they appear */
};

struct mo_cluster_nodes {
    struct mo_cluster_node *node; /* in the order of the file */
    int n, n_kinds;
    int cores[MO_CLUSTER_MAX_KINDS]; /* of each kind */
    int most_cores;
    struct mo_json_file file; /* owns the strings and the list */
};

/* On success *out must be closed; `path` must outlive it.  MOIRE_EFORMAT names the line: an unknown key, a
 * value out of range, a name twice, an address that cannot count up. */
int mo_cluster_nodes_load(const struct mo_env *env, const char *path, struct mo_cluster_nodes *out,
                          moire_error *err);
void mo_cluster_nodes_close(struct mo_cluster_nodes *nodes);
#endif
