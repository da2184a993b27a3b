/* SPDX-License-Identifier: Apache-2.0
 * layer_case.c - see layer_case.h. */
#define _POSIX_C_SOURCE 200809L /* strtok_r */
#include "tests/unit/kernels/layer_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256, GAP = 64 };

static float noise(unsigned *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / (float)(1 << 23) - 1.0f;
}

/* --- building ------------------------------------------------------------------------------------------ */

/* A list "a,b,c" into out; how many. */
static int numbers(const char *text, double *out, int cap) {
    int n = 0;
    char *end;
    for (const char *at = text; n < cap; at = end + 1) {
        out[n++] = strtod(at, &end);
        if (*end != ',') break;
    }
    return n;
}

static struct mo_shape parse_shape(const char *text) {
    struct mo_shape s = {.rank = 0};
    char *end = (char *)text;
    while (*text && s.rank < MOIRE_MAX_RANK) {
        s.d[s.rank++] = strtoll(text, &end, 10);
        if (*end != 'x') break;
        text = end + 1;
    }
    return s;
}

/* Tensor id of one input token. */
static int add_input(struct mo_graph *g, const char *token, unsigned *seed) {
    double list[512];
    if (token[0] == '-' && !token[1]) return -1;
    if (token[1] == ':') {
        int n = numbers(token + 2, list, sizeof list / sizeof *list);
        moire_dtype dtype = token[0] == 'i' ? MOIRE_I64 : MOIRE_F32;
        struct mo_tensor *t = mo_graph_add_const(g, token, dtype, &(struct mo_shape){.rank = 1, .d = {n}});
        for (int i = 0; i < n; i++)
            if (dtype == MOIRE_I64)
                ((int64_t *)t->data)[i] = (int64_t)list[i];
            else
                ((float *)t->data)[i] = (float)list[i];
        return t->id;
    }
    if (token[0] == 'b') {
        struct mo_shape s = parse_shape(token + 1);
        struct mo_tensor *t = mo_graph_add_const(g, token, MOIRE_BOOL, &s);
        for (int64_t i = 0; i < mo_shape_count(&s); i++)
            ((uint8_t *)t->data)[i] = noise(seed) < 0;
        return t->id;
    }
    if (token[0] == 'c' || token[0] == 'p') {
        struct mo_shape s = parse_shape(token + 1);
        struct mo_tensor *t = mo_graph_add_const(g, token, MOIRE_F32, &s);
        for (int64_t i = 0; i < mo_shape_count(&s); i++) {
            float v = noise(seed);
            ((float *)t->data)[i] = token[0] == 'p' ? fabsf(v) + 0.1f : v;
        }
        return t->id;
    }
    struct mo_shape s = parse_shape(token);
    struct mo_tensor *t = mo_graph_add_tensor(g, token, MOIRE_F32, &s);
    g->inputs[g->n_inputs++] = t->id;
    t->is_input = true;
    return t->id;
}

static void add_attribute(struct mo_graph *g, struct mo_node *node, char *token) {
    char *colon = strchr(token, ':'), kind = colon[1], *value = colon + 3;
    double list[16];
    *colon = 0;
    if (!strcmp(token, "act")) {
        node->fuse.act = (enum mo_act)strtol(value, NULL, 10);
        node->fuse.a = 0.25f;
        node->fuse.b = 0.5f;
        return;
    }
    if (!strcmp(token, "residual")) {
        node->fuse.residual = (int)strtol(value, NULL, 10);
        return;
    }
    struct mo_attr *a = mo_node_add_attr(g, node, token,
                                         kind == 'i'   ? MO_ATTR_INT
                                         : kind == 'f' ? MO_ATTR_FLOAT
                                         : kind == 's' ? MO_ATTR_STRING
                                                       : MO_ATTR_INTS);
    a->i = strtoll(value, NULL, 10);
    a->f = strtof(value, NULL);
    a->s_len = strlen(value);
    a->s = mo_region_string(g->region, value, a->s_len);
    if (kind != 'v') return;
    int64_t *ints = mo_region_array(g->region, 16, sizeof *ints);
    a->n = numbers(value, list, 16);
    for (int i = 0; i < a->n; i++)
        ints[i] = (int64_t)list[i];
    a->ints = ints;
}

static int add_reorder(struct mo_graph *g, int from, enum mo_layout layout) {
    struct mo_node *node = mo_graph_add_node(g, "reorder", "Reorder", "moire", 1, 1);
    struct mo_tensor *t = mo_graph_add_tensor(g, "reordered", MOIRE_F32, &g->tensors[from]->shape);
    t->layout = layout;
    node->op = mo_op_find("Reorder", "moire");
    node->in[0] = from;
    node->out[0] = t->id;
    return t->id;
}

