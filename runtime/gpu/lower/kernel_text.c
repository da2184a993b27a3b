/* SPDX-License-Identifier: Apache-2.0
 * kernel_text.c - text of kernels: a growing string, element types, activations, and the prelude of all
 * sources.
 *
 * The text is CUDA C that is C as well, so that a test can compile it for the host: what differs between the
 * two (qualifiers, 16-bit types, barriers) is in moire_device.h, which the device provides. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "runtime/gpu/lower/lower.h"

static bool reserve(struct mo_gpu_text *t, size_t more) {
    if (t->n + more < t->cap) return true;
    size_t cap = (t->cap ? 2 * t->cap : 1024) + more;
    char *at = mo_alloc(t->env, cap);
    if (!at) {
        t->failed = true;
        return false;
    }
    if (t->n) memcpy(at, t->at, t->n + 1);
    mo_free(t->env, t->at);
    t->at = at;
    t->cap = cap;
    return true;
}

void mo_gpu_vprintf(struct mo_gpu_text *t, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (t->failed || n < 0 || !reserve(t, (size_t)n + 1)) return;
    vsnprintf(t->at + t->n, t->cap - t->n, format, args);
    t->n += (size_t)n;
}

void mo_gpu_printf(struct mo_gpu_text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    mo_gpu_vprintf(t, format, args);
    va_end(args);
}

void mo_gpu_text_free(struct mo_gpu_text *t) {
    mo_free(t->env, t->at);
    *t = (struct mo_gpu_text){.env = t->env};
}

/* --- element types -------------------------------------------------------------------------------------- */

static const struct type_row {
    moire_dtype dtype;
    const char *memory, *value, *get, *put; /* get and put: functions, "" = a plain cast */
    bool vectors;
} types[] = {
    {MOIRE_F32, "float", "float", "", "", true},
    {MOIRE_F16, "mo_f16", "float", "mo_of_f16", "mo_to_f16", true},
    {MOIRE_BF16, "mo_bf16", "float", "mo_of_bf16", "mo_to_bf16", true},
    {MOIRE_F64, "double", "double", "", "", false},
    {MOIRE_I64, "long long", "long long", "", "", false},
    {MOIRE_I32, "int", "long long", "", "", false},
    {MOIRE_I16, "short", "long long", "", "", false},
    {MOIRE_I8, "signed char", "long long", "", "", false},
    {MOIRE_U64, "unsigned long long", "unsigned long long", "", "", false},
    {MOIRE_U32, "unsigned", "long long", "", "", false},
    {MOIRE_U16, "unsigned short", "long long", "", "", false},
    {MOIRE_U8, "unsigned char", "long long", "", "", false},
    {MOIRE_BOOL, "unsigned char", "float", "", "0 != ", false},
};

static const struct type_row *row_of(moire_dtype dtype) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].dtype == dtype) return &types[i];
    return NULL;
}

const char *mo_gpu_memory_type(moire_dtype dtype) {
    const struct type_row *row = row_of(dtype);
    return row ? row->memory : NULL;
}

const char *mo_gpu_value_type(moire_dtype dtype) {
    const struct type_row *row = row_of(dtype);
    return row ? row->value : "float";
}

bool mo_gpu_is_float(moire_dtype dtype) {
    return row_of(dtype) && !strcmp(mo_gpu_value_type(dtype), "float");
}

bool mo_gpu_has_vectors(moire_dtype dtype) {
    const struct type_row *row = row_of(dtype);
    return row && row->vectors;
}

void mo_gpu_get(struct mo_gpu_text *t, moire_dtype dtype, const char *at) {
    mo_gpu_printf(t, "%s(%s)", row_of(dtype)->get, at);
}

void mo_gpu_put(struct mo_gpu_text *t, moire_dtype dtype, const char *value) {
    const struct type_row *row = row_of(dtype);
    if (row->put[0] == 'm')
        mo_gpu_printf(t, "%s(%s)", row->put, value);
    else
        mo_gpu_printf(t, "(%s)(%s(%s))", row->memory, row->put, value);
}

void mo_gpu_take(struct mo_gpu_text *t, const char *op, moire_dtype dtype, const char *at) {
    mo_gpu_printf(t, "    r %s ", op);
    mo_gpu_get(t, dtype, at);
    mo_gpu_printf(t, ";\n");
}

/* Hexadecimal, so that no digit is lost. */
void mo_gpu_literal(struct mo_gpu_text *t, float value) {
    if (isnan(value))
        mo_gpu_printf(t, "mo_nan");
    else if (isinf(value))
        mo_gpu_printf(t, value < 0 ? "(-mo_inf)" : "mo_inf");
    else
        mo_gpu_printf(t, value < 0 ? "(%af)" : "%af", (double)value);
}

