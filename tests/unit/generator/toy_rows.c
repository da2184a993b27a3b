/* SPDX-License-Identifier: Apache-2.0
 * toy_rows.c - see toy_rows.h.  Weights come packed as MO_PACK_GEMM16; a unit is a row. */
#include "tests/unit/generator/toy_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/family/family.h"
#include "codegen/frontend.h"
#include "codegen/search/cc.h"
#include "codegen/search/writer.h"
#include "runtime/base/file.h"

enum { SCRATCH = 64, CAP = 8192 };

struct shape {
    int images, rows, k, n;
};

static const char *const names[ROWS_MODES] = {"right", "rounded", "dense",   "overrun",
                                              "short", "split",   "scratch", "crash"};

/* What stands before and after a row is computed. */
static const char *const before[ROWS_MODES] = {
    [ROWS_DENSE] = "x = (const float *)a->in[0] + u * K; y = (float *)a->out[0] + u * N;\n",
    [ROWS_SPLIT] = "if (u == begin && begin) { ((float *)scratch)[0] = 0; y = scratch; }\n",
    [ROWS_CRASH] = "if (a->out_image[0] != (long long)ROWS * N * 4) *(volatile int *)8 = 1;\n",
};
static const char *const after[ROWS_MODES] = {
    [ROWS_OVERRUN] = "if (u == IMAGES * ROWS - 1) y[N] = 7;\n",
    [ROWS_SCRATCH] = "((float *)scratch)[16] = 1;\n",
};

static void write_c(char *out, const struct shape *s, enum toy_rows mode) {
    const char *count = mode == ROWS_SHORT ? "N - (u == IMAGES * ROWS - 1)" : "N";
    snprintf(out, CAP,
             "struct mo_kargs { const void *in[16]; void *out[4]; long long in_image[16], out_image[4];\n"
             "  const void *weights; const float *bias; const void *residual; long long residual_image;\n"
             "  const void *params; };\n"
             "struct mo_variant { int abi, packing; long long units, scratch, parallelism, block, l3, flops, "
             "mixes;\n"
             "  void (*run)(const struct mo_kargs *, long long, long long, void *); const char *name; };\n"
             "enum { IMAGES = %d, ROWS = %d, K = %d, N = %d };\n"
             "static void run(const struct mo_kargs *a, long long begin, long long end, void *scratch) {\n"
             "  const float *w = a->weights;\n"
             "  for (long long u = begin; u < end; u++) {\n"
             "    const float *x = (const float *)((const char *)a->in[0] + u / ROWS * a->in_image[0]) + u "
             "%% ROWS * K;\n"
             "    float *y = (float *)((char *)a->out[0] + u / ROWS * a->out_image[0]) + u %% ROWS * N;\n"
             "%s    for (int j = 0; j < %s; j++) {\n"
             "      float s = a->bias[j];\n"
             "      for (int k = %s) s += x[k] * w[(j / 16 * K + k) * 16 + j %% 16];\n"
             "      y[j] = s%s;\n    }\n%s  }\n}\n"
             "__attribute__((visibility(\"default\"))) const struct mo_variant mo_variant = {%d, %d,\n"
             "  IMAGES * ROWS, %d, 0, 0, 0, 0, 0, run, \"toy %s\"};\n",
             s->images, s->rows, s->k, s->n, before[mode] ? before[mode] : "", count,
             mode == ROWS_BACKWARDS ? "K; k-- > 0;" : "0; k < K; k++",
             mode == ROWS_ROUNDED ? " * 1.00001f" : "", after[mode] ? after[mode] : "", MO_KERNEL_ABI,
             MO_PACK_GEMM16, SCRATCH, names[mode]);
}

struct ob *toy_rows_sliced(const char *op, bool both) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "2,8,16");
    ob_random(b, "w", "16,16");
    ob_node(b, op, "x", "a");
    ob_node(b, "Tanh", "x", "t");
    ob_node(b, "MatMul", "a w", "y");
    ob_node(b, "Concat", both ? "t a y" : "t a", "c");
    ob_int(b, "axis", 1);
    ob_output(b, "c");
    if (!both) ob_output(b, "y");
    return b;
}

void toy_rows_write(struct ob *b, const char *path) {
    if (!ob_save(b, path)) abort();
    ob_destroy(b);
}

/* Compiles in the writer's folder; *object is the caller's. */
static int build(const struct mo_env *env, struct mo_writer *w, const char *source, struct mo_cc *cc,
                 char **object, size_t *n, moire_error *err) {
    char stem[4200], path[4300];
    snprintf(stem, sizeof stem, "%s/toy", mo_writer_work(w));
    snprintf(path, sizeof path, "%s.c", stem);
    FILE *f = fopen(path, "w");
    if (!f || fputs(source, f) < 0 || fclose(f)) return mo_fail(err, MOIRE_EIO, "cannot write %.200s", path);
    int rc = mo_cc_find(env, NULL, mo_writer_work(w), cc, err);
    if (!rc) rc = mo_cc_compile(env, cc, mo_isa_detect(), stem, 0, err);
    snprintf(path, sizeof path, "%s.so", stem);
    return rc ? rc : mo_file_read(env, path, 1 << 20, "test", object, n, err);
}

