/* SPDX-License-Identifier: Apache-2.0
 * test_scaled_attention.c - ONNX's Attention as moire.Attention beside its reference: ranks, shared heads,
 * windows, masks, queries that see nothing, a past, lengths known at run time only; and what is left to the
 * reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include "tests/unit/codegen/ways_case.h"

enum { UNBOUNDED = -1 };

static const struct form {
    const char *name, *q, *k, *v;
    int heads, groups; /* of rank 3 */
    const char *mask;  /* shape; bool where it begins with b */
    const char *past_k, *past_v;
    const char *lengths; /* what nonpad_kv_seqlen is about */
    int causal, left, right;
    bool present, scores;
    float softcap;
    int taken; /* it becomes moire.Attention */
} forms[] = {
    {"rank 4", "2,3,5,8", "2,3,7,8", "2,3,7,6", 0, 0, NULL, NULL, NULL, NULL, 0, -1, -1, false, false, 0, 1},
    {"rank 3", "2,5,24", "2,7,24", "2,7,18", 3, 3, NULL, NULL, NULL, NULL, 0, -1, -1, false, false, 0, 1},
    {"present, rank 4", "2,3,5,8", "2,3,7,8", "2,3,7,6", 0, 0, NULL, NULL, NULL, NULL, 1, -1, -1, true, false,
     0, 1},
    {"present, rank 3", "2,5,24", "2,7,24", "2,7,18", 3, 3, NULL, NULL, NULL, NULL, 0, -1, -1, true, false, 0,
     1},
    {"causal", "2,3,9,8", "2,3,9,8", "2,3,9,8", 0, 0, NULL, NULL, NULL, NULL, 1, -1, -1, false, false, 0, 1},
    {"causal, more queries than keys", "1,2,9,8", "1,2,4,8", "1,2,4,8", 0, 0, NULL, NULL, NULL, NULL, 1, 1,
     -1, false, false, 0, 1},
    {"window", "2,11,24", "2,11,24", "2,11,24", 3, 3, NULL, NULL, NULL, NULL, 0, 2, 1, false, false, 0, 1},
    {"mask to add", "2,3,5,8", "2,3,7,8", "2,3,7,6", 0, 0, "5,7", NULL, NULL, NULL, 0, -1, -1, false, false,
     0, 1},
    {"mask to add, causal", "2,3,7,8", "2,3,7,8", "2,3,7,6", 0, 0, "2,1,7,7", NULL, NULL, NULL, 1, -1, -1,
     false, false, 0, 1},
    {"bool mask", "2,3,5,8", "2,3,7,8", "2,3,7,6", 0, 0, "b2,1,1,7", NULL, NULL, NULL, 0, -1, -1, false,
     false, 0, 1},
    {"bool mask of heads, causal, rank 3", "2,7,24", "2,7,24", "2,7,18", 3, 3, "b3,7,7", NULL, NULL, NULL, 1,
     -1, -1, false, false, 0, 1},
    {"shared heads", "2,6,5,8", "2,2,7,8", "2,2,7,6", 0, 0, NULL, NULL, NULL, NULL, 0, -1, -1, false, false,
     0, 1},
    {"shared heads, causal, rank 3", "2,5,48", "2,5,16", "2,5,12", 6, 2, NULL, NULL, NULL, NULL, 1, -1, -1,
     false, false, 0, 1},
    {"shared heads, masks", "2,6,5,8", "2,2,7,8", "2,2,7,6", 0, 0, "b2,6,5,7", NULL, NULL, NULL, 0, -1, -1,
     false, false, 0, 1},
    {"one head of keys, mask of keys", "2,5,48", "2,7,8", "2,7,6", 6, 1, "2,6,1,7", NULL, NULL, NULL, 0, -1,
     -1, false, false, 0, 1},
    {"a step with a past", "2,1,48", "2,1,16", "2,1,12", 6, 2, NULL, "2,2,9,8", "2,2,9,6", NULL, 1, -1, -1,
     true, false, 0, 1},
    {"steps with a past", "2,6,3,8", "2,2,3,8", "2,2,3,6", 0, 0, "b2,1,3,12", "2,2,9,8", "2,2,9,6", NULL, 1,
     4, -1, true, false, 0, 1},
    {"lengths", "2,3,5,8", "2,3,7,8", "2,3,7,6", 0, 0, NULL, NULL, NULL, "3,6", 0, -1, -1, false, false, 0,
     1},
    {"lengths, causal, window", "2,2,48", "2,9,16", "2,9,12", 6, 2, "2,9", NULL, NULL, "5,8", 1, 3, -1, false,
     false, 0, 1},
    {"scale", "1,2,1,8", "1,2,150,8", "1,2,150,8", 0, 0, "1,150", NULL, NULL, NULL, 0, -1, -1, false, false,
     0, 1},
    {"soft cap", "2,3,5,8", "2,3,7,8", "2,3,7,6", 0, 0, NULL, NULL, NULL, NULL, 0, -1, -1, false, false, 2,
     0},
    {"scores", "2,3,5,8", "2,3,7,8", "2,3,7,6", 0, 0, NULL, NULL, NULL, NULL, 0, -1, -1, false, true, 0, 0},
    {"a mask that ends early", "2,3,5,8", "2,3,7,8", "2,3,7,6", 0, 0, "5,4", NULL, NULL, NULL, 0, -1, -1,
     false, false, 0, 0},
};
enum { N_FORMS = sizeof forms / sizeof *forms };

