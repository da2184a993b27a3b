/* SPDX-License-Identifier: Apache-2.0
 * control_case.c - see control_case.h. */
#include "tests/unit/control/control_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/frontend.h"
#include "codegen/region_graph.h"
#include "runtime/ops/util.h"
#include "tests/unit/codegen/used_memory.h"
#include "tools/moire/verify/ways.h"

struct ob *control_main(struct control *c, int opset) {
    *c = (struct control){.main = ob_create(opset)};
    return c->main;
}

struct ob *control_body(struct control *c) {
    assert_true(c->n_bodies < CONTROL_BODIES);
    return c->body[c->n_bodies++] = ob_create(0);
}

void control_end(struct control *c) {
    for (int i = 0; i < c->n_bodies; i++)
        ob_destroy(c->body[i]);
    ob_destroy(c->main);
}

static struct mo_shape shape_of(const char *text) {
    struct mo_shape s = {.rank = 0};
    for (char *end; *text; text = *end ? end + 1 : end)
        s.d[s.rank++] = strtoll(text, &end, 10);
    return s;
}

void control_in(struct control *c, moire_dtype dtype, const char *shape, const void *data) {
    const struct mo_shape s = shape_of(shape);
    moire_tensor *t = &c->in[c->n_in++];
    *t = (moire_tensor){.dtype = dtype, .rank = s.rank};
    memcpy(t->shape, s.d, sizeof t->shape);
    t->bytes = (size_t)mo_shape_count(&s) * mo_dtype_bytes(dtype);
    t->data = ob_alloc(c->main, t->bytes + 1);
    if (t->bytes) memcpy(t->data, data, t->bytes);
}

enum way { AS_IS, PASSES, PLAN, WAYS };

static int load(struct control *c, enum way way, struct mo_graph **g, moire_error *err) {
    size_t n;
    const uint8_t *bytes = ob_pack(c->main, &n);
    const struct mo_frontend_options options = {.no_passes = way == AS_IS};
    return mo_frontend_parse(&c->main->env, bytes, n, NULL, &options, g, err);
}

static int run(struct control *c, enum way way, moire_tensor *out, int *n, moire_error *err) {
    const struct mo_plan_options options = {.isa = mo_isa_detect(), .shaped = mo_region_graph};
    struct mo_graph *g;
    int rc = load(c, way, &g, err);
    *n = 0;
    if (rc) return rc;
    assert_int_equal(g->n_inputs, c->n_in);
    assert_true(g->n_outputs <= CONTROL_PORTS);
    *n = g->n_outputs;
    if (way == PLAN) return run_graph_in_used_memory(g, &options, c->in, c->n_in, out, err);
    rc = mo_way_run_reference(g, c->in, c->n_in, out, err);
    mo_graph_destroy(g);
    return rc;
}

static void check(const moire_tensor *got, const char *shape, const float *values) {
    const struct mo_shape want = shape_of(shape);
    struct mo_value v = {.dtype = got->dtype, .shape = {.rank = got->rank}, .data = got->data};
    char text[2][120];
    memcpy(v.shape.d, got->shape, sizeof v.shape.d);
    assert_string_equal(mo_shape_text(&v.shape, text[0], sizeof text[0]),
                        mo_shape_text(&want, text[1], sizeof text[1]));
    for (int64_t i = 0; i < mo_shape_count(&want); i++)
        if (mo_load(&v, i) != (double)values[i])
            fail_msg("element %d is %g, not %g", (int)i, mo_load(&v, i), (double)values[i]);
}

void control_expect(struct control *c, int k, const char *shape, const float *values) {
    for (int way = 0; way < WAYS; way++) {
        moire_tensor out[CONTROL_PORTS] = {{0}};
        moire_error err = {0};
        int n;
        if (run(c, (enum way)way, out, &n, &err)) fail_msg("way %d: %s", way, err.message);
        assert_true(k < n);
        check(&out[k], shape, values);
        mo_way_free(&c->main->env, out, n);
    }
}

void control_fails(struct control *c, const char *text) {
    for (int way = 0; way < WAYS; way++) {
        moire_tensor out[CONTROL_PORTS] = {{0}};
        moire_error err = {0};
        int n;
        assert_int_not_equal(run(c, (enum way)way, out, &n, &err), MOIRE_OK);
        if (!strstr(err.message, text)) fail_msg("way %d says: %s", way, err.message);
    }
}

void control_no_answer(struct control *c) {
    moire_tensor out[CONTROL_PORTS] = {{0}};
    moire_error err = {0};
    int n;
    assert_int_not_equal(run(c, PLAN, out, &n, &err), MOIRE_OK);
    mo_way_free(&c->main->env, out, n);
}

void control_refused(struct control *c, int code, const char *one, const char *other) {
    struct mo_graph *g = NULL;
    moire_error err = {0};
    assert_int_equal(load(c, AS_IS, &g, &err), code);
    if (!strstr(err.message, one) || !strstr(err.message, other)) fail_msg("it says: %s", err.message);
}
