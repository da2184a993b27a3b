/* SPDX-License-Identifier: Apache-2.0
 * main.c - the differential tester: random graphs from a seed, each run in every way that moire has and by
 * ONNX Runtime; the first wrong answer of a graph is reported. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/differential/net.h"
#include "tests/differential/onnx_write.h"

struct options {
    uint64_t seed;
    int64_t graphs;
    double seconds;
    int compile_every;
    const char *folder, *python, *worker;
    bool verbose;
};

static int run_seed(struct dt_net *net, const struct options *o, uint64_t seed, int64_t index) {
    struct mo_graph *g = dt_make(net->env, seed);
    struct dt_part part = {.g = g, .n_outputs = g->n_outputs, .outputs = g->outputs};
    struct dt_case c;
    struct dt_result r;
    moire_error err = {0};
    size_t n;
    int bad = 0;
    if (!g->n_outputs) {
        mo_graph_destroy(g);
        return 0;
    }
    const uint8_t *bytes = dt_write_onnx(&part, g->region, &n);
    int rc = dt_case_open(net->env, bytes, n, seed, NULL, &c, &err);
    if (rc) {
        printf("seed %llu: refused: %s\n", (unsigned long long)seed, err.message);
        bad = 1;
    } else {
        for (int k = 0; k < g->n_nodes; k++)
            dt_cover_add(&net->cover, "operator", g->nodes[k]->op_type);
        net->graphs++;
        unsigned ways = DT_BUILT_IN | DT_PEER_TOO;
        if (o->compile_every && index % o->compile_every == 0) ways |= DT_COMPILED_TOO;
        dt_net_try(net, &c, ways, &r);
        if (r.verdict == DT_DIFFERS) {
            printf("seed %llu: %s\n", (unsigned long long)seed, r.what);
            bad = 1;
        }
        dt_case_close(&c);
    }
    if (bad) {
        char path[700];
        snprintf(path, sizeof path, "%s/failures/%llu.onnx", o->folder, (unsigned long long)seed);
        FILE *f = fopen(path, "wb");
        if (f) fwrite(bytes, 1, n, f);
        if (f) fclose(f);
    }
    mo_graph_destroy(g);
    return bad;
}

int main(int argc, char **argv) {
    struct options o = {.seed = 1,
                        .seconds = 120,
                        .compile_every = 10,
                        .folder = "build/differential",
                        .python = ".venv/bin/python",
                        .worker = "tests/differential/peer_worker.py"};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--seed"))
            o.seed = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--graphs"))
            o.graphs = atoll(argv[i + 1]);
        else if (!strcmp(argv[i], "--seconds"))
            o.seconds = atof(argv[i + 1]);
        else if (!strcmp(argv[i], "--compile-every"))
            o.compile_every = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--python"))
            o.python = argv[i + 1];
    }
    struct mo_env env = mo_env_default();
    static struct dt_net net;
    net = (struct dt_net){.env = &env, .folder = o.folder, .peer = dt_peer_start(o.python, o.worker)};
    if (!net.peer) printf("no ONNX Runtime in %s: compared without it\n", o.python);
    int64_t end = mo_now(&env) + (int64_t)(o.seconds * 1e9), bad = 0;
    for (int64_t i = 0; (o.graphs ? i < o.graphs : mo_now(&env) < end); i++)
        bad += run_seed(&net, &o, o.seed + (uint64_t)i, i);
    dt_cover_print(&net.cover);
    dt_cover_print_group(&net.cover, "refused");
    printf("graphs %lld, compiled base %lld avx2 %lld avx512 %lld, kernels %lld (%lld reused), ONNX Runtime "
           "%lld, bad %lld\n",
           (long long)net.graphs, (long long)net.compiled[0], (long long)net.compiled[1],
           (long long)net.compiled[2], (long long)net.kernels, (long long)net.reused, (long long)net.peers,
           (long long)bad);
    dt_peer_stop(net.peer);
    return bad != 0;
}
