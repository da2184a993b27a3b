/* SPDX-License-Identifier: Apache-2.0
 * scale_ray.c - an application of Ray Serve: config.yaml with a deployment for each model, and moire_app.py,
 * which makes them of moire's Python package (python/moire/ray.py); see scale.h. */
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

static int write_application(struct mo_scale_folder *folder, moire_error *err) {
    FILE *to = mo_scale_file(folder);
    if (to)
        fprintf(
            to,
            "\"\"\"moire on Ray Serve: `serve run config.yaml` deploys it, from this folder.\n"
            "\n"
            "Written by `moire scale ray`; docs/scaling-out.md explains it.  config.yaml has the models.\n"
            "\"\"\"\n"
            "from moire.ray import build\n"
            "\n"
            "\n"
            "def app(args):\n"
            "    \"\"\"The application: put steps of your own in front of it here.\"\"\"\n"
            "    return build(args)\n");
    return mo_scale_file_end(folder, "moire_app.py", err);
}

static int write_config(const struct mo_scale_plan *p, struct mo_scale_folder *folder, moire_error *err) {
    FILE *to = mo_scale_file(folder);
    if (to)
        fprintf(to, "# Written by `moire scale ray`; docs/scaling-out.md explains it.\n"
                    "proxy_location: EveryNode\n"
                    "http_options: {host: 127.0.0.1, port: 8000}\n"
                    "applications:\n"
                    "  - name: moire\n"
                    "    route_prefix: /\n"
                    "    import_path: moire_app:app\n"
                    "    args:\n"
                    "      # file: as every node has it; cores: of a replica, which are its own\n"
                    "      models:\n");
    for (int i = 0; i < p->n_models && to; i++) {
        const struct mo_scale_model *m = &p->model[i];
        fprintf(to, "        - name: \"%s\"\n          file: ", m->name);
        mo_scale_quote(to, m->file);
        fprintf(
            to,
            "\n          qos_ms: %g\n          cores: %lld\n          replicas: %lld\n          most: %lld\n",
            m->qos_ms, (long long)cores_of(p, i), (long long)m->replicas, (long long)m->replicas * 3);
    }
    return mo_scale_file_end(folder, "config.yaml", err);
}

int mo_scale_ray(const struct mo_scale_plan *p, const struct mo_scale_options *options,
                 struct mo_scale_folder *folder, moire_error *err) {
    (void)options;
    const int code = write_application(folder, err);
    return code ? code : write_config(p, folder, err);
}
