/* SPDX-License-Identifier: Apache-2.0
 * test_attention_forms.c - attention as exporters write it for vision transformers: query, key and value
 * taken out of one tensor in several ways, operands of rank 3 to 5, two masks.  What only moves heads is
 * gone, and the results stay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include "tests/unit/codegen/ways_case.h"

static void turn(struct ob *b, const char *from, const char *to, const char *perm) {
    ob_node(b, "Transpose", from, to);
    ob_ints(b, "perm", perm);
}

/* `to` = columns [from, to) of x, or others along another axis, every `step`th. */
static void cut(struct ob *b, const char *to, const char *range, const char *axis, const char *step) {
    char names[4][24], in[120];
    static const char *const parts[] = {"begin", "end", "axis", "step"};
    char begin[12], end[12];
    assert_int_equal(sscanf(range, "%11[0-9]:%11[0-9]", begin, end), 2);
    const char *const values[] = {begin, end, axis, step};
    for (int i = 0; i < 4; i++) {
        snprintf(names[i], sizeof names[i], "%s_%s", to, parts[i]);
        ob_int64s(b, names[i], values[i]);
    }
    snprintf(in, sizeof in, "x %s %s %s %s", names[0], names[1], names[2], names[3]);
    ob_node(b, "Slice", in, to);
}

/* y of scores s and values v; `back`: heads behind rows again. */
static void finish(struct ob *b, const char *s, const char *v, const char *back) {
    char product[40];
    ob_node(b, "Softmax", s, "weights");
    ob_int(b, "axis", -1);
    snprintf(product, sizeof product, "weights %s", v);
    ob_node(b, "MatMul", product, back ? "heads" : "y");
    if (back) turn(b, "heads", "y", back);
    ob_output(b, "y");
}

/* [S,1,3D] by three Slices, then [B H,S,D]. */
static void by_slices(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "19,1,48");
    ob_int64s(b, "apart", "19,2,8");
    cut(b, "q1", "0:16", "-1", "1");
    cut(b, "k1", "16:32", "-1", "1");
    cut(b, "v1", "32:1000", "2", "1");
    ob_node(b, "Reshape", "q1 apart", "q2");
    ob_node(b, "Reshape", "k1 apart", "k2");
    ob_node(b, "Reshape", "v1 apart", "v2");
    turn(b, "q2", "q", "1,0,2");
    turn(b, "k2", "k", "1,2,0");
    turn(b, "v2", "v", "1,0,2");
    ob_node(b, "MatMul", "q k", "s");
    finish(b, "s", "v", "1,0,2");
}

/* [B,S,3,H,D] turned to [3,B,H,S,D] and picked from, by a number or by a list of one; two masks, the second
 * to windows of an image; a Dropout that is said to train, at a ratio of 0. */
static void by_windows(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "6,19,48");
    ob_int64s(b, "apart", "6,19,3,2,8");
    ob_int64s(b, "images", "1,6,2,19,19");
    ob_int64s(b, "windows", "6,2,19,19");
    ob_int64s(b, "0", "0");
    ob_int64s(b, "1", "1");
    ob_int64s(b, "-1", "-1");
    ob_random(b, "bias", "1,2,19,19");
    ob_random(b, "shift", "1,6,1,19,19");
    ob_scalar(b, "c", 0.35f);
    ob_scalar(b, "never", 0);
    ob_integers(b, "on", "1", MOIRE_BOOL);
    ob_node(b, "Squeeze", "0", "first");
    ob_node(b, "Squeeze", "1", "second");
    ob_node(b, "Reshape", "x apart", "x5");
    turn(b, "x5", "all", "2,0,3,1,4");
    ob_node(b, "Gather", "all first", "q0");
    ob_node(b, "Gather", "all second", "k0");
    ob_node(b, "Gather", "all -1", "v5");
    ob_node(b, "Squeeze", "v5 0", "v");
    ob_node(b, "Mul", "q0 c", "q");
    turn(b, "k0", "k", "0,1,3,2");
    ob_node(b, "MatMul", "q k", "s0");
    ob_node(b, "Add", "s0 bias", "s1");
    ob_node(b, "Reshape", "s1 images", "s2");
    ob_node(b, "Add", "s2 shift", "s3");
    ob_node(b, "Reshape", "s3 windows", "s");
    ob_node(b, "Softmax", "s", "p");
    ob_int(b, "axis", -1);
    ob_node(b, "Squeeze", "on", "training");
    ob_node(b, "Dropout", "p never training", "d dropped");
    ob_node(b, "MatMul", "d v", "r");
    turn(b, "r", "y", "0,2,1,3");
    ob_output(b, "y");
}

