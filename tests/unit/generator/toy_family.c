/* SPDX-License-Identifier: Apache-2.0
 * toy_family.c - the toy kernel family; see toy_family.h. */
#define _GNU_SOURCE
#include "tests/unit/generator/toy_family.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/ops/op.h"

enum { CHANNELS = 4, SIDE = 6 };

static bool takes(const struct mo_problem *p) {
    return p->in_layout == MO_PLAIN && p->kh == 3;
}

static int list(const int *modes, int n, struct mo_point *points, int cap) {
    for (int i = 0; i < n && i < cap; i++)
        points[i] = (struct mo_point){.knob = {modes[i]}, .cost_ns = 100 + i};
    return n < cap ? n : cap;
}

static int right_points(const struct mo_problem *problem, struct mo_point *points, int cap) {
    (void)problem;
    return list((const int[]){TOY_RIGHT, TOY_UNROLLED}, 2, points, cap);
}

static int bad_points(const struct mo_problem *problem, struct mo_point *points, int cap) {
    (void)problem;
    return list(
        (const int[]){TOY_WRONG, TOY_OVERRUN, TOY_NO_C, TOY_CONSTRUCTOR, TOY_FOREIGN, TOY_ABI, TOY_RIGHT}, 7,
        points, cap);
}

static int deadly_points(const struct mo_problem *problem, struct mo_point *points, int cap) {
    (void)problem;
    return list((const int[]){TOY_CRASH, TOY_HANG, TOY_RIGHT, TOY_CRASH}, 4, points, cap);
}

static const char *const head =
    "struct mo_kargs { const void *in[16]; void *out[4]; long long in_image[16], out_image[4];\n"
    "  const void *weights; const float *bias; const void *residual; long long residual_image;\n"
    "  const void *params; };\n"
    "struct mo_variant { int abi, packing; long long units, scratch, parallelism, block, l3, flops, "
    "mixes;\n"
    "  void (*run)(const struct mo_kargs *, long long, long long, void *); const char *name; };\n";

static const char *extra(int mode) {
    switch (mode) {
    case TOY_NO_C:
        return "this is not C\n";
    case TOY_CONSTRUCTOR:
        return "__attribute__((constructor)) static void boom(void) { __builtin_trap(); }\n";
    case TOY_FOREIGN:
        return "int system(const char *);\nint (*mo_use)(const char *) = system;\n";
    default:
        return "";
    }
}

static int emit(const struct mo_problem *p, const struct mo_point *point, FILE *out, moire_error *err) {
    (void)err;
    int mode = point->knob[0];
    fprintf(out, "%s%s", head, extra(mode));
    fprintf(out, "enum { C = %d, H = %d, W = %d, O = %d, OH = %d, OW = %d, PT = %d, PL = %d };\n", (int)p->c,
            (int)p->h, (int)p->w, (int)p->o, (int)p->oh, (int)p->ow, p->pt, p->pl);
    fprintf(out,
            "static void run(const struct mo_kargs *a, long long begin, long long end, void *scratch) {\n"
            "  const float *w = a->in[1], *bias = a->in[2];\n"
            "  for (long long u = begin; u < end; u++) {\n"
            "    long long n = u / O, o = u %% O;\n"
            "    const float *x = (const float *)((const char *)a->in[0] + n * a->in_image[0]);\n"
            "    float *y = (float *)((char *)a->out[0] + n * a->out_image[0]) + o * OH * OW;\n"
            "    for (int i = 0; i < OH; i++) for (int j = 0; j < OW; j++) {\n"
            "      float s = bias[o];\n"
            "      for (int c = 0; c < C; c++)%s\n"
            "        for (int k = 0; k < 9; k++) {\n"
            "          int r = i + k / 3 - PT, q = j + k %% 3 - PL;\n"
            "          if (r < 0 || r >= H || q < 0 || q >= W) continue;\n"
            "          s += w[(o * C + c) * 9 + k] * x[(c * H + r) * W + q];\n"
            "        }\n"
            "      y[i * OW + j] = %s;\n    }\n",
            mode == TOY_UNROLLED ? "\n_Pragma(\"GCC unroll 9\")" : "",
            mode == TOY_WRONG ? "i == OH - 1 && j == 0 ? s + 1 : s" : "s");
    if (mode == TOY_CRASH) fprintf(out, "    *(volatile int *)8 = 1;\n");
    if (mode == TOY_HANG) fprintf(out, "    for (volatile int stay = 1; stay;) {}\n");
    if (mode == TOY_OVERRUN) fprintf(out, "    if (u == O - 1) y[OH * OW] = 1;\n");
    fprintf(out,
            "  }\n}\n__attribute__((visibility(\"default\"))) const struct mo_variant mo_variant = {%d, 0, "
            "%lld,\n"
            "  0, 0, 0, 0, 0, 0, run, \"toy\"};\n",
            mode == TOY_ABI ? 999 : MO_KERNEL_ABI, (long long)p->n * p->o);
    return MOIRE_OK;
}

