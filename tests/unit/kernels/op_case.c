/* SPDX-License-Identifier: Apache-2.0
 * op_case.c - builds a single operator from text; see op_case.h. */
#include "tests/unit/kernels/op_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/ops/util.h"

void op_case_open(struct op_case *c, const char *op, int opset) {
    memset(c, 0, sizeof *c);
    c->env = mo_env_default();
    c->g = mo_graph_create(&c->env);
    assert_non_null(c->g);
    c->g->opset = opset;
    const bool ours = !strncmp(op, "moire.", 6);
    const char *domain = ours ? "moire" : "";
    if (ours) op += 6;
    c->node = mo_graph_add_node(c->g, "the node", op, domain, OP_CASE_PORTS, OP_CASE_PORTS);
    c->node->op = mo_op_find(op, domain);
    assert_non_null(c->node->op);
}

void op_case_close(struct op_case *c) {
    mo_graph_destroy(c->g);
}

static struct mo_attr *add_attr(struct op_case *c, const char *name, size_t n, enum mo_attr_type type) {
    char text[64];
    assert_true(n < sizeof text);
    memcpy(text, name, n);
    text[n] = 0;
    struct mo_attr *a = mo_node_add_attr(c->g, c->node, text, type);
    assert_non_null(a);
    return a;
}

static void add_list(struct op_case *c, const char *name, size_t n, const char *s, bool floats) {
    struct mo_attr *a = add_attr(c, name, n, floats ? MO_ATTR_FLOATS : MO_ATTR_INTS);
    int64_t *ints = mo_region_array(c->g->region, 16, sizeof *ints);
    float *reals = mo_region_array(c->g->region, 16, sizeof *reals);
    for (char *end; *s && *s != ' ' && a->n < 16; s = *end == ',' ? end + 1 : end) {
        reals[a->n] = strtof(s, &end);
        ints[a->n++] = strtoll(s, &end, 10);
        if (floats) strtof(s, &end);
    }
    a->ints = ints;
    a->floats = reals;
}

static void add_strings(struct op_case *c, const char *name, size_t n, const char *s, size_t length) {
    struct mo_attr *a = add_attr(c, name, n, MO_ATTR_STRINGS);
    const char **strings = mo_region_array(c->g->region, 16, sizeof *strings);
    for (const char *end = s + length; s < end && a->n < 16;) {
        size_t part = strcspn(s, ", ");
        strings[a->n++] = mo_region_string(c->g->region, s, part);
        s += part + 1;
    }
    a->strings = strings;
}

static void add_one(struct op_case *c, const char *name, size_t n, char kind, const char *value,
                    size_t length) {
    if (kind == '~') {
        add_list(c, name, n, value, true);
    } else if (kind == '+') {
        add_strings(c, name, n, value, length);
    } else if (kind == ':') {
        struct mo_attr *a = add_attr(c, name, n, MO_ATTR_STRING);
        a->s = mo_region_string(c->g->region, value, length);
        a->s_len = length;
    } else if (memchr(value, ',', length)) {
        add_list(c, name, n, value, false);
    } else if (memchr(value, '.', length)) {
        add_attr(c, name, n, MO_ATTR_FLOAT)->f = strtof(value, NULL);
    } else {
        add_attr(c, name, n, MO_ATTR_INT)->i = strtoll(value, NULL, 10);
    }
}

void op_case_attrs(struct op_case *c, const char *text) {
    while (*text) {
        size_t n = strcspn(text, "=:~+"), length = strcspn(text + n + 1, " ");
        add_one(c, text, n, text[n], text + n + 1, length);
        text += n + 1 + length;
        text += *text == ' ';
    }
}

static struct mo_value *add_value(struct op_case *c, moire_dtype dtype, const char *shape) {
    assert_true(c->n_in < OP_CASE_PORTS);
    struct mo_value *v = &c->in[c->n_in++];
    *v = (struct mo_value){.dtype = *shape == '-' ? MOIRE_NONE : dtype};
    for (char *end; *shape && *shape != '-'; shape = *end ? end + 1 : end)
        v->shape.d[v->shape.rank++] = strtoll(shape, &end, 10);
    return v;
}

void op_case_input(struct op_case *c, moire_dtype dtype, const char *shape, const double *values) {
    struct mo_value *v = add_value(c, dtype, shape);
    if (v->dtype == MOIRE_NONE) return;
    int64_t n = mo_shape_count(&v->shape);
    v->data = mo_region_alloc(c->g->region, (size_t)n * mo_dtype_bytes(dtype) + 1);
    assert_non_null(v->data);
    for (int64_t i = 0; i < n; i++)
        mo_store(v, i, values ? values[i] : (double)i);
}

void op_case_unknown(struct op_case *c, moire_dtype dtype, const char *shape) {
    add_value(c, dtype, shape);
}

static struct mo_op_ctx context(struct op_case *c, int n_out) {
    c->node->n_in = c->n_in;
    c->node->n_out = c->n_out = n_out;
    c->node->opset = c->g->opset;
    return (struct mo_op_ctx){.node = c->node,
                              .env = &c->env,
                              .n_in = c->n_in,
                              .n_out = n_out,
                              .in = c->in,
                              .out = c->out,
                              .err = &c->err};
}

/* The graph's own memory never fails; the operator's does when c->scratch says so. */
static int call(struct op_case *c, const struct mo_op_ctx *ctx, int (*fn)(const struct mo_op_ctx *)) {
    const struct mo_sys *real = c->env.sys;
    if (c->scratch) c->env.sys = c->scratch;
    int rc = fn(ctx);
    c->env.sys = real;
    return rc;
}

int op_case_infer(struct op_case *c, int n_out) {
    struct mo_op_ctx ctx = context(c, n_out);
    return call(c, &ctx, mo_op_infer);
}

int op_case_run(struct op_case *c, int n_out) {
    int rc = op_case_infer(c, n_out);
    struct mo_op_ctx ctx = context(c, n_out);
    for (int i = 0; !rc && i < n_out; i++) {
        size_t bytes = (size_t)mo_shape_count(&c->out[i].shape) * mo_dtype_bytes(c->out[i].dtype);
        c->out[i].data = mo_region_alloc(c->g->region, bytes + 1);
        assert_non_null(c->out[i].data);
    }
    return rc ? rc : call(c, &ctx, c->node->op->run);
}

double op_case_out(const struct op_case *c, int output, int64_t index) {
    assert_true(index >= 0 && index < mo_shape_count(&c->out[output].shape));
    return mo_load(&c->out[output], index);
}
