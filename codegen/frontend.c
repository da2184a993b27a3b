/* SPDX-License-Identifier: Apache-2.0
 * frontend.c - ties the frontend together: read, check, unpack, import, bind, infer, fold, passes.
 *
 * Messages are unpacked into the graph's region, through an allocator that packs small pieces and refuses to
 * hand out more than a bound that follows from the file's size: a hostile file cannot ask for more. */
#include "codegen/frontend.h"

#include <string.h>
#include "codegen/bodies.h"
#include "codegen/imported.h"
#include "codegen/passes/passes.h"
#include "codegen/prepare.h"
#include "runtime/ops/op.h"
#include "runtime/ops/moire/qconv.h"
#include "variants/matrix/matrix.h"

enum { SMALL = 512, POOL = 32 * 1024, FLOOR_BYTES = 64 << 20, FACTOR = 16 };

/* protobuf-c's allocator: pieces up to SMALL bytes come from pools, 16-byte aligned; nothing is given back
 * before the region is. */
struct unpacker {
    struct mo_region *region;
    char *pool;
    size_t pool_bytes, pool_left, budget;
    bool exhausted, no_memory;
};

static void *unpack_alloc(void *self, size_t size) {
    struct unpacker *u = self;
    if (size > u->budget) {
        u->exhausted = true;
        return NULL;
    }
    u->budget -= size;
    if (size > SMALL) {
        void *own = mo_region_alloc(u->region, size);
        u->no_memory = u->no_memory || !own;
        return own;
    }
    size = (size + 15) / 16 * 16;
    if (u->pool_left < size) {
        u->pool = mo_region_alloc(u->region, u->pool_bytes);
        u->pool_left = u->pool ? u->pool_bytes : 0;
        u->no_memory = u->no_memory || !u->pool;
        if (!u->pool) return NULL;
    }
    void *p = u->pool;
    u->pool += size;
    u->pool_left -= size;
    return p;
}

static void unpack_free(void *self, void *p) {
    (void)self;
    (void)p;
}

static int unpack(const struct mo_env *env, struct mo_region *region, const ProtobufCMessageDescriptor *type,
                  const void *bytes, size_t n, ProtobufCMessage **out, moire_error *err) {
    int rc = mo_wire_check(&env->limits, type, bytes, n, err);
    if (rc) return rc;
    struct unpacker u = {
        .region = region, .pool_bytes = n < SMALL ? SMALL : POOL, .budget = FLOOR_BYTES + FACTOR * n};
    ProtobufCAllocator allocator = {.alloc = unpack_alloc, .free = unpack_free, .allocator_data = &u};
    *out = protobuf_c_message_unpack(type, &allocator, n, bytes);
    if (*out) return MOIRE_OK;
    if (u.exhausted)
        return mo_fail(err, MOIRE_ELIMIT, "unpacking the model would take more than %d times its size",
                       FACTOR);
    if (u.no_memory) return mo_fail(err, MOIRE_ENOMEM, "out of memory unpacking the model");
    return mo_fail(err, MOIRE_EFORMAT, "malformed ONNX data; is it an ONNX model?");
}

int mo_unpack_model(const struct mo_env *env, struct mo_region *region, const void *bytes, size_t n,
                    Onnx__ModelProto **model, moire_error *err) {
    if (!n) return mo_fail(err, MOIRE_EFORMAT, "the file is empty");
    ProtobufCMessage *m = NULL;
    int rc = unpack(env, region, &onnx__model_proto__descriptor, bytes, n, &m, err);
    *model = (Onnx__ModelProto *)m;
    return rc;
}

int mo_unpack_attribute(const struct mo_env *env, struct mo_region *region, const void *bytes, size_t n,
                        Onnx__AttributeProto **attribute, moire_error *err) {
    ProtobufCMessage *m = NULL;
    int rc = unpack(env, region, &onnx__attribute_proto__descriptor, bytes, n, &m, err);
    *attribute = (Onnx__AttributeProto *)m;
    return rc;
}

static int import_bound(const struct mo_env *env, struct mo_graph *g, struct mo_region *tmp,
                        const Onnx__ModelProto *model, const char *folder,
                        const struct mo_frontend_options *options, moire_error *err) {
    struct mo_import im = {.env = env,
                           .graph = g,
                           .tmp = tmp,
                           .model = model,
                           .folder = folder,
                           .bundles = options->bundles,
                           .err = err};
    int rc = mo_import_model(&im);
    if (!rc && options->share) rc = mo_imported_share(options->share, g, im.symbols, err);
    if (!rc && !options->only_import) rc = mo_bind_shapes(g, im.symbols, options, err);
    return rc;
}

