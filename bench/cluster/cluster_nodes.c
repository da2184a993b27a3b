/* SPDX-License-Identifier: Apache-2.0
 * cluster_nodes.c - reading the machines of a cluster; see cluster_nodes.h. */
#include "bench/cluster/cluster_nodes.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/cores.h"

enum { WHERE = 40, DEFAULT_PORT = 8001, LAST_PORT = 65535 };
static const double LARGEST_MB = 1e9;

struct row {
    const char *name, *address;
    int64_t count, cores, port;
    double memory_mb;
};

static int read_row(const struct mo_json_file *f, const char *where, const json_t *object, struct row *out,
                    moire_error *err) {
    static const struct mo_json_field fields[] = {
        {"name", MO_JSON_STRING, true, offsetof(struct row, name), 0, 0},
        {"count", MO_JSON_INT, false, offsetof(struct row, count), 1, MO_CLUSTER_MAX_NODES},
        {"cores", MO_JSON_INT, true, offsetof(struct row, cores), 1, MO_MAX_CORES},
        {"memory_mb", MO_JSON_NUMBER, true, offsetof(struct row, memory_mb), 1, LARGEST_MB},
        {"address", MO_JSON_STRING, false, offsetof(struct row, address), 0, 0},
        {"port", MO_JSON_INT, false, offsetof(struct row, port), 1, LAST_PORT},
    };
    *out = (struct row){.count = 1, .port = DEFAULT_PORT};
    int code = mo_json_fields(f, where, object, fields, (int)(sizeof fields / sizeof *fields), out, err);
    if (code) return code;
    if (!*out->name || strlen(out->name) > MO_CLUSTER_NAME - 8 ||
        (out->address && strlen(out->address) >= MO_CLUSTER_NAME))
        return mo_json_fail(f, where, err, "\"name\" and \"address\" need 1 to %d characters",
                            MO_CLUSTER_NAME - 8);
    return MOIRE_OK;
}

/* "10.0.0.255" and 1 is "10.0.1.0"; false: not an IPv4 address, or beyond the last one. */
static bool count_up(const char *address, int by, char *out) {
    struct in_addr in;
    if (inet_pton(AF_INET, address, &in) != 1) return false;
    const uint64_t sum = (uint64_t)ntohl(in.s_addr) + (uint64_t)by;
    in.s_addr = htonl((uint32_t)sum);
    if (!inet_ntop(AF_INET, &in, out, MO_CLUSTER_NAME)) return false;
    return sum >> 32 == 0;
}

static int kind_of(struct mo_cluster_nodes *out, int cores) {
    int k = 0;
    while (k < out->n_kinds && out->cores[k] != cores)
        k++;
    if (k == MO_CLUSTER_MAX_KINDS) return -1;
    if (k == out->n_kinds) out->cores[out->n_kinds++] = cores;
    if (cores > out->most_cores) out->most_cores = cores;
    return k;
}

/* The machines of one row. */
static int add(struct mo_cluster_nodes *out, const char *where, const struct row *row, moire_error *err) {
    const struct mo_json_file *f = &out->file;
    const int kind = kind_of(out, (int)row->cores);
    if (kind < 0) return mo_json_fail(f, where, err, "more than %d numbers of cores", MO_CLUSTER_MAX_KINDS);
    for (int i = 0; i < row->count; i++) {
        char name[MO_CLUSTER_NAME], address[MO_CLUSTER_NAME];
        snprintf(name, sizeof name, "%s", row->name);
        if (row->count > 1) snprintf(name, sizeof name, "%s%d", row->name, i);
        snprintf(address, sizeof address, "%s", row->address ? row->address : name);
        if (row->address && row->count > 1 && !count_up(row->address, i, address))
            return mo_json_fail(f, where, err, "\"address\" must be an IPv4 address that can count up by %d",
                                (int)row->count - 1);
        struct mo_cluster_node *n = &out->node[out->n++];
        *n = (struct mo_cluster_node){.name = mo_region_string(f->region, name, strlen(name)),
                                      .address = mo_region_string(f->region, address, strlen(address)),
                                      .cores = (int)row->cores,
                                      .port = (int)row->port,
                                      .memory_mb = row->memory_mb,
                                      .kind = kind};
        if (!n->name || !n->address) return mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", f->path);
    }
    return MOIRE_OK;
}

static int by_name(const void *pa, const void *pb) {
    return strcmp(*(const char *const *)pa, *(const char *const *)pb);
}

static int check_names(const struct mo_cluster_nodes *nodes, moire_error *err) {
    const struct mo_json_file *f = &nodes->file;
    const char **names = mo_region_array(f->region, (size_t)nodes->n, sizeof *names);
    if (!names) return mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", f->path);
    for (int i = 0; i < nodes->n; i++)
        names[i] = nodes->node[i].name;
    qsort(names, (size_t)nodes->n, sizeof *names, by_name);
    for (int i = 1; i < nodes->n; i++)
        if (!strcmp(names[i - 1], names[i]))
            return mo_json_fail(f, "nodes", err, "two machines are called '%s'", names[i]);
    return MOIRE_OK;
}

static int read_list(struct mo_cluster_nodes *out, const json_t *list, moire_error *err) {
    const struct mo_json_file *f = &out->file;
    struct row *rows = mo_region_array(f->region, json_array_size(list) + 1, sizeof *rows);
    size_t i;
    json_t *object;
    char where[WHERE];
    int64_t n = 0;
    if (!rows) return mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", f->path);
    json_array_foreach((json_t *)list, i, object) {
        snprintf(where, sizeof where, "nodes[%zu]", i);
        int code = read_row(f, where, object, &rows[i], err);
        if (code) return code;
        n += rows[i].count;
        if (n > MO_CLUSTER_MAX_NODES)
            return mo_json_fail(f, where, err, "more than %d machines", MO_CLUSTER_MAX_NODES);
    }
    if (!n) return mo_json_fail(f, "nodes", err, "needs a machine");
    out->node = mo_region_array(f->region, (size_t)n, sizeof *out->node);
    if (!out->node) return mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", f->path);
    for (i = 0; i < json_array_size(list); i++) {
        snprintf(where, sizeof where, "nodes[%zu]", i);
        int code = add(out, where, &rows[i], err);
        if (code) return code;
    }
    return check_names(out, err);
}

int mo_cluster_nodes_load(const struct mo_env *env, const char *path, struct mo_cluster_nodes *out,
                          moire_error *err) {
    struct {
        json_t *nodes;
    } root = {NULL};
    const struct mo_json_field field = {"nodes", MO_JSON_ARRAY, true, 0, 0, 0};
    memset(out, 0, sizeof *out);
    int code = mo_json_load(env, path, &out->file, err);
    if (code) return code;
    code = mo_json_fields(&out->file, "", out->file.root, &field, 1, &root, err);
    if (!code) code = read_list(out, root.nodes, err);
    if (code) mo_cluster_nodes_close(out);
    return code;
}

void mo_cluster_nodes_close(struct mo_cluster_nodes *nodes) {
    if (nodes->file.region) mo_json_close(&nodes->file);
    memset(nodes, 0, sizeof *nodes);
}
