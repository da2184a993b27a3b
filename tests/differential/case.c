/* SPDX-License-Identifier: Apache-2.0
 * case.c - expected values, their bounds, and the comparison; see case.h. */
#include "tests/differential/case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/frontend.h"
#include "runtime/ops/interpret.h"
#include "runtime/ops/util.h"

enum { RUNS = 3 };
static const double UNITS = 16;       /* error of one operator in float32 and float64 */
static const double STEP_UNITS = 256; /* of the operand of what rounds to steps */
static const double HALF_UNITS = 3;   /* in half precision, where sums are done in float32 */
static const double OF_SPREAD = 6, OF_TYPICAL = 6, OF_MIXED = 60, OF_VALUE = 4;

static double unit_of(moire_dtype type) {
    return type == MOIRE_BF16 ? 0x1p-8 : type == MOIRE_F16 ? 0x1p-11 : type == MOIRE_F64 ? 0x1p-53 : 0x1p-24;
}

static double error_of(moire_dtype type) {
    return unit_of(type) * (type == MOIRE_BF16 || type == MOIRE_F16 ? HALF_UNITS : UNITS);
}

/* How an operator rounds: not at all, each value by itself, as a sum of products, or to within an error of
 * its own whatever the value: functions that kernels approximate (variants/simd/math.h), or whose constants
 * ONNX gives in float32. */
enum rounding { EXACT, VALUES, SUMS, BOUNDED, STEPS };
static const char *const exact[] = {"Identity",
                                    "Reshape",
                                    "Flatten",
                                    "Squeeze",
                                    "Unsqueeze",
                                    "Transpose",
                                    "Concat",
                                    "Split",
                                    "Slice",
                                    "Gather",
                                    "Expand",
                                    "Tile",
                                    "Pad",
                                    "Relu",
                                    "MaxPool",
                                    "Max",
                                    "Min",
                                    "Where",
                                    "DepthToSpace",
                                    "SpaceToDepth",
                                    "TopK",
                                    "Dropout",
                                    "GatherElements",
                                    "ScatterND",
                                    "ScatterElements",
                                    "Neg",
                                    "Abs",
                                    "Clip",
                                    "ReduceMax",
                                    "ReduceMin",
                                    "GlobalMaxPool",
                                    "ThresholdedRelu",
                                    NULL};
static const char *const sums[] = {"Conv",
                                   "ConvTranspose",
                                   "MatMul",
                                   "Gemm",
                                   "ReduceSum",
                                   "ReduceMean",
                                   "AveragePool",
                                   "GlobalAveragePool",
                                   "CumSum",
                                   "InstanceNormalization",
                                   "LayerNormalization",
                                   "ReduceLogSumExp",
                                   "LogSoftmax",
                                   "BatchNormalization",
                                   "Sum",
                                   "Mean",
                                   "Add",
                                   "Sub",
                                   "Resize",
                                   "Upsample",
                                   NULL};
/* To a whole number of steps: an error of the operand counts where it carries that past the middle of two. */
static const char *const steps[] = {"QuantizeLinear", "DynamicQuantizeLinear", NULL};
static const char *const bounded[] = {"HardSwish", "Erf",  "Tanh", "Sigmoid", "Gelu", "Mish", "Softplus",
                                      "Elu",       "Selu", "Celu", "Sin",     "Cos",  NULL};

static bool is_among(const char *op, const char *const *list) {
    while (*list && strcmp(op, *list))
        list++;
    return *list;
}

static enum rounding rounding_of(const char *op) {
    if (is_among(op, exact)) return EXACT;
    if (is_among(op, bounded)) return BOUNDED;
    if (is_among(op, steps)) return STEPS;
    return is_among(op, sums) ? SUMS : VALUES;
}

struct noise {
    struct dt_random random;
    int way;           /* 1, -1: all errors have this sign and cannot cancel by chance; 0: each its own */
    double floor;      /* error of every float, whatever its type */
    double peer_floor; /* of functions that a peer may write out in float32 constants */
};