/* Passes move operands about: every layer must still have those that its operator requires. */
static int check_operands(const struct mo_graph *g, moire_error *err) {
    char problem[200];
    for (int i = 0; i < g->n_nodes; i++) {
        const struct mo_node *node = g->nodes[i];
        if (node->dead || !node->op || mo_op_has_operands(node, problem, sizeof problem)) continue;
        return mo_fail(err, MOIRE_EINTERNAL, "node '%.100s' (%.60s) %s", node->name, node->op_type, problem);
    }
    return MOIRE_OK;
}

const struct mo_matrix_unit *mo_halves_unit(const struct mo_frontend_options *o, const struct mo_graph *g) {
    const struct mo_matrix_unit *unit =
        o->any_unit ? &mo_matrix_model : mo_matrix_of(mo_isa_detect(), MO_MATRIX_HALVES);
    const bool own = o->precision == MOIRE_PRECISION_AUTO && g->n_halves && unit && !unit->vectors;
    return !g->exact && (own || o->precision == MOIRE_PRECISION_BF16) ? unit : NULL;
}

/* Who asks for float32 gets the arithmetic of vectors. */
static enum mo_terms terms_of(const struct mo_frontend_options *o, const struct mo_graph *g) {
    if (o->precision != MOIRE_PRECISION_AUTO || g->exact) return MO_TERMS_NEVER;
    if (o->any_unit) return MO_TERMS_ALWAYS;
    return mo_matrix_of(mo_isa_detect(), MO_MATRIX_FLOATS) ? MO_TERMS_FASTER : MO_TERMS_NEVER;
}

/* Constants that the model itself holds as float16 lose nothing. */
enum mo_float16 mo_float16_of(enum moire_precision wanted, const struct mo_graph *g) {
    if (!mo_isa_covers(mo_isa_detect(), MO_ISA_AVX2)) return MO_FLOAT16_NONE;
    if (wanted == MOIRE_PRECISION_FP16 && !g->exact) return MO_FLOAT16_ROUNDED;
    return wanted == MOIRE_PRECISION_AUTO && g->n_halves && !g->halves ? MO_FLOAT16_EXACT : MO_FLOAT16_NONE;
}

/* Before passes make other layers of them. */
static bool has_conversions(const struct mo_graph *g) {
    static const char *const ops[] = {"QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv",
                                      "QLinearMatMul",  "ConvInteger",           "MatMulInteger"};
    for (int i = 0; i < g->n_nodes; i++)
        for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
            if (!strcmp(g->nodes[i]->op_type, ops[k])) return true;
    return false;
}

/* What becomes known when bodies are part of the graph may make others of them known. */
static int inline_bodies(struct mo_graph *g, moire_error *err) {
    enum { TURNS = 4 };
    bool any = true;
    int rc = MOIRE_OK;
    for (int turn = 0; any && turn < TURNS && !rc; turn++) {
        any = false;
        rc = mo_inline_bodies(g, &any, err);
        if (any && !rc) rc = mo_infer_and_fold(g, err);
    }
    g->converts = g->converts || has_conversions(g);
    return rc;
}

int mo_prepare(struct mo_graph *g, const struct mo_frontend_options *options, moire_error *err) {
    const enum moire_precision wanted = options->precision;
    const bool bare = options->no_passes || options->no_layout;
    bool small = wanted == MOIRE_PRECISION_INT8 || (wanted != MOIRE_PRECISION_FP32 && mo_isa_has_dot());
    g->converts = has_conversions(g);
    g->keeps_small = small && !bare;
    g->multiplies_tiles =
        g->keeps_small && (options->any_unit || mo_matrix_of(mo_isa_detect(), MO_MATRIX_BYTES));
    int rc = mo_widen_halves(g, err);
    const struct mo_matrix_unit *unit = bare ? NULL : mo_halves_unit(options, g);
    g->halves = unit;
    g->halves_by_vectors = unit && unit->vectors;
    g->terms = bare || unit ? MO_TERMS_NEVER : terms_of(options, g);
    g->float16 = bare ? MO_FLOAT16_NONE : mo_float16_of(wanted, g);
    if (wanted == MOIRE_PRECISION_FP16 && !bare && !g->float16)
        mo_log(g->env, MOIRE_LOG_WARN, "%.150s: weights stay float32: %s", g->name,
               g->exact ? "the model is loaded as exact" : "this processor does not convert float16");
    if (wanted == MOIRE_PRECISION_BF16 && !bare && !g->halves)
        mo_log(g->env, MOIRE_LOG_WARN, "%.150s: layers compute in float32: %s", g->name,
               g->exact ? "the model is loaded as exact" : "this processor has no fast products of bfloat16");
    if (!rc) rc = mo_infer_and_fold(g, err);
    if (!rc && !options->no_passes) rc = inline_bodies(g, err);
    if (!rc && !options->no_passes) rc = mo_run_passes(g, options, err);
    if (!rc && !options->no_passes) rc = mo_prepare_bodies(g, options, err);
    if (!rc) rc = mo_graph_check(g, err);
    return rc ? rc : check_operands(g, err);
}