/* Makes t a slice: it begins behind a gap, and its images have gaps between them. */
static void make_slice(struct mo_graph *g, struct mo_tensor *t) {
    int64_t image = mo_tensor_image_bytes(t), size = (int64_t)mo_dtype_bytes(t->dtype);
    struct mo_shape whole = {.rank = 2, .d = {t->shape.d[0], (image + 5 * GAP) / size}};
    t->alias = mo_graph_add_tensor(g, "around", t->dtype, &whole)->id;
    t->alias_offset = 2 * GAP;
}

static int add_copy(struct mo_graph *g, int from) {
    struct mo_node *node = mo_graph_add_node(g, "copy", "Identity", "", 1, 1);
    int to = mo_graph_add_tensor(g, "copy", g->tensors[from]->dtype, &g->tensors[from]->shape)->id;
    node->op = mo_op_find("Identity", "");
    node->in[0] = from;
    node->out[0] = to;
    return to;
}

static bool may_slice(const struct mo_tensor *t) {
    return !t->data && t->shape.rank > 1 && t->shape.d[0] > 1 && mo_tensor_bytes(t) > 0;
}

static bool infer(struct mo_graph *g, struct mo_node *node, char *why, size_t n) {
    struct mo_value in[16] = {{0}}, out[16] = {{0}};
    moire_error err = {0};
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0) in[i] = mo_tensor_value(g->tensors[node->in[i]]);
    struct mo_op_ctx ctx = {.node = node,
                            .env = g->env,
                            .n_in = node->n_in,
                            .n_out = node->n_out,
                            .in = in,
                            .out = out,
                            .err = &err};
    int rc = mo_op_infer(&ctx);
    snprintf(why, n, "infer: %d %s", rc, err.message);
    for (int i = 0; !rc && i < node->n_out; i++)
        node->out[i] = mo_graph_add_tensor(g, "y", out[i].dtype, &out[i].shape)->id;
    return !rc;
}

/* An input of the layer: in blocks, in a slice, or as it is. */
static int place_input(struct mo_graph *g, const struct layer_case *c, int id, bool want) {
    if (id < 0 || g->tensors[id]->data) return id;
    bool slice = want && may_slice(g->tensors[id]);
    if (c->layout == LAYER_C16 || c->layout == LAYER_LEAVE)
        id = add_reorder(g, id, MO_C16);
    else if (slice)
        id = add_copy(g, id);
    if (slice) make_slice(g, g->tensors[id]);
    return id;
}

/* The tensor outside of the graph for a result of the layer. */
static int place_output(struct mo_graph *g, const struct layer_case *c, int id, bool want) {
    struct mo_tensor *y = g->tensors[id];
    bool slice = want && may_slice(y);
    if (c->layout == LAYER_C16 || c->layout == LAYER_ENTER) y->layout = MO_C16;
    if (slice) make_slice(g, y);
    if (y->layout == MO_C16) return add_reorder(g, id, MO_PLAIN);
    return slice ? add_copy(g, id) : id;
}

struct mo_graph *layer_case_graph(const struct mo_env *env, const struct layer_case *c, unsigned slices,
                                  char *why, size_t n) {
    struct mo_graph *g = mo_graph_create(env);
    char text[4096], *save = NULL;
    int ids[16], n_in = 0, n_out = c->n_out ? c->n_out : 1;
    unsigned seed = 7;
    g->opset = c->opset;
    g->inputs = mo_region_array(g->region, 16, sizeof(int));
    g->outputs = mo_region_array(g->region, 16, sizeof(int));
    snprintf(text, sizeof text, "%s", c->inputs);
    for (char *t = strtok_r(text, " ", &save); t; t = strtok_r(NULL, " ", &save)) {
        int id = add_input(g, t, &seed);
        ids[n_in] = place_input(g, c, id, slices >> n_in & 1);
        n_in++;
    }
    struct mo_node *node = mo_graph_add_node(g, "layer", c->op_type, c->domain, n_in, n_out);
    node->op = mo_op_find(c->op_type, c->domain);
    for (int i = 0; i < n_in; i++)
        node->in[i] = ids[i];
    snprintf(text, sizeof text, "%s", c->attributes);
    for (char *t = strtok_r(text, " ", &save); t; t = strtok_r(NULL, " ", &save))
        add_attribute(g, node, t);
    snprintf(why, n, "no operator");
    if (!node->op || !infer(g, node, why, n)) {
        mo_graph_destroy(g);
        return NULL;
    }
    for (int i = 0; i < n_out; i++) {
        int id = place_output(g, c, node->out[i], slices >> (LAYER_OUTPUT + i) & 1);
        g->tensors[id]->is_output = true;
        g->outputs[g->n_outputs++] = id;
    }
    mo_graph_compact(g);
    return g;
}

/* --- running ------------------------------------------------------------------------------------------- */

