/* SPDX-License-Identifier: Apache-2.0
 * scale_ray.c - applications of Ray Serve: config.yaml with one for each model, moire_app.py, which makes
 * them of moire's Python package (python/moire/ray.py), and ray.env, settings of Ray for every node; see
 * scale.h.
 *
 * Each model is an application at a path of its own, so that Ray's proxy hands a query to its replica at
 * once.  One application with a router of ours in it passes every query on a second time, which takes as long
 * again. */
#include <string.h>
#include "tools/moire/scale/scale.h"

/* Cores of a replica: the least that a node has for each of its models. */
static int64_t cores_of(const struct mo_scale_plan *p, int model) {
    int64_t least = INT64_MAX;
    for (int i = 0; i < p->n_nodes; i++) {
        const struct mo_scale_node *n = &p->node[i];
        const int64_t cores = n->cores / n->n_shares;
        if (mo_scale_share_of(n, model) && cores < least) least = cores;
    }
    return least < 1 ? 1 : least;
}

#define FRONT "moire-front"

static int write_python(struct mo_scale_folder *folder, moire_error *err) {
    FILE *to = mo_scale_file(folder);
    if (to)
        fprintf(
            to,
            "\"\"\"moire on Ray Serve: `serve run config.yaml` deploys it, from this folder.\n"
            "\n"
            "Written by `moire scale ray`; docs/scaling-out.md explains it.  config.yaml has the models.\n"
            "\"\"\"\n"
            "from moire.ray import build, front  # front: what answers /v2/health\n"
            "\n"
            "\n"
            "def app(args):\n"
            "    \"\"\"The application of one model: put steps of your own in front of it here.\"\"\"\n"
            "    return build(args)\n");
    return mo_scale_file_end(folder, "moire_app.py", err);
}

static void put_model(FILE *to, const struct mo_scale_plan *p, int model) {
    const struct mo_scale_model *m = &p->model[model];
    fprintf(to,
            "  - name: \"%s\"\n"
            "    route_prefix: \"/v2/models/%s\"\n"
            "    import_path: moire_app:app\n"
            "    args:\n"
            "      name: \"%s\"\n"
            "      file: ",
            m->name, m->name, m->name);
    mo_scale_quote(to, m->file);
    fprintf(to, "\n      qos_ms: %g\n      cores: %lld\n      replicas: %lld\n      most: %lld\n", m->qos_ms,
            (long long)cores_of(p, model), (long long)m->replicas, (long long)m->replicas * 3);
}

static int write_config(const struct mo_scale_plan *p, struct mo_scale_folder *folder, moire_error *err) {
    FILE *to = mo_scale_file(folder);
    if (to)
        fprintf(to, "# Written by `moire scale ray`; docs/scaling-out.md explains it.\n"
                    "proxy_location: EveryNode\n"
                    "http_options: {host: 127.0.0.1, port: 8000}\n"
                    "# a line for each query costs more than passing it on\n"
                    "logging_config: {log_level: WARNING, enable_access_log: false}\n"
                    "# file: as every node has it; cores: of a replica, which are its own\n"
                    "applications:\n"
                    "  - {name: " FRONT ", route_prefix: /, import_path: \"moire_app:front\"}\n");
    for (int i = 0; i < p->n_models && to; i++)
        put_model(to, p, i);
    return mo_scale_file_end(folder, "config.yaml", err);
}

static int write_settings(const struct mo_scale_plan *p, struct mo_scale_folder *folder, moire_error *err) {
    FILE *to = mo_scale_file(folder);
    if (to) {
        fprintf(to, "# Written by `moire scale ray`: settings by which Ray Serve takes less of the cores.  "
                    "On every node\n"
                    "# before `ray start`, `serve run` or `serve deploy`:  set -a; . ./ray.env; set +a\n"
                    "# a replica answers on the thread that has its connections\n"
                    "RAY_SERVE_THROUGHPUT_OPTIMIZED=1\n"
                    "# seconds between looks of the controller, in place of 0.1\n"
                    "RAY_SERVE_CONTROL_LOOP_INTERVAL_S=1\n"
                    "# milliseconds between notes of metrics, in place of 100; they are exported every 10 s\n"
                    "RAY_SERVE_METRICS_EXPORT_INTERVAL_MS=5000\n"
                    "# HAProxy, which comes with ray[serve], in place of the proxy in Python.  Its figures "
                    "are open on all\n"
                    "# addresses of a node, ports 8404 and 9101.\n");
        if (p->n_nodes > 1)
            fprintf(to, "# With several nodes it must reach replicas of others: that takes `host: 0.0.0.0` "
                        "in config.yaml,\n"
                        "# which opens ports 8000 and 30000 to 31000, and a network where nobody else is.\n");
        fprintf(to, "%sRAY_SERVE_ENABLE_HA_PROXY=1\n", p->n_nodes > 1 ? "# " : "");
    }
    return mo_scale_file_end(folder, "ray.env", err);
}

int mo_scale_ray(const struct mo_scale_plan *p, const struct mo_scale_options *options,
                 struct mo_scale_folder *folder, moire_error *err) {
    (void)options;
    for (int i = 0; i < p->n_models; i++)
        if (!strcmp(p->model[i].name, FRONT))
            return mo_fail(err, MOIRE_EFORMAT,
                           "the name of model '" FRONT "' is that of an application of its own");
    int code = write_python(folder, err);
    if (!code) code = write_config(p, folder, err);
    return code ? code : write_settings(p, folder, err);
}
