/* SPDX-License-Identifier: Apache-2.0
 * scale_haproxy.c - haproxy.cfg and, for each node, the file of its `moire serve --config`; see scale.h.
 *
 * A query goes by the model in its path to one of the nodes that have it: to the one with the fewest
 * unanswered queries for its weight.  The weight is what the node's agent says its queries leave of the
 * model's target.
 *
 * No query runs twice.  HAProxy sends a query again only where no connection came about, and each query has a
 * connection of its own: on one that is used again, a node that ends and a query can pass each other, and
 * nobody knows whether it was taken.  A node that is to end says so to checks and agent while it still takes
 * queries (`moire serve --drain-seconds`), so that nothing is on its way when it closes its doors.
 *
 * What waits for a node that the network has lost is ended by TCP's own probes, not because checks fail:
 * those of a node that is to end fail, too, while it answers what it has taken. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include "tools/moire/scale/scale.h"

/* What `moire serve` takes of connections, less what checks and the live page use (docs/serving.md); longer
 * than checks need to see that a node is not ready. */
enum { CONNECTIONS = 900, MAX_PORT = 65535, DRAIN_SECONDS = 3 };

static int bad_listen(const char *listen, moire_error *err) {
    return mo_fail(err, MOIRE_EINVAL,
                   "--listen %.100s is no address and port: '*:8000', '10.0.0.1:8000', '[::1]:8000'", listen);
}

static int check_listen(const char *listen, moire_error *err) {
    char address[64];
    unsigned char bytes[16];
    const char *colon = strrchr(listen, ':');
    if (!colon || colon - listen >= (int)sizeof address) return bad_listen(listen, err);
    const size_t n = strspn(colon + 1, "0123456789");
    const long port = n && n < 6 && !colon[1 + n] ? strtol(colon + 1, NULL, 10) : 0;
    if (port < 1 || port > MAX_PORT) return bad_listen(listen, err);
    snprintf(address, sizeof address, "%.*s", (int)(colon - listen), listen);
    const size_t length = strlen(address);
    if (length > 2 && address[0] == '[' && address[length - 1] == ']') {
        address[length - 1] = '\0';
        return inet_pton(AF_INET6, address + 1, bytes) == 1 ? MOIRE_OK : bad_listen(listen, err);
    }
    return !strcmp(address, "*") || inet_pton(AF_INET, address, bytes) == 1 ? MOIRE_OK
                                                                            : bad_listen(listen, err);
}

static int check_agents(const struct mo_scale_plan *p, const struct mo_scale_options *o, moire_error *err) {
    for (int i = 0; i < p->n_nodes && o->agent_step; i++)
        if (p->node[i].port + o->agent_step > MAX_PORT)
            return mo_fail(err, MOIRE_EINVAL, "node '%s': its port %lld and --agent-step %d are no port",
                           p->node[i].name, (long long)p->node[i].port, o->agent_step);
    return MOIRE_OK;
}

/* --- haproxy.cfg ---------------------------------------------------------------------------------------- */
static const char head[] =
    "# Written by `moire scale haproxy`: change the plan and write it anew.  docs/scaling-out.md explains "
    "it.\n"
    "# Check it with `haproxy -c -f haproxy.cfg`.\n"
    "global\n"
    "    log stdout format raw local0\n"
    "\n"
    "defaults\n"
    "    mode http\n"
    "    log global\n"
    "    option httplog\n"
    "    option dontlog-normal\n"
    "    # a connection for each query: none can be lost between a node that ends and a query on its way\n"
    "    option http-server-close\n"
    "    # again, on another node, only what no node has had: what may have been taken is never sent again\n"
    "    retries 3\n"
    "    option redispatch 1\n"
    "    retry-on conn-failure\n"
    "    timeout connect 1s\n"
    "    timeout client 65s\n"
    "    timeout http-request 65s\n"
    "    timeout queue 5s\n"
    "    timeout check 2s\n"
    "    # what waits for a node that the network has lost fails after 5 s: its kernel answers no probe\n"
    "    # and (tcp-ut, below) takes nothing.  One that is busy, or that ends, does\n"
    "    option srvtcpka\n"
    "    srvtcpka-idle 2s\n"
    "    srvtcpka-intvl 1s\n"
    "    srvtcpka-cnt 3\n";

/* A query may wait for all those before it, so the target says little; a client that leaves ends it. */
static double timeout_s(const struct mo_scale_plan *p) {
    double most = 0;
    for (int i = 0; i < p->n_models; i++)
        most = p->model[i].qos_ms > most ? p->model[i].qos_ms : most;
    return 60 + most / 100;
}

static void put_frontend(FILE *to, const struct mo_scale_plan *p, const struct mo_scale_options *o) {
    fprintf(to, "    timeout server %.0fs\n\nfrontend moire\n    bind %s\n", timeout_s(p), o->listen);
    fprintf(to, "    # what changes a node, or tells of one node only, is asked of the node itself\n"
                "    http-request deny deny_status 403 unless { path /v2 } or "
                "{ path_beg /v2/health/ /v2/models/ }\n"
                "    http-request deny deny_status 403 if { path_end /trace/setting }\n"
                "    # a model's name is the fourth part of the path: /v2/models/NAME/infer\n");
    for (int i = 0; i < p->n_models; i++)
        fprintf(to, "    use_backend model.%s if { path_beg /v2/models/ } { path,field(4,/) -m str %s }\n",
                p->model[i].name, p->model[i].name);
    fprintf(to, "    default_backend any\n");
}