static const struct mo_emit_family right = {"toy", {"mode"}, takes, right_points, emit};
static const struct mo_emit_family bad = {"toybad", {"mode"}, takes, bad_points, emit};
static const struct mo_emit_family deadly = {"toydead", {"mode"}, takes, deadly_points, emit};
const struct mo_emit_family *const toy_families[] = {&right, NULL};
const struct mo_emit_family *const toy_bad_families[] = {&bad, NULL};
const struct mo_emit_family *const toy_deadly_families[] = {&deadly, NULL};

bool toy_problem(const struct mo_graph *graph, const struct mo_node *node, enum mo_isa isa,
                 struct mo_problem *out) {
    const struct mo_tensor *x = graph->tensors[node->in[0]], *y = graph->tensors[node->out[0]];
    *out = (struct mo_problem){.isa = isa,
                               .n = x->shape.d[0],
                               .c = x->shape.d[1],
                               .h = x->shape.d[2],
                               .w = x->shape.d[3],
                               .o = y->shape.d[1],
                               .oh = y->shape.d[2],
                               .ow = y->shape.d[3],
                               .kh = 3,
                               .kw = 3,
                               .sh = 1,
                               .sw = 1,
                               .dh = 1,
                               .dw = 1,
                               .pt = 1,
                               .pl = 1,
                               .pb = 1,
                               .pr = 1,
                               .groups = 1,
                               .fuse = node->fuse};
    return mo_layer_signature(graph, node, out->signature, sizeof out->signature);
}

static void add_conv(struct mo_graph *g, int i, const char *name, struct mo_tensor *x, struct mo_tensor *y) {
    struct mo_shape ws = {.rank = 4, .d = {y->shape.d[1], x->shape.d[1], 3, 3}},
                    bs = {.rank = 1, .d = {y->shape.d[1]}};
    struct mo_tensor *w = mo_graph_add_const(g, name, MOIRE_F32, &ws),
                     *b = mo_graph_add_const(g, name, MOIRE_F32, &bs);
    struct mo_node *node = w && b ? mo_graph_add_node(g, name, "Conv", "", 3, 1) : NULL;
    struct mo_attr *pads = node ? mo_node_add_attr(g, node, "pads", MO_ATTR_INTS) : NULL;
    if (!pads) return;
    static const int64_t ones[4] = {1, 1, 1, 1};
    pads->n = 4;
    pads->ints = ones;
    node->op = mo_op_find("Conv", "");
    node->opset = 13;
    node->in[0] = x->id;
    node->in[1] = w->id;
    node->in[2] = b->id;
    node->out[0] = y->id;
    (void)i;
}

struct mo_graph *toy_graph(const struct mo_env *env, int n, const char *name) {
    struct mo_graph *g = mo_graph_create(env);
    if (!g) return NULL;
    struct mo_shape s = {.rank = 4, .d = {1, CHANNELS, SIDE, SIDE}};
    struct mo_tensor *x = mo_graph_add_tensor(g, name, MOIRE_F32, &s);
    for (int i = 0; i < n && x; i++) {
        s.d[1] = CHANNELS + i + 1;
        struct mo_tensor *y = mo_graph_add_tensor(g, name, MOIRE_F32, &s);
        if (y) add_conv(g, i, name, x, y);
        x = y;
    }
    if (!x || g->n_nodes < n || (n && g->nodes[n - 1]->out[0] != x->id)) {
        mo_graph_destroy(g);
        return NULL;
    }
    mo_graph_index(g);
    return g;
}

void toy_signature(int i, char out[256]) {
    snprintf(out, 256, "conv:f32:n1:c%d:h%d:w%d:o%d:k3x3:s1x1:p1,1,1,1:d1x1:g1:none:plain>plain",
             CHANNELS + i, SIDE, SIDE, CHANNELS + i + 1);
}

void toy_folder(char path[64]) {
    snprintf(path, 64, "/tmp/moire-test-XXXXXX");
    if (!mkdtemp(path)) abort();
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st, (void)type, (void)at;
    return remove(path);
}

void toy_remove(const char *path) {
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

int toy_search(const struct mo_env *env, const char *store, int n, const char *name,
               const struct mo_emit_family *const *families, const char *cc, moire_error *err) {
    struct mo_search_options options = {.store = store,
                                        .cc = cc,
                                        .isa = MO_ISA_BASE,
                                        .jobs = 2,
                                        .probation_s = 20,
                                        .families = families,
                                        .problem = toy_problem};
    struct mo_search *search = NULL;
    struct mo_graph *g = toy_graph(env, n, name);
    int rc = g ? mo_search_create(env, &options, &search, err) : mo_fail(err, MOIRE_ENOMEM, "no graph");
    if (!rc) rc = mo_search_add(search, g, err);
    if (g) mo_graph_destroy(g);
    if (!rc) rc = mo_search_run(search, err);
    mo_search_destroy(search);
    return rc;
}