static int add(const struct mo_env *env, struct mo_writer *w, const struct shape *s, enum toy_rows mode,
               const char *signature, char key[MO_SHA256_HEX], moire_error *err) {
    struct mo_store_entry e = {.abi = MO_KERNEL_ABI,
                               .generator = MO_GENERATOR_VERSION,
                               .isa = mo_isa_detect(),
                               .family = "toyrows",
                               .min_ns = 1,
                               .generic_ns = 2,
                               .gflops = 1};
    char source[CAP], *object = NULL;
    size_t n = 0;
    struct mo_cc cc;
    write_c(source, s, mode);
    int rc = build(env, w, source, &cc, &object, &n, err);
    if (!rc) {
        snprintf(e.signature, sizeof e.signature, "%s", signature);
        snprintf(e.knobs, sizeof e.knobs, "mode=%s", names[mode]);
        snprintf(e.compiler, sizeof e.compiler, "%s", cc.id);
        mo_cc_flags(e.isa, e.flags);
        mo_sha256_hex(object, n, e.object);
        e.object_bytes = (int64_t)n;
        e.source_bytes = (int64_t)strlen(source);
        rc = mo_writer_add(w, &e, object, source, key, err);
    }
    mo_free(env, object);
    return rc;
}

static int find_layer(const struct mo_env *env, const char *path, struct shape *s,
                      char signature[MO_STORE_TEXT], moire_error *err) {
    struct mo_frontend_options front = {.exact = false};
    struct mo_graph *g;
    int rc = mo_frontend_load(env, path, &front, &g, err);
    if (rc) return rc;
    rc = mo_fail(err, MOIRE_EINVAL, "no layer with a signature");
    for (int k = 0; rc && k < g->n_nodes; k++) {
        const struct mo_node *node = g->nodes[k];
        if (!mo_layer_signature(g, node, signature, MO_STORE_TEXT)) continue;
        const struct mo_shape *x = &g->tensors[node->in[0]]->shape, *y = &g->tensors[node->out[0]]->shape;
        *s = (struct shape){(int)x->d[0], (int)x->d[1], (int)x->d[2], (int)y->d[2]};
        rc = x->rank == 3 ? MOIRE_OK : mo_fail(err, MOIRE_EINVAL, "not a product of images of rows");
        break;
    }
    mo_graph_destroy(g);
    return rc;
}

static int describe(struct mo_writer *w, const char *signature, char (*key)[MO_SHA256_HEX],
                    const enum toy_rows *mode, int n, moire_error *err) {
    struct mo_store_index x = {.abi = MO_KERNEL_ABI,
                               .generator = MO_GENERATOR_VERSION,
                               .isa = mo_isa_detect(),
                               .family = "toyrows",
                               .tried = 1,
                               .cores = 1024,
                               .flops = 1,
                               .min_ns = 1,
                               .generic_ns = 2};
    struct mo_store_front f = {
        .abi = x.abi, .generator = x.generator, .isa = x.isa, .share_ns = 2, .cores = 1, .n = n};
    memcpy(x.best, key[0], sizeof x.best);
    snprintf(x.signature, sizeof x.signature, "%s", signature);
    snprintf(f.signature, sizeof f.signature, "%s", signature);
    for (int i = 0; i < n; i++) {
        f.point[i] = (struct mo_store_point){.family = "toyrows",
                                             .state = MO_POINT_VERSION,
                                             .packing = MO_PACK_GEMM16,
                                             .ns = {1, 1, 1, 1, 1, 1}};
        memcpy(f.point[i].key, key[i], sizeof f.point[i].key);
        snprintf(f.point[i].knobs, sizeof f.point[i].knobs, "mode=%s", names[mode[i]]);
    }
    int rc = mo_writer_set(w, &x, NULL, 0, err);
    return rc || n < 2 ? rc : mo_writer_front(w, &f, err);
}

int toy_rows_store(const struct mo_env *env, const char *store, const char *path, const enum toy_rows *mode,
                   int n, char signature[MO_STORE_TEXT], moire_error *err) {
    char key[MO_STORE_VERSIONS][MO_SHA256_HEX];
    struct mo_writer *w;
    struct shape s;
    int rc = find_layer(env, path, &s, signature, err);
    if (rc || (rc = mo_writer_open(env, store, &w, err))) return rc;
    for (int i = 0; i < n && !rc; i++)
        rc = add(env, w, &s, mode[i], signature, key[i], err);
    if (!rc) rc = describe(w, signature, key, mode, n, err);
    mo_writer_close(w);
    return rc;
}