static double typical(const struct mo_value *v, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = mo_load(v, i);
        if (isfinite(x)) sum += x * x;
    }
    return n ? sqrt(sum / (double)n) : 0;
}

/* x with an error relative to |x| + level. */
static double off(struct noise *noise, double x, double error, double level) {
    uint64_t bits = dt_next(&noise->random);
    double size = (0.5 + (double)(bits >> 40) * 0x1p-25) * error * (fabs(x) + level);
    return noise->way > 0 || (noise->way == 0 && bits & 1) ? x + size : x - size;
}

static void shake_by(struct noise *noise, const struct mo_value *from, const struct mo_value *to,
                     double error, double level) {
    for (int64_t i = 0, n = mo_shape_count(&from->shape); i < n; i++)
        mo_store(to, i, off(noise, mo_load(from, i), error, level));
}

static void shake(struct noise *noise, const struct mo_value *from, const struct mo_value *to, double level) {
    shake_by(noise, from, to,
             fmax(error_of(from->dtype), fmax(noise->floor, level > 0 ? noise->peer_floor : 0)), level);
}

/* Its further operands say how large the output is. */
static bool is_size(const char *op) {
    return !strcmp(op, "Resize") || !strcmp(op, "Upsample");
}

/* A sum again, of operands with errors: what cancels then is as wrong as it can be. */
static int sum_again(struct noise *noise, const struct mo_op_ctx *op) {
    struct mo_value in[32] = {{0}};
    struct mo_op_ctx again = *op;
    int rc = op->n_in <= 32 ? MOIRE_OK : MOIRE_ELIMIT;
    again.in = in;
    for (int i = 0; !rc && i < op->n_in; i++) {
        in[i] = op->in[i];
        if (!mo_type_in(in[i].dtype, MO_FLOATS) || (i && is_size(op->node->op_type))) continue;
        in[i].data = mo_alloc(op->env, (size_t)mo_count(&in[i]) * mo_dtype_bytes(in[i].dtype) + 1);
        if (!in[i].data) abort();
        shake(noise, &op->in[i], &in[i], 0);
    }
    if (!rc) rc = op->node->op->run(&again);
    for (int i = 0; i < op->n_in && i < 32; i++)
        if (in[i].data != op->in[i].data) mo_free(op->env, in[i].data);
    return rc;
}

/* Again, of a value with more of an error than sums in front can have: in the runs that go one way everything
 * near a middle takes the step, whatever the errors there. */
static int steps_again(struct noise *noise, const struct mo_op_ctx *op) {
    struct mo_value in[32] = {{0}};
    struct mo_op_ctx again = *op;
    const int64_t n = mo_count(&op->in[0]);
    if (op->n_in > 32 || op->in[0].dtype != MOIRE_F32) return MOIRE_OK;
    memcpy(in, op->in, (size_t)op->n_in * sizeof *in);
    in[0].data = mo_alloc(op->env, (size_t)n * sizeof(float) + 1);
    if (!in[0].data) abort();
    shake_by(noise, &op->in[0], &in[0], STEP_UNITS * unit_of(MOIRE_F32), typical(&op->in[0], n));
    again.in = in;
    const int rc = op->node->op->run(&again);
    mo_free(op->env, in[0].data);
    return rc;
}

static int disturb(void *ctx, const struct mo_op_ctx *op) {
    struct noise *noise = ctx;
    enum rounding how = rounding_of(op->node->op_type);
    if (how == EXACT && noise->floor == 0) return MOIRE_OK;
    int rc = how == SUMS ? sum_again(noise, op) : how == STEPS ? steps_again(noise, op) : MOIRE_OK;
    for (int k = 0; !rc && k < op->n_out; k++)
        if (op->out[k].data && mo_type_in(op->out[k].dtype, MO_FLOATS))
            shake(noise, &op->out[k], &op->out[k], how == BOUNDED ? 1 : 0);
    return rc;
}

static void *array(struct dt_case *c, size_t n, size_t size) {
    void *p = mo_region_array(c->graph->region, n + 1, size);
    if (!p) abort();
    return p;
}

