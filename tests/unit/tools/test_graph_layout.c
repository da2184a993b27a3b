/* SPDX-License-Identifier: Apache-2.0
 * test_graph_layout.c - drawn graphs: on random ones no two boxes overlap and no edge is drawn across a box
 * or along another's lane; times colour the boxes and stand in them. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "codegen/frontend.h"
#include "tests/unit/codegen/onnx_build.h"
#include "tools/moire/inspect/graph_layout.h"
#include "tools/moire/inspect/graph_svg.h"

static unsigned next(unsigned *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static int tensor(struct mo_graph *g) {
    return mo_graph_add_tensor(g, "t", MOIRE_F32, &(struct mo_shape){.rank = 1, .d = {1}})->id;
}

/* Branches, joins, and skips over any number of rows; some nodes read one tensor twice. */
static struct mo_graph *random_graph(const struct mo_env *env, unsigned seed) {
    struct mo_graph *g = mo_graph_create(env);
    int made[80], n = 0, nodes = 1 + (int)(next(&seed) % 60);
    g->inputs = mo_region_array(g->region, 2, sizeof(int));
    g->outputs = mo_region_array(g->region, 2, sizeof(int));
    for (int i = 0; i < 2; i++)
        g->inputs[g->n_inputs++] = made[n++] = tensor(g);
    for (int k = 0; k < nodes; k++) {
        int n_in = 1 + (int)(next(&seed) % 3), near = next(&seed) % 4 ? 4 : n;
        struct mo_node *node = mo_graph_add_node(g, "n", "Add", "", n_in, 1);
        for (int i = 0; i < n_in; i++)
            node->in[i] = made[n - 1 - (int)(next(&seed) % (unsigned)(near < n ? near : n))];
        node->out[0] = made[n++] = tensor(g);
    }
    g->outputs[g->n_outputs++] = made[n - 1];
    g->outputs[g->n_outputs++] = made[n / 2];
    mo_graph_index(g);
    return g;
}

/* Rows that an edge passes, of two edges: some are the same. */
static bool side_by_side(const struct mo_graph_layout *l, const struct mo_graph_edge *a,
                         const struct mo_graph_edge *b) {
    return l->box[a->from].row < l->box[b->to].row && l->box[b->from].row < l->box[a->to].row;
}

static void check_lane(const struct mo_graph_layout *l, int at) {
    const struct mo_graph_edge *e = &l->edge[at];
    assert_true(e->lane > 0 && e->lane < l->width);
    for (int i = 0; i < l->n; i++) {
        const struct mo_graph_box *b = &l->box[i];
        if (b->row <= l->box[e->from].row || b->row >= l->box[e->to].row) continue;
        assert_true(e->lane < b->x - 5 || e->lane > b->x + MO_BOX_W + 5);
    }
    for (int i = 0; i < at; i++) {
        const struct mo_graph_edge *o = &l->edge[i];
        if (o->from == e->from || !mo_edge_passes(l, o) || !side_by_side(l, e, o)) continue;
        assert_true(fabs(o->lane - e->lane) > 5);
    }
}

static void nothing_overlaps(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    int passing = 0;
    for (unsigned seed = 1; seed <= 300; seed++) {
        struct mo_graph *g = random_graph(&env, seed);
        struct mo_region *region = mo_region_create(&env);
        struct mo_graph_layout l;
        assert_true(mo_graph_lay_out(g, region, &l));
        assert_int_equal(l.n, g->n_nodes + 4);
        for (int a = 0; a < l.n; a++) {
            assert_true(l.box[a].x > -0.01 && l.box[a].x + MO_BOX_W < l.width + 0.01 &&
                        l.box[a].row < l.rows);
            for (int b = 0; b < a; b++)
                assert_true(l.box[a].row != l.box[b].row || fabs(l.box[a].x - l.box[b].x) > MO_BOX_W);
        }
        for (int i = 0; i < l.n_edges; i++) {
            assert_true(l.box[l.edge[i].from].row < l.box[l.edge[i].to].row);
            if (!mo_edge_passes(&l, &l.edge[i])) continue;
            check_lane(&l, i);
            passing++;
        }
        mo_region_destroy(region);
        mo_graph_destroy(g);
    }
    assert_true(passing > 1000);
}