struct prepared {
    struct mo_plan *plan;
    struct mo_instance *instance;
    void *scratch;
    bool special; /* inputs hold numbers of every kind */
};

static bool prepare(const struct mo_env *env, const struct layer_case *c, unsigned slices,
                    const struct mo_plan_options *options, struct prepared *p, char *why, size_t n) {
    moire_error err = {0};
    *p = (struct prepared){0};
    struct mo_graph *g = layer_case_graph(env, c, slices, why, n);
    if (!g) return false;
    int rc = mo_plan_build(g, options, &p->plan, &err);
    if (!rc) rc = mo_instance_create(p->plan, &p->instance, &err);
    snprintf(why, n, "plan: %s", err.message);
    if (rc) return false;
    p->scratch = mo_alloc(env, (size_t)p->plan->scratch_bytes + GUARD);
    return p->scratch != NULL;
}

/* NaN everywhere but in the inputs: reading what nobody wrote shows. */
static void poison(struct prepared *p) {
    static const float special[] = {NAN, INFINITY, -INFINITY, 0, -0.0f, 1e-40f, -1e-40f, 1e30f, -1e30f, 200};
    const struct mo_graph *g = p->plan->graph;
    unsigned seed = 3;
    memset(p->instance->arena, 0xff, (size_t)p->plan->arena_bytes);
    memset(p->scratch, 0xff, (size_t)p->plan->scratch_bytes + GUARD);
    for (int i = 0; i < g->n_inputs; i++) {
        float *x = p->instance->value[g->inputs[i]].data;
        for (int64_t k = 0; k < mo_shape_count(&g->tensors[g->inputs[i]]->shape); k++)
            x[k] = noise(&seed) * 2;
        for (int64_t k = i; p->special && k < mo_shape_count(&g->tensors[g->inputs[i]]->shape); k += 5)
            x[k] = special[(k / 5 + 3 * i) % (int64_t)(sizeof special / sizeof *special)];
    }
}

/* Bytes that a tensor of a node may take up in the arena, its images apart. */
static void mark_used(const struct mo_plan *plan, int id, char *used) {
    const struct mo_tensor *t = id < 0 ? NULL : plan->graph->tensors[id];
    if (!t || plan->offset[id] < 0) return;
    int64_t images = t->shape.rank > 0 ? t->shape.d[0] : 1;
    for (int64_t n = 0; n < images; n++)
        memset(used + plan->offset[id] + n * plan->image[id], 1, (size_t)mo_tensor_image_bytes(t));
}

static bool guards_hold(const struct prepared *p) {
    const struct mo_graph *g = p->plan->graph;
    for (int i = 0; i < GUARD; i++)
        if (((unsigned char *)p->scratch)[p->plan->scratch_bytes + i] != 0xff) return false;
    bool whole = true;
    char *used = mo_alloc(p->plan->env, (size_t)p->plan->arena_bytes + 1);
    for (int k = 0; k < g->n_nodes; k++)
        for (int i = 0; i < g->nodes[k]->n_in + g->nodes[k]->n_out; i++)
            mark_used(p->plan,
                      i < g->nodes[k]->n_in ? g->nodes[k]->in[i] : g->nodes[k]->out[i - g->nodes[k]->n_in],
                      used);
    for (int64_t k = 0; k < p->plan->arena_bytes; k++)
        whole = whole && (used[k] || (unsigned char)p->instance->arena[k] == 0xff);
    mo_free(p->plan->env, used);
    return whole;
}

/* Every step unit by unit, last first. */
static void run_backwards(struct prepared *p) {
    for (int k = 0; k < p->plan->n_steps; k++) {
        const struct mo_step *s = &p->plan->steps[k];
        if (!s->run) {
            mo_instance_run(p->instance, k, k + 1, p->scratch);
            continue;
        }
        for (int64_t u = s->units - 1; u >= 0; u--) {
            memset(p->scratch, 0xff, (size_t)p->plan->scratch_bytes);
            s->run(&p->instance->args[k], u, u + 1, p->scratch);
        }
    }
}

static void release(const struct mo_env *env, struct prepared *p) {
    mo_free(env, p->scratch);
    mo_instance_destroy(p->instance);
    mo_plan_destroy(p->plan);
}

static const char *compare(const moire_tensor *got, const moire_tensor *want, char *why, size_t n) {
    if (got->dtype != MOIRE_F32) return memcmp(got->data, want->data, want->bytes) ? "bytes differ" : NULL;
    for (size_t i = 0; i < want->bytes / 4; i++) {
        float a = ((const float *)got->data)[i], b = ((const float *)want->data)[i];
        if (a == b || (isnan(a) && isnan(b))) continue;
        if (isfinite(b) && fabsf(a - b) <= 2e-5f * fmaxf(1.0f, fabsf(b))) continue;
        snprintf(why, n, "element %zu is %g, the reference has %g", i, (double)a, (double)b);
        return why;
    }
    return NULL;
}