static moire_tensor as_tensor(const struct mo_value *v) {
    moire_tensor t = {.dtype = v->dtype, .rank = v->shape.rank, .data = v->data};
    memcpy(t.shape, v->shape.d, sizeof t.shape);
    t.bytes = (size_t)mo_shape_count(&v->shape) * mo_dtype_bytes(v->dtype);
    return t;
}

static struct mo_value as_value(const moire_tensor *t) {
    struct mo_value v = {.dtype = t->dtype, .shape = {.rank = t->rank}, .data = t->data};
    memcpy(v.shape.d, t->shape, sizeof v.shape.d);
    return v;
}

/* Which tensors come from an operator that rounds: nodes are in topological order. */
static bool *rounded_tensors(struct dt_case *c) {
    const struct mo_graph *g = c->graph;
    bool *rounded = array(c, (size_t)g->n_tensors, sizeof *rounded);
    for (int i = 0; i < g->n_nodes; i++) {
        const struct mo_node *node = g->nodes[i];
        bool any = rounding_of(node->op_type) != EXACT;
        for (int k = 0; k < node->n_in; k++)
            any = any || (node->in[k] >= 0 && rounded[node->in[k]]);
        for (int k = 0; k < node->n_out; k++)
            if (node->out[k] >= 0) rounded[node->out[k]] = any;
    }
    return rounded;
}

static int expect(struct dt_case *c, moire_error *err) {
    struct mo_value values[DT_PORTS];
    int rc = mo_interpret(c->graph, c->in, c->n_in, values, err);
    if (rc) return rc;
    const bool *rounded = rounded_tensors(c);
    for (int i = 0; i < c->n_out; i++) {
        struct dt_output *o = &c->out[i];
        o->want = as_tensor(&values[i]);
        o->rounded = rounded[c->graph->outputs[i]];
        o->want.data = array(c, o->want.bytes, 1);
        if (o->want.bytes) memcpy(o->want.data, values[i].data, o->want.bytes);
        size_t count = (size_t)mo_shape_count(&values[i].shape);
        o->spread = array(c, count, sizeof *o->spread);
        o->coarse = array(c, count, sizeof *o->coarse);
    }
    mo_interpret_free(c->env, values, c->n_out);
    return MOIRE_OK;
}

/* Widens the bounds by one disturbed run. */
static int measure(struct dt_case *c, struct noise *noise, bool coarse, moire_error *err) {
    struct mo_value values[DT_PORTS];
    struct mo_interpret_watch watch = {disturb, noise};
    int rc = mo_interpret_watched(c->graph, c->in, c->n_in, &watch, values, err);
    if (rc) return rc;
    for (int i = 0; i < c->n_out; i++) {
        struct dt_output *o = &c->out[i];
        struct mo_value want = as_value(&o->want);
        double *spread = coarse ? o->coarse : o->spread, sum = 0;
        int64_t n = mo_shape_count(&want.shape);
        for (int64_t k = 0; k < n && mo_shape_equal(&want.shape, &values[i].shape); k++) {
            double d = fabs(mo_load(&values[i], k) - mo_load(&want, k));
            spread[k] = isfinite(d) ? fmax(d, spread[k]) : INFINITY;
            if (isfinite(d)) sum += d * d;
        }
        double level = n ? sqrt(sum / (double)n) : 0;
        if (!coarse) o->typical = fmax(o->typical, level);
        if (coarse) o->typical_coarse = fmax(o->typical_coarse, level);
    }
    mo_interpret_free(c->env, values, c->n_out);
    return MOIRE_OK;
}

static int bound(struct dt_case *c, moire_error *err) {
    double coarsest = 0;
    for (int i = 0; i < c->graph->n_tensors; i++) {
        const struct mo_tensor *t = c->graph->tensors[i];
        if (mo_type_in(t->dtype, MO_FLOATS)) coarsest = fmax(coarsest, error_of(t->dtype));
    }
    c->halves = coarsest > error_of(MOIRE_F32);
    int rc = MOIRE_OK;
    for (int run = 0; run < RUNS && !rc; run++) {
        int way = run == 0 ? 1 : run == 1 ? -1 : 0;
        struct noise fine = {dt_random_of(c->seed, 100 + (uint64_t)run), way, 0, 0};
        struct noise coarse = {dt_random_of(c->seed, 200 + (uint64_t)run), way, coarsest,
                               error_of(MOIRE_F32)};
        rc = measure(c, &fine, false, err);
        if (!rc) rc = measure(c, &coarse, true, err);
    }
    return rc;
}