/* tcp-ut stands at each server: HAProxy 2.6 does not take it over from `default-server`. */
static void put_server(FILE *to, const struct mo_scale_node *n, const struct mo_scale_options *o,
                       const char *model) {
    fprintf(to, "    server %s %s%s%s:%lld check tcp-ut 5s maxconn %d", n->name, n->is_ipv6 ? "[" : "",
            n->address, n->is_ipv6 ? "]" : "", (long long)n->port,
            n->n_shares < CONNECTIONS / 2 ? CONNECTIONS / n->n_shares : 2);
    if (model && o->agent_step)
        fprintf(to, " agent-check agent-port %lld agent-inter 500ms agent-send \"%s\\n\"",
                (long long)n->port + o->agent_step, model);
    fputc('\n', to);
}

static void put_backend(FILE *to, const char *name, const char *ready) {
    fprintf(to,
            "\nbackend %s\n    balance leastconn\n    option httpchk\n"
            "    http-check send meth GET uri %s ver HTTP/1.1 hdr host moire\n"
            "    http-check expect status 200\n"
            "    default-server inter 500ms fastinter 200ms downinter 500ms fall 2 rise 2 weight 100\n",
            name, ready);
}

static int write_config(const struct mo_scale_plan *p, const struct mo_scale_options *o,
                        struct mo_scale_folder *folder, moire_error *err) {
    FILE *to = mo_scale_file(folder);
    if (!to) return mo_scale_file_end(folder, "haproxy.cfg", err);
    fputs(head, to);
    put_frontend(to, p, o);
    for (int m = 0; m < p->n_models; m++) {
        char name[MO_SCALE_NAME + 8], ready[MO_SCALE_NAME + 24];
        snprintf(name, sizeof name, "model.%s", p->model[m].name);
        snprintf(ready, sizeof ready, "/v2/models/%s/ready", p->model[m].name);
        put_backend(to, name, ready);
        for (int i = 0; i < p->n_nodes; i++)
            if (mo_scale_share_of(&p->node[i], m)) put_server(to, &p->node[i], o, p->model[m].name);
    }
    put_backend(to, "any", "/v2/health/ready");
    for (int i = 0; i < p->n_nodes; i++)
        put_server(to, &p->node[i], o, NULL);
    return mo_scale_file_end(folder, "haproxy.cfg", err);
}

/* --- nodes/NAME.json ------------------------------------------------------------------------------------ */
/* The address of a name is the node's to know: there it listens on all. */
static bool is_ip(const struct mo_scale_node *n) {
    unsigned char bytes[4];
    return n->is_ipv6 || inet_pton(AF_INET, n->address, bytes) == 1;
}

/* What docs/serving-config.md describes.  Files are named as the plan names them, from the file's folder. */
static int write_node(const struct mo_scale_plan *p, const struct mo_scale_options *o,
                      const struct mo_scale_node *n, struct mo_scale_folder *folder, moire_error *err) {
    char name[MO_SCALE_NAME + 16];
    FILE *to = mo_scale_file(folder);
    if (to) {
        fprintf(to, "{\n  \"host\": \"%s\",\n  \"http_port\": %lld,\n  \"grpc_port\": -1,\n",
                is_ip(n) ? n->address : "0.0.0.0", (long long)n->port);
        fprintf(to, "  \"metrics_port\": -1,\n  \"load_first\": true,\n");
        if (o->agent_step) fprintf(to, "  \"agent_port\": %lld,\n", (long long)n->port + o->agent_step);
        fprintf(to, "  \"drain_seconds\": %d,\n  \"models\": [\n", DRAIN_SECONDS);
    }
    for (int i = 0; i < n->n_shares && to; i++) {
        const struct mo_scale_model *m = &p->model[n->share[i].model];
        fprintf(to, "    {\"name\": \"%s\", \"path\": ", m->name);
        mo_scale_quote(to, m->file);
        if (m->qos_ms > 0) fprintf(to, ", \"qos_ms\": %g", m->qos_ms);
        fprintf(to, "}%s\n", i + 1 < n->n_shares ? "," : "\n  ]\n}");
    }
    snprintf(name, sizeof name, "nodes/%s.json", n->name);
    return mo_scale_file_end(folder, name, err);
}

int mo_scale_haproxy(const struct mo_scale_plan *p, const struct mo_scale_options *o,
                     struct mo_scale_folder *folder, moire_error *err) {
    int code = check_listen(o->listen, err);
    if (!code) code = check_agents(p, o, err);
    if (!code) code = write_config(p, o, folder, err);
    for (int i = 0; i < p->n_nodes && !code; i++)
        code = write_node(p, o, &p->node[i], folder, err);
    return code;
}
