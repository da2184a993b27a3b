/* SPDX-License-Identifier: Apache-2.0
 * glue.c - what stands between the models of gpu-let's applications (ATC 2022, figures 10 and 11).
 *
 * game-cut takes a frame of a streamed game, 448 x 448 pixels of 8 bits: the whole, halved, is the image for
 * ResNet-50; six squares of 32 x 32 along its lower edge are the digits for LeNet.
 *
 * traffic-cut takes a picture and what an SSD said of it: of each of two classes the best box, and what the
 * picture has there, brought to 224 x 224 by the nearest pixels.  A box's first two and last two numbers, as
 * shares of the picture by a sigmoid, are two opposite corners: the zoo's detector has drawn weights and no
 * anchors to decode with. */
#include "models/glue.h"

enum { FRAME = 448, IMAGE = 224, DIGITS = 6, DIGIT = 32, PICTURE = 300, ANCHORS = 1917, CLASSES = 91 };
enum { PERSON = 1, CAR = 3 }; /* in COCO's list */

static const char *vector(struct mo_build *b, const int64_t *values, int n) {
    return mo_b_i64(b, "at", values, n);
}

static const char *slice(struct mo_build *b, const char *x, const int64_t *from, const int64_t *to,
                         const int64_t *axes, int n) {
    const char *in[] = {x, vector(b, from, n), vector(b, to, n), vector(b, axes, n)};
    return mo_b_node(b, "Slice", 4, in);
}

static const char *cast(struct mo_build *b, const char *x, moire_dtype type) {
    const char *y = mo_b_op1(b, "Cast", x);
    mo_b_int(b, "to", type);
    return y;
}

/* --- game --- */
static void game_cut(struct mo_build *b) {
    mo_b_input(b, "frame", MOIRE_U8, (int64_t[]){-1, FRAME, FRAME, 3}, 4);
    const char *planes = mo_b_op1(b, "Transpose", cast(b, "frame", MOIRE_F32));
    mo_b_ints(b, "perm", (int64_t[]){0, 3, 1, 2}, 4);
    planes = mo_b_op2(b, "Div", planes, mo_b_f32(b, "most", 255));
    const struct mo_bv frame = {.name = planes, .c = 3, .h = FRAME, .w = FRAME, .ms = 0.3};
    mo_b_output(b, mo_b_avgpool(b, frame, 2, 2).name, "image", MOIRE_F32, (int64_t[]){-1, 3, IMAGE, IMAGE},
                4);
    for (int i = 0; i < DIGITS; i++) {
        const int64_t left = 16 + i * 72, top = FRAME - DIGIT - 8;
        const char name[] = {'d', 'i', 'g', 'i', 't', (char)('0' + i), 0};
        const char *cut = slice(b, planes, (int64_t[]){top, left}, (int64_t[]){top + DIGIT, left + DIGIT},
                                (int64_t[]){2, 3}, 2);
        const char *grey = mo_b_op1(b, "ReduceMean", cut);
        mo_b_ints(b, "axes", (int64_t[]){1}, 1);
        mo_b_int(b, "keepdims", 1);
        mo_b_output(b, grey, name, MOIRE_F32, (int64_t[]){-1, 1, DIGIT, DIGIT}, 4);
    }
}

/* --- traffic --- */
/* Two corners as shares of the picture, [4], of the box that is best for the class. */
static const char *best_box(struct mo_build *b, int64_t class) {
    const char *scores = slice(b, "scores", (int64_t[]){class}, (int64_t[]){class + 1}, (int64_t[]){2}, 1);
    const char *best = mo_b_op1(b, "ArgMax", scores);
    mo_b_int(b, "axis", 1);
    mo_b_int(b, "keepdims", 0);
    const char *one = mo_b_op2(b, "Reshape", best, vector(b, (int64_t[]){1}, 1));
    const char *box = mo_b_op2(b, "Gather", "boxes", one);
    mo_b_int(b, "axis", 1);
    return mo_b_op1(b, "Sigmoid", mo_b_op2(b, "Reshape", box, vector(b, (int64_t[]){4}, 1)));
}

/* Which pixels along one axis (0: rows) a cut of IMAGE takes, int64. */
static const char *pixels(struct mo_build *b, const char *box, int axis) {
    const char *p = slice(b, box, (int64_t[]){axis}, (int64_t[]){axis + 1}, (int64_t[]){0}, 1);
    const char *q = slice(b, box, (int64_t[]){axis + 2}, (int64_t[]){axis + 3}, (int64_t[]){0}, 1);
    const char *low = mo_b_op2(b, "Min", p, q), *high = mo_b_op2(b, "Max", p, q);
    const char *way = mo_b_op3(b, "Range", mo_b_f32(b, "from", 0.5f), mo_b_f32(b, "to", IMAGE + 0.5f),
                               mo_b_f32(b, "by", 1));
    way = mo_b_op2(b, "Div", way, mo_b_f32(b, "side", IMAGE));
    const char *at = mo_b_op2(b, "Add", low, mo_b_op2(b, "Mul", way, mo_b_op2(b, "Sub", high, low)));
    at = mo_b_op1(b, "Floor", mo_b_op2(b, "Mul", at, mo_b_f32(b, "size", PICTURE)));
    return cast(b, mo_b_op3(b, "Clip", at, mo_b_f32(b, "first", 0), mo_b_f32(b, "last", PICTURE - 1)),
                MOIRE_I64);
}

static void cut_best(struct mo_build *b, int64_t class, const char *name) {
    const char *box = best_box(b, class);
    const char *rows = mo_b_op2(b, "Gather", "image", pixels(b, box, 0));
    mo_b_int(b, "axis", 2);
    const char *cut = mo_b_op2(b, "Gather", rows, pixels(b, box, 1));
    mo_b_int(b, "axis", 3);
    mo_b_output(b, cut, name, MOIRE_F32, (int64_t[]){1, 3, IMAGE, IMAGE}, 4);
}

static void traffic_cut(struct mo_build *b) {
    mo_b_input(b, "image", MOIRE_F32, (int64_t[]){1, 3, PICTURE, PICTURE}, 4);
    mo_b_input(b, "boxes", MOIRE_F32, (int64_t[]){1, ANCHORS, 4}, 3);
    mo_b_input(b, "scores", MOIRE_F32, (int64_t[]){1, ANCHORS, CLASSES}, 3);
    cut_best(b, CAR, "car");
    cut_best(b, PERSON, "person");
}

const struct mo_glue *mo_glue_table(int *n) {
    static const struct mo_glue table[] = {{"game-cut", game_cut}, {"traffic-cut", traffic_cut}};
    *n = sizeof table / sizeof *table;
    return table;
}

int mo_glue_write(const struct mo_env *env, const struct mo_glue *glue, const char *path, moire_error *err) {
    struct mo_build b;
    int code = mo_build_start(env, glue->name, MO_ZOO_SEED, &b, err);
    if (code) return code;
    glue->build(&b);
    code = mo_build_write(&b, path, err);
    mo_build_end(&b);
    return code;
}