int dt_case_open(const struct mo_env *env, const uint8_t *bytes, size_t n, uint64_t seed,
                 const moire_tensor *inputs, struct dt_case *c, moire_error *err) {
    struct mo_frontend_options options = {.no_passes = true};
    *c = (struct dt_case){.env = env, .seed = seed, .bytes = bytes, .n = n};
    int rc = mo_frontend_parse(env, bytes, n, NULL, &options, &c->graph, err);
    if (rc) return rc;
    c->n_in = c->graph->n_inputs;
    c->n_out = c->graph->n_outputs;
    if (c->n_in > DT_PORTS || c->n_out > DT_PORTS) rc = mo_fail(err, MOIRE_ELIMIT, "too many ports");
    if (!rc && !inputs) dt_make_inputs(c->graph, seed, c->in);
    if (!rc && inputs) memcpy(c->in, inputs, (size_t)c->n_in * sizeof *inputs);
    if (!rc) rc = expect(c, err);
    if (!rc) rc = bound(c, err);
    if (rc) dt_case_close(c);
    return rc;
}

void dt_case_close(struct dt_case *c) {
    if (c->graph) mo_graph_destroy(c->graph);
    c->graph = NULL;
}

static double allowed(const struct dt_output *o, int64_t i, double want, enum dt_strictness how) {
    double spread = how == DT_PEER ? o->coarse[i] : o->spread[i];
    double level = how == DT_PEER ? o->typical_coarse : o->typical;
    double unit = unit_of(o->want.dtype);
    if (spread == 0 && level == 0 && !o->rounded) return 0;
    return OF_SPREAD * spread + (how == DT_MIXED ? OF_MIXED : OF_TYPICAL) * level +
           OF_VALUE * unit * fabs(want);
}

bool dt_case_agrees(const struct dt_case *c, int output, const moire_tensor *got, enum dt_strictness how,
                    char *why, size_t n) {
    const struct dt_output *o = &c->out[output];
    struct mo_value w = as_value(&o->want), g = as_value(got);
    char want_shape[120], got_shape[120];
    if (w.dtype != g.dtype || !mo_shape_equal(&w.shape, &g.shape)) {
        snprintf(why, n, "output %d is %s%s, not %s%s", output, mo_dtype_name(g.dtype),
                 mo_shape_text(&g.shape, got_shape, sizeof got_shape), mo_dtype_name(w.dtype),
                 mo_shape_text(&w.shape, want_shape, sizeof want_shape));
        return false;
    }
    bool floats = mo_type_in(w.dtype, MO_FLOATS);
    int64_t count = mo_shape_count(&w.shape), bad = 0, first = 0;
    double worst = 0;
    for (int64_t i = 0; i < count; i++) {
        double a = mo_load(&w, i), b = mo_load(&g, i), most = floats ? allowed(o, i, a, how) : o->spread[i];
        if (!floats && mo_load_int(&w, i) == mo_load_int(&g, i)) continue;
        if (isinf(most) || a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= most) continue;
        if (!bad++) first = i;
        worst = fmax(worst, fabs(a - b));
    }
    if (!bad) return true;
    double level = typical(&w, count);
    snprintf(why, n,
             "output %d (%s): %lld of %lld wrong, first [%lld] is %.9g, not %.9g (+-%.2g); most %.3g of the "
             "typical value",
             output, mo_shape_text(&w.shape, want_shape, sizeof want_shape), (long long)bad, (long long)count,
             (long long)first, mo_load(&g, first), mo_load(&w, first),
             floats ? allowed(o, first, mo_load(&w, first), how) : 0.0, level > 0 ? worst / level : worst);
    return false;
}