static const char *const precisions[] = {[MOIRE_PRECISION_AUTO] = "auto",
                                         [MOIRE_PRECISION_FP32] = "fp32",
                                         [MOIRE_PRECISION_INT8] = "int8",
                                         [MOIRE_PRECISION_BF16] = "bf16",
                                         [MOIRE_PRECISION_FP16] = "fp16"};

enum moire_precision mo_precision_of(const char *name) {
    for (size_t i = 0; name && i < sizeof precisions / sizeof *precisions; i++)
        if (!strcmp(name, precisions[i])) return (enum moire_precision)i;
    return MOIRE_PRECISION_AUTO;
}

const char *mo_precision_name(enum moire_precision precision) {
    return precisions[precision];
}

const char *mo_precision_used(const struct mo_graph *g) {
    for (int i = 0; i < g->n_nodes; i++)
        if (mo_is_qconv(g->nodes[i])) return "int8";
    if (g->float16 == MO_FLOAT16_ROUNDED) return "fp16";
    return g->halves ? "bf16" : "fp32";
}

static int finish(const struct mo_env *env, struct mo_graph *g, const Onnx__ModelProto *model,
                  const char *folder, const struct mo_frontend_options *options, moire_error *err) {
    struct mo_region *tmp = mo_region_create(env);
    if (!tmp) return mo_fail(err, MOIRE_ENOMEM, "out of memory importing the model");
    int rc = import_bound(env, g, tmp, model, folder, options, err);
    mo_region_destroy(tmp);
    return rc || options->only_import ? rc : mo_prepare(g, options, err);
}

/* `owned`: bytes that are given back as soon as they are unpacked, so that a model is in memory twice at
 * most; NULL when the caller keeps them. */
static int parse(const struct mo_env *env, const void *bytes, size_t n, uint8_t *owned, const char *folder,
                 const struct mo_frontend_options *options, struct mo_graph **out, moire_error *err) {
    static const struct mo_frontend_options none;
    moire_error local = {0};
    if (!err) err = &local;
    err->code = 0;
    *out = NULL;
    struct mo_graph *g = mo_graph_create(env);
    Onnx__ModelProto *model = NULL;
    int rc = g ? mo_unpack_model(env, g->region, bytes, n, &model, err)
               : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    mo_free(env, owned);
    if (!options) options = &none;
    if (g) g->exact = options->exact;
    if (!rc) rc = finish(env, g, model, folder, options, err);
    if (rc)
        mo_graph_destroy(g);
    else
        *out = g;
    return rc;
}

int mo_frontend_parse(const struct mo_env *env, const void *bytes, size_t n, const char *folder,
                      const struct mo_frontend_options *options, struct mo_graph **out, moire_error *err) {
    return parse(env, bytes, n, NULL, folder, options, out, err);
}

/* The folder part of a path, "." when it has none; freed with mo_free(). */
static char *folder_of(const struct mo_env *env, const char *path) {
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 1;
    if (slash == path) n = 1;
    char *folder = mo_alloc(env, n + 1);
    if (folder) memcpy(folder, slash ? path : ".", n);
    return folder;
}

int mo_frontend_load(const struct mo_env *env, const char *path, const struct mo_frontend_options *options,
                     struct mo_graph **out, moire_error *err) {
    uint8_t *bytes;
    size_t n;
    *out = NULL;
    int rc = mo_read_file(env, path, &bytes, &n, err);
    if (rc) return rc;
    char *folder = folder_of(env, path);
    if (!folder) {
        mo_free(env, bytes);
        return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    }
    rc = parse(env, bytes, n, bytes, folder, options, out, err);
    mo_free(env, folder);
    return rc ? mo_fail_context(err, rc, "%.150s", path) : MOIRE_OK;
}
