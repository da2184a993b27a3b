/* SPDX-License-Identifier: Apache-2.0
 * replay.c - models through the net, and what becomes of failures; see replay.h. */
#define _GNU_SOURCE
#include "tests/differential/replay.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/file.h"
#include "tests/differential/onnx_write.h"
#include "tests/differential/shrink.h"
#include "tools/moire/verify/npy.h"

enum { DRAWS = 4 };

static void write_file(const char *path, const uint8_t *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n) printf("cannot write %s\n", path);
    if (f) fclose(f);
}

/* The model as it is and its smallest part, with the inputs of that; one line says how to repeat it. */
static void write_down(struct dt_net *net, const struct dt_case *c, struct dt_result *r) {
    char path[700], input[720];
    struct dt_case small;
    moire_error err;
    size_t n;
    snprintf(path, sizeof path, "%s/failures/%llu-whole.onnx", net->folder, (unsigned long long)c->seed);
    write_file(path, c->bytes, c->n);
    const uint8_t *bytes = dt_shrink(net, c, r, &n);
    snprintf(path, sizeof path, "%s/failures/%llu.onnx", net->folder, (unsigned long long)c->seed);
    write_file(path, bytes, n);
    if (!dt_case_open(net->env, bytes, n, c->seed, NULL, &small, &err)) {
        for (int i = 0; i < small.n_in; i++) {
            snprintf(input, sizeof input, "%s/failures/%llu.%d.npy", net->folder, (unsigned long long)c->seed,
                     i);
            mo_npy_write(net->env, input, &small.in[i], &err);
        }
        printf("  smallest, %d nodes: %s\n", small.graph->n_nodes, r->what);
        dt_case_close(&small);
    }
    printf("  repeat it: %s/differential --seed %llu --model %s\n", net->folder, (unsigned long long)c->seed,
           path);
}

static void try_case(struct dt_net *net, const char *name, const struct dt_case *c, unsigned ways,
                     struct dt_counts *counts) {
    struct dt_result r;
    dt_net_try(net, c, ways, &r);
    if (r.verdict != DT_DIFFERS) {
        counts->passed++;
        return;
    }
    counts->failed++;
    printf("FAILED %s (seed %llu): %s\n", name, (unsigned long long)c->seed, r.what);
    write_down(net, c, &r);
}

void dt_try_seed(struct dt_net *net, uint64_t seed, unsigned ways, struct dt_counts *counts) {
    struct mo_graph *g = dt_make(net->env, seed);
    struct dt_part part = {.g = g, .n_outputs = g->n_outputs, .outputs = g->outputs};
    struct dt_case c;
    moire_error err = {0};
    size_t n;
    if (!g->n_outputs) {
        counts->skipped++;
        mo_graph_destroy(g);
        return;
    }
    const uint8_t *bytes = dt_write_onnx(&part, g->region, &n);
    if (dt_case_open(net->env, bytes, n, seed, NULL, &c, &err)) {
        counts->skipped++;
        char *text = strstr(err.message, "): ");
        dt_cover_add(&net->cover, "refused by moire", text ? text + 3 : err.message);
    } else {
        for (int k = 0; k < g->n_nodes; k++)
            dt_cover_add(&net->cover, "operator", g->nodes[k]->op_type);
        net->graphs++;
        try_case(net, "random graph", &c, ways, counts);
        dt_case_close(&c);
    }
    mo_graph_destroy(g);
}

/* Inputs beside the model; their number. */
static int read_inputs(const struct mo_env *env, const char *path, moire_tensor *inputs) {
    char name[800];
    moire_error err;
    int n = 0, stem = (int)(strlen(path) - strlen(".onnx"));
    snprintf(name, sizeof name, "%.*s.npy", stem, path);
    if (!mo_npy_read(env, name, &inputs[0], &err)) return 1;
    for (; n < DT_PORTS; n++) {
        snprintf(name, sizeof name, "%.*s.%d.npy", stem, path, n);
        if (mo_npy_read(env, name, &inputs[n], &err)) break;
    }
    return n;
}

static void try_bytes(struct dt_net *net, const char *path, const uint8_t *bytes, size_t n, uint64_t seed,
                      const moire_tensor *inputs, struct dt_counts *counts) {
    struct dt_case c;
    moire_error err = {0};
    if (dt_case_open(net->env, bytes, n, seed, inputs, &c, &err)) {
        counts->skipped++;
        printf("skipped %s: %s\n", path, err.message);
        return;
    }
    try_case(net, path, &c, DT_ALL, counts);
    dt_case_close(&c);
}

void dt_try_file(struct dt_net *net, const char *path, struct dt_counts *counts) {
    uint8_t *bytes = NULL;
    moire_tensor inputs[DT_PORTS] = {{0}};
    size_t n;
    FILE *f = fopen(path, "rb");
    if (f && !fseek(f, 0, SEEK_END) && (n = (size_t)ftell(f)) && (bytes = malloc(n))) {
        rewind(f);
        if (fread(bytes, 1, n, f) != n) n = 0;
        int given = read_inputs(net->env, path, inputs);
        if (given) try_bytes(net, path, bytes, n, 1, inputs, counts);
        for (uint64_t seed = 1; seed <= DRAWS; seed++)
            try_bytes(net, path, bytes, n, seed, NULL, counts);
        for (int i = 0; i < DT_PORTS; i++)
            mo_free(net->env, inputs[i].data);
    } else {
        counts->failed++;
        printf("FAILED %s: cannot be read\n", path);
    }
    free(bytes);
    if (f) fclose(f);
}

static int is_model(const struct dirent *e) {
    const char *dot = strrchr(e->d_name, '.');
    return dot && !strcmp(dot, ".onnx");
}

void dt_try_folder(struct dt_net *net, const char *folder, struct dt_counts *counts) {
    struct dirent **names;
    char path[800];
    int n = scandir(folder, &names, is_model, alphasort);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%.255s", folder, names[i]->d_name);
        dt_try_file(net, path, counts);
        free(names[i]);
    }
    if (n >= 0) free(names);
}