/* --- activations ---------------------------------------------------------------------------------------- */

void mo_gpu_act_text(struct mo_gpu_text *t, enum mo_act act, float a, float b) {
    static const char *const name[MO_ACT_COUNT] = {
        [MO_ACT_RELU] = "relu",          [MO_ACT_CLIP] = "clip", [MO_ACT_LEAKY] = "leaky",
        [MO_ACT_SIGMOID] = "sigmoid",    [MO_ACT_SILU] = "silu", [MO_ACT_HSIGMOID] = "hsigmoid",
        [MO_ACT_HSWISH] = "hswish",      [MO_ACT_TANH] = "tanh", [MO_ACT_GELU] = "gelu",
        [MO_ACT_GELU_TANH] = "gelu_tanh"};
    if (act == MO_ACT_NONE) return;
    mo_gpu_printf(t, "r = mo_%s(r, ", name[act]);
    mo_gpu_literal(t, a);
    mo_gpu_printf(t, ", ");
    mo_gpu_literal(t, b);
    mo_gpu_printf(t, ");\n");
}

const char *mo_gpu_prelude(void) {
    return "#include \"moire_device.h\"\n"
           "#define MO_VECTORS(T) \\\n"
           "    typedef struct MO_ALIGN(2 * sizeof(T)) { T v[2]; } T##_2; \\\n"
           "    typedef struct MO_ALIGN(4 * sizeof(T)) { T v[4]; } T##_4; \\\n"
           "    typedef struct MO_ALIGN(16) { T v[8]; } T##_8;\n"
           "MO_VECTORS(float)\nMO_VECTORS(mo_f16)\nMO_VECTORS(mo_bf16)\n"
           "MO_DEVICE float mo_relu(float x, float a, float b) { return x < 0 ? 0 : x; }\n"
           "MO_DEVICE float mo_clip(float x, float a, float b) { x = x < a ? a : x; return x > b ? b : x; }\n"
           "MO_DEVICE float mo_leaky(float x, float a, float b) { return x < 0 ? a * x : x; }\n"
           "MO_DEVICE float mo_sigmoid(float x, float a, float b) { return 1 / (1 + expf(-x)); }\n"
           "MO_DEVICE float mo_silu(float x, float a, float b) { return x / (1 + expf(-x)); }\n"
           "MO_DEVICE float mo_hsigmoid(float x, float a, float b) { return mo_clip(a * x + b, 0, 1); }\n"
           "MO_DEVICE float mo_hswish(float x, float a, float b) { return x * mo_clip(a * x + b, 0, 1); }\n"
           "MO_DEVICE float mo_tanh(float x, float a, float b) { return tanhf(x); }\n"
           "MO_DEVICE float mo_gelu(float x, float a, float b) {\n"
           "    return 0.5f * x * (1 + erff(x * 0.70710678f));\n}\n"
           "MO_DEVICE float mo_gelu_tanh(float x, float a, float b) {\n"
           "    return 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));\n}\n"
           "MO_DEVICE float mo_least(float x, float y) { return x < y || x != x ? x : y; }\n"
           "MO_DEVICE float mo_most(float x, float y) { return x > y || x != x ? x : y; }\n"
           "MO_DEVICE float mo_plus(float x, float y) { return x + y; }\n"
           "MO_DEVICE float mo_times(float x, float y) { return x * y; }\n"
           "MO_DEVICE float mo_sign(float x) { return (float)((x > 0) - (x < 0)); }\n"
           "MO_DEVICE float mo_quantized(float x, float scale, float zero, float low, float high) {\n"
           "    x = rintf(x / scale) + zero;\n"
           "    return x != x ? 0 : x < low ? low : x > high ? high : x;\n}\n"
           "/* s holds a value of every thread; afterwards thread i of the first `width` has the result of\n"
           " * all threads i + k width in s[i].  The number of threads is width times a power of two. */\n"
           "#define MO_TOGETHER(name, op) \\\n"
           "    MO_DEVICE float name(float *s, float v, int width, int threads) { \\\n"
           "        int i = (int)threadIdx.x; \\\n"
           "        MO_SYNC(); \\\n"
           "        s[i] = v; \\\n"
           "        MO_SYNC(); \\\n"
           "        for (int half = threads / 2; half >= width; half /= 2) { \\\n"
           "            if (i < half) s[i] = op(s[i], s[i + half]); \\\n"
           "            MO_SYNC(); \\\n"
           "        } \\\n"
           "        return s[i % width]; \\\n"
           "    }\n"
           "MO_TOGETHER(mo_all_sum, mo_plus)\nMO_TOGETHER(mo_all_most, mo_most)\n"
           "MO_TOGETHER(mo_all_least, mo_least)\nMO_TOGETHER(mo_all_product, mo_times)\n";
}