/* A chain stays straight, and its skip runs beside it. */
static void a_skip_runs_beside_its_chain(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_graph *g = mo_graph_create(&env);
    int t[4] = {tensor(g), tensor(g), tensor(g), tensor(g)};
    g->inputs = mo_region_array(g->region, 1, sizeof(int));
    g->inputs[g->n_inputs++] = t[0];
    for (int i = 0; i < 3; i++) {
        struct mo_node *node = mo_graph_add_node(g, "n", "Add", "", 1 + (i == 2), 1);
        node->in[0] = t[i];
        if (i == 2) node->in[1] = t[0];
        node->out[0] = t[i + 1];
    }
    mo_graph_index(g);
    struct mo_region *region = mo_region_create(&env);
    struct mo_graph_layout l;
    assert_true(mo_graph_lay_out(g, region, &l));
    for (int i = 1; i < l.n; i++)
        assert_true(l.box[i].x == l.box[0].x && l.box[i].row == i);
    const struct mo_graph_edge *skip = &l.edge[l.n_edges - 1];
    assert_true(mo_edge_passes(&l, skip) && skip->lane > l.box[0].x + MO_BOX_W);
    mo_region_destroy(region);
    mo_graph_destroy(g);
}

static void times_are_drawn(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct ob *b = ob_create(13);
    size_t n;
    ob_input(b, "x", MOIRE_F32, "1,3,8,8");
    ob_random(b, "w", "16,3,3,3");
    ob_node(b, "Conv", "x w", "a");
    ob_node(b, "CumSum", "a axis", "y");
    ob_int64s(b, "axis", "1")->n_dims = 0;
    ob_output(b, "y");
    const uint8_t *bytes = ob_pack(b, &n);
    struct mo_graph *g;
    struct mo_plan *plan = NULL;
    moire_error err = {0};
    if (mo_frontend_parse(&env, bytes, n, NULL, &(struct mo_frontend_options){0}, &g, &err) ||
        mo_plan_build(g, &(struct mo_plan_options){.isa = MO_ISA_BASE}, &plan, &err))
        fail_msg("%s", err.message);
    int64_t ns[8] = {2500000, 1000};
    assert_true(plan->n_steps <= 8);
    for (int i = 0; i < plan->n_steps; i++)
        if (!plan->steps[i].run) ns[i] = 123456000;
    char path[] = "/tmp/moire-draw-XXXXXX", svg[20000];
    close(mkstemp(path));
    const struct mo_graph_drawing drawing = {
        .env = &env, .plan = plan, .title = "/models/m<1>.onnx", .ns = ns, .threads = 2};
    assert_int_equal(mo_graph_draw(&drawing, path, &err), MOIRE_OK);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    svg[fread(svg, 1, sizeof svg - 1, f)] = 0;
    fclose(f);
    unlink(path);
    assert_non_null(strstr(svg, "2.50 ms"));
    assert_non_null(strstr(svg, "123 ms"));
    assert_non_null(strstr(svg, "0 to 123 ms a layer"));
    assert_non_null(strstr(svg, "on 2 threads"));
    assert_non_null(strstr(svg, "#f06e46")); /* the hottest */
    assert_non_null(strstr(svg, "m&#60;1&#62;.onnx"));
    assert_non_null(strstr(svg, "runs by the slow reference"));
    mo_plan_destroy(plan);
    ob_destroy(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_overlaps),
        cmocka_unit_test(a_skip_runs_beside_its_chain),
        cmocka_unit_test(times_are_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