/* Rank 5: images, windows, heads; by a Split.  A factor lies below the Transpose of keys. */
static void of_rank_5(struct ob *b, const char *mask, bool constant) {
    ob_input(b, "x", MOIRE_F32, "2,3,19,48");
    ob_int64s(b, "parts", "16,16,16");
    ob_int64s(b, "apart", "2,3,19,2,8");
    ob_scalar(b, "c", 0.35f);
    if (constant)
        ob_random(b, "m", mask);
    else
        ob_input(b, "m", MOIRE_F32, mask);
    ob_node(b, "Split", "x parts", "q1 k1 v1");
    ob_int(b, "axis", 3);
    ob_node(b, "Reshape", "q1 apart", "q2");
    ob_node(b, "Reshape", "k1 apart", "k2");
    ob_node(b, "Reshape", "v1 apart", "v2");
    turn(b, "q2", "q", "0,1,3,2,4");
    turn(b, "k2", "k3", "0,1,3,2,4");
    turn(b, "v2", "v", "0,1,3,2,4");
    ob_node(b, "Mul", "k3 c", "k4");
    turn(b, "k4", "k", "0,1,2,4,3");
    ob_node(b, "MatMul", "q k", "s0");
    ob_node(b, "Add", "s0 m", "s");
    finish(b, "s", "v", "0,1,3,2,4");
}

static void of_rank_5_with_bias(struct ob *b) {
    of_rank_5(b, "2,19,19", true);
}

static void of_rank_5_with_all_masks(struct ob *b) {
    of_rank_5(b, "2,3,1,1,19", false);
}

static void of_rank_5_with_constant_masks(struct ob *b) {
    of_rank_5(b, "2,3,1,19,19", true);
}

/* For images, not for their windows: the scores keep their rank. */
static void of_rank_5_with_some_masks(struct ob *b) {
    of_rank_5(b, "2,1,1,1,19", false);
}

/* Heads one behind the other, [3 H,S,D]. */
static void by_heads(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "3,2,19,8");
    ob_int64s(b, "0", "0");
    ob_node(b, "Squeeze", "0", "first");
    ob_node(b, "Gather", "x first", "q");
    cut(b, "k1", "1:2", "0", "1");
    cut(b, "v1", "2:3", "0", "1");
    ob_node(b, "Squeeze", "k1 0", "k2");
    ob_node(b, "Squeeze", "v1 0", "v");
    turn(b, "k2", "k", "0,2,1");
    ob_node(b, "MatMul", "q k", "s");
    finish(b, "s", "v", NULL);
}

/* Queries begin within a head: they are cut out.  Of keys and values every second row is read. */
static void by_rows(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "1,18,56");
    ob_int64s(b, "parts", "24,16,16");
    ob_int64s(b, "apart", "0,0,2,8");
    cut(b, "q1", "4:20", "2", "1");
    cut(b, "rows", "0:18", "1", "2");
    ob_node(b, "Split", "rows parts", "unused k1 v1");
    ob_int(b, "axis", -1);
    ob_node(b, "Reshape", "q1 apart", "q2");
    ob_node(b, "Reshape", "k1 apart", "k2");
    ob_node(b, "Reshape", "v1 apart", "v2");
    turn(b, "q2", "q", "0,2,1,3");
    turn(b, "k2", "k", "0,2,3,1");
    turn(b, "v2", "v", "0,2,1,3");
    ob_node(b, "MatMul", "q k", "s");
    finish(b, "s", "v", "0,2,1,3");
}

static const struct form {
    const char *name;
    void (*build)(struct ob *b);
    int attentions, moves; /* layers, and such as only move what attention reads */
} forms[] = {
    {"slices", by_slices, 1, 0},
    {"windows", by_windows, 1, 0},
    {"rank 5, a bias", of_rank_5_with_bias, 1, 0},
    {"rank 5, masks of their own", of_rank_5_with_all_masks, 1, 0},
    {"rank 5, constant masks", of_rank_5_with_constant_masks, 1, 0},
    {"rank 5, masks of images", of_rank_5_with_some_masks, 0, 6},
    {"heads", by_heads, 1, 0},
    {"rows", by_rows, 1, 1},
};
enum { N_FORMS = sizeof forms / sizeof *forms };

static int count_moves(const struct mo_graph *g) {
    static const char *const moves[] = {"Slice", "Split", "Gather", "Transpose", "Dropout"};
    int n = 0;
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        n += ways_count(g, moves[i]);
    return n;
}

static void heads_are_read_in_place(void **state) {
    (void)state;
    int wrong = 0;
    for (int i = 0; i < N_FORMS; i++) {
        struct ob *b = ob_create(13);
        forms[i].build(b);
        struct mo_graph *g = ways_graph(b, true, false);
        const int attentions = ways_count(g, "Attention"), moves = count_moves(g);
        if (attentions != forms[i].attentions || moves != forms[i].moves) {
            print_error("%s: %d of Attention, %d that move\n", forms[i].name, attentions, moves);
            ways_show(g);
            wrong++;
        }
        mo_graph_destroy(g);
        ob_destroy(b);
    }
    assert_int_equal(wrong, 0);
}

static void results_stay(void **state) {
    (void)state;
    int wrong = 0;
    for (int i = 0; i < N_FORMS; i++) {
        struct ob *b = ob_create(13);
        forms[i].build(b);
        wrong += ways_check(b, forms[i].name, false, ways_near_largest);
        ob_destroy(b);
    }
    assert_int_equal(wrong, 0);
}

static void memory_may_be_short(void **state) {
    (void)state;
    for (int i = 0; i < N_FORMS; i++) {
        struct ob *b = ob_create(13);
        forms[i].build(b);
        ways_without_memory(b);
        ob_destroy(b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_are_read_in_place),
        cmocka_unit_test(results_stay),
        cmocka_unit_test(memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