static const char *check_outputs(struct prepared *ref, struct prepared *fast, char *why, size_t n) {
    const char *bad = NULL;
    for (int i = 0; !bad && i < ref->plan->graph->n_outputs; i++) {
        moire_tensor want, got;
        if (mo_instance_output(ref->instance, i, &want) || mo_instance_output(fast->instance, i, &got))
            return "no output";
        if (want.bytes != got.bytes) return "sizes differ";
        void *whole = mo_alloc(ref->plan->env, got.bytes + 1);
        memcpy(whole, got.data, got.bytes);
        bad = compare(&got, &want, why, n);
        poison(fast);
        run_backwards(fast);
        if (!bad && memcmp(whole, got.data, got.bytes)) bad = "another split gives other bytes";
        mo_free(ref->plan->env, whole);
    }
    return bad;
}

/* What lanes beyond the channels hold after the layer: finite values, and zeros from elementwise kernels,
 * whose functions might overflow there. */
static bool padding_is_finite(const struct prepared *p) {
    const struct mo_plan *plan = p->plan;
    for (int k = 0; k < plan->n_steps; k++) {
        const struct mo_step *s = &plan->steps[k];
        const struct mo_tensor *y = plan->graph->tensors[s->node->out[0]];
        bool each = !strcmp(s->kernel, "unary") || !strcmp(s->kernel, "binary") ||
                    !strcmp(s->kernel, "fused") || !strcmp(s->kernel, "pool");
        if (y->layout != MO_C16 || y->shape.d[1] % 16 == 0) continue;
        int64_t floats = mo_tensor_image_bytes(y) / 4, block = mo_shape_count(&y->shape) * 16;
        block /= y->shape.d[0] * y->shape.d[1];
        for (int64_t n = 0; n < y->shape.d[0]; n++)
            for (int64_t i = floats - block; i < floats; i++) {
                const float *image =
                    (const float *)(p->instance->value[y->id].data) + n * plan->image[y->id] / 4;
                if (i % 16 >= y->shape.d[1] % 16 && (!isfinite(image[i]) || (each && image[i] != 0)))
                    return false;
            }
    }
    return true;
}

/* The kernel of the layer itself, between copies. */
static bool has_kernel(const struct mo_plan *plan) {
    for (int k = 0; k < plan->n_steps; k++)
        if (!strcmp(plan->steps[k].node->name, "layer")) return plan->steps[k].run;
    return false;
}

static const char *check(const struct layer_case *c, enum mo_isa isa, bool special, unsigned slices) {
    static char why[600];
    struct mo_env env = mo_env_default();
    struct prepared ref, fast = {0};
    const char *bad = NULL;
    if (!prepare(&env, c, 0, &(struct mo_plan_options){.reference_only = true}, &ref, why, sizeof why) ||
        !prepare(&env, c, slices, &(struct mo_plan_options){.isa = isa}, &fast, why, sizeof why))
        bad = why;
    if (!bad && !slices && !has_kernel(fast.plan)) bad = "no kernel takes the layer";
    ref.special = fast.special = special;
    if (!bad) {
        poison(&ref);
        poison(&fast);
        if (mo_instance_run(ref.instance, 0, ref.plan->n_steps, ref.scratch)) bad = "reference";
        if (mo_instance_run(fast.instance, 0, fast.plan->n_steps, fast.scratch)) bad = "run";
    }
    if (!bad && !guards_hold(&fast)) bad = "written outside a tensor or the scratch";
    if (!bad && !special && !padding_is_finite(&fast)) bad = "the padding of channels is not finite";
    if (!bad) bad = check_outputs(&ref, &fast, why, sizeof why);
    release(&env, &ref);
    release(&env, &fast);
    return bad;
}

/* Nothing in a slice, everything, then each input and output alone. */
static const char *check_slices(const struct layer_case *c, enum mo_isa isa, bool special) {
    const char *bad = check(c, isa, special, 0);
    if (!bad) bad = check(c, isa, special, ~0u);
    int inputs = 1;
    for (const char *at = c->inputs; *at; at++)
        inputs += *at == ' ';
    for (int i = 0; !bad && i < inputs; i++)
        bad = check(c, isa, special, 1u << i);
    for (int i = 0; !bad && i < (c->n_out ? c->n_out : 1); i++)
        bad = check(c, isa, special, 1u << (LAYER_OUTPUT + i));
    return bad;
}

const char *layer_case_check(const struct layer_case *c, enum mo_isa isa) {
    return check_slices(c, isa, false);
}

const char *layer_case_check_special(const struct layer_case *c, enum mo_isa isa) {
    return check_slices(c, isa, true);
}