/* Of numbers around 0: what is below -0.3 is hidden. */
static const char *add_mask(struct ob *b, const struct form *f) {
    if (!f->mask) return "-";
    const bool is_bool = *f->mask == 'b';
    ob_input(b, "m", MOIRE_F32, f->mask + is_bool);
    if (!is_bool) return "m";
    ob_scalar(b, "limit", -0.3f);
    ob_node(b, "Greater", "m limit", "seen");
    return "seen";
}

static const char *add_lengths(struct ob *b, const struct form *f) {
    if (!f->lengths) return "-";
    ob_input(b, "n", MOIRE_F32, "2");
    ob_integers(b, "about", f->lengths, MOIRE_F32);
    ob_scalar(b, "spread", 2);
    ob_node(b, "Mul", "n spread", "n1");
    ob_node(b, "Add", "n1 about", "n2");
    ob_node(b, "Cast", "n2", "lengths");
    ob_int(b, "to", MOIRE_I64);
    return "lengths";
}

static struct ob *build(const struct form *f) {
    struct ob *b = ob_create(25);
    char in[100], out[60];
    ob_input(b, "q", MOIRE_F32, f->q);
    ob_input(b, "k", MOIRE_F32, f->k);
    ob_input(b, "v", MOIRE_F32, f->v);
    if (f->past_k) ob_input(b, "pk", MOIRE_F32, f->past_k);
    if (f->past_v) ob_input(b, "pv", MOIRE_F32, f->past_v);
    const char *mask = add_mask(b, f), *lengths = add_lengths(b, f);
    snprintf(in, sizeof in, "q k v %s %s %s %s", mask, f->past_k ? "pk" : "-", f->past_v ? "pv" : "-",
             lengths);
    snprintf(out, sizeof out, "y%s%s",
             f->present  ? " keys values"
             : f->scores ? " - -"
                         : "",
             f->scores ? " s" : "");
    ob_node(b, "Attention", in, out);
    if (f->heads) ob_int(b, "q_num_heads", f->heads);
    if (f->groups) ob_int(b, "kv_num_heads", f->groups);
    ob_int(b, "is_causal", f->causal);
    if (f->left != UNBOUNDED) ob_int(b, "left_window_size", f->left);
    if (f->right != UNBOUNDED) ob_int(b, "right_window_size", f->right);
    if (f->softcap > 0) ob_float(b, "softcap", f->softcap);
    if (f->scores) ob_int(b, "qk_matmul_output_mode", 2);
    ob_output(b, "y");
    if (f->present) ob_output(b, "keys");
    if (f->present) ob_output(b, "values");
    if (f->scores) ob_output(b, "s");
    return b;
}

static void results_stay(void **state) {
    (void)state;
    int wrong = 0;
    for (int i = 0; i < N_FORMS; i++) {
        struct ob *b = build(&forms[i]);
        wrong += ways_check(b, forms[i].name, false, ways_near_largest);
        ob_destroy(b);
    }
    assert_int_equal(wrong, 0);
}

/* What a window hides is then computed by each query. */
static void windows_larger_than_constants_may_be(void **state) {
    (void)state;
    int wrong = 0, windows = 0;
    for (int i = 0; i < N_FORMS; i++) {
        struct ob *b = build(&forms[i]);
        if (!forms[i].lengths && (forms[i].causal || forms[i].left >= 0 || forms[i].right >= 0)) {
            b->env.limits.fold_bytes = 1;
            struct mo_graph *g = ways_graph(b, true, false);
            windows += ways_count(g, "LessOrEqual") + ways_count(g, "Fused") > 0;
            mo_graph_destroy(g);
            wrong += ways_check(b, forms[i].name, false, ways_near_largest);
        }
        ob_destroy(b);
    }
    assert_int_equal(wrong, 0);
    assert_true(windows >= 6);
}

/* ONNX's operator and ours have one name; only ours has an attribute `order`. */
static int count_ours(const struct mo_graph *g) {
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++)
        n += mo_attr_find(g->nodes[i], "order") != NULL;
    return n;
}

static void what_can_be_becomes_a_layer(void **state) {
    (void)state;
    int wrong = 0;
    for (int i = 0; i < N_FORMS; i++) {
        struct ob *b = build(&forms[i]);
        struct mo_graph *g = ways_graph(b, true, false);
        if (count_ours(g) != forms[i].taken) {
            print_error("%s: %d layers of attention\n", forms[i].name, count_ours(g));
            ways_show(g);
            wrong++;
        }
        mo_graph_destroy(g);
        ob_destroy(b);
    }
    assert_int_equal(wrong, 0);
}

static void memory_may_be_short(void **state) {
    (void)state;
    for (int i = 0; i < N_FORMS; i++) {
        struct ob *b = build(&forms[i]);
        ways_without_memory(b);
        ob_destroy(b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_stay),
        cmocka_unit_test(windows_larger_than_constants_may_be),
        cmocka_unit_test(what_can_be_becomes_a_layer),
        cmocka_unit_test(memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
