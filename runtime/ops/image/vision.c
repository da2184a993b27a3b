/* SPDX-License-Identifier: Apache-2.0
 * vision.c - NonMaxSuppression, GridSample. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/ops/kept.h"

/* --- NonMaxSuppression: boxes [batch][n][4], scores [batch][class][n] --- */
struct nms {
    const float *boxes, *scores;
    int64_t batches, classes, n, limit;
    float overlap, threshold;
    bool center; /* boxes are x, y, w, h of the centre */
};

static double scalar_or(const struct mo_op_ctx *ctx, int i, double fallback) {
    return mo_given(ctx, i) && mo_count(&ctx->in[i]) ? mo_load(&ctx->in[i], 0) : fallback;
}

/* 0, MO_NEED_DATA or an error. */
static int nms_of(const struct mo_op_ctx *ctx, struct nms *s) {
    int rc = mo_check_type(ctx, 0, MO_TYPE(MOIRE_F32));
    if (rc || (rc = mo_check_type(ctx, 1, MO_TYPE(MOIRE_F32))) || (rc = mo_check_rank(ctx, 0, 3, 3)) ||
        (rc = mo_check_rank(ctx, 1, 3, 3)))
        return rc;
    const int64_t *b = ctx->in[0].shape.d, *c = ctx->in[1].shape.d;
    if (b[2] != 4 || b[0] != c[0] || b[1] != c[2])
        return mo_op_fail(ctx, MOIRE_ESHAPE, "boxes and scores do not fit each other");
    ctx->out[0].dtype = MOIRE_I64;
    for (int i = 0; i < ctx->n_in; i++)
        if (mo_given(ctx, i) && mo_count(&ctx->in[i]) && !ctx->in[i].data) return MO_NEED_DATA;
    int64_t limit = mo_given(ctx, 2) ? mo_load_int(&ctx->in[2], 0) : 0;
    *s = (struct nms){
        .boxes = ctx->in[0].data, .scores = ctx->in[1].data, .batches = b[0], .classes = c[1], .n = b[1]};
    s->limit = limit < 0 ? 0 : limit > s->n ? s->n : limit;
    s->overlap = (float)scalar_or(ctx, 3, 0);
    s->threshold = (float)scalar_or(ctx, 4, -INFINITY);
    s->center = mo_attr_int(ctx->node, "center_point_box", 0) != 0;
    return MOIRE_OK;
}

struct box {
    float y1, x1, y2, x2;
};

static struct box box_at(const struct nms *s, int64_t batch, int64_t i) {
    const float *b = s->boxes + (batch * s->n + i) * 4;
    if (s->center) return (struct box){b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2};
    return (struct box){fminf(b[0], b[2]), fminf(b[1], b[3]), fmaxf(b[0], b[2]), fmaxf(b[1], b[3])};
}

/* fminf() and fmaxf(), where compilers would call them. */
static inline float least(float a, float b) {
    return b != b || a < b ? a : b;
}

static inline float most(float a, float b) {
    return b != b || a > b ? a : b;
}

static inline float iou(struct box a, struct box b) {
    float h = least(a.y2, b.y2) - most(a.y1, b.y1), w = least(a.x2, b.x2) - most(a.x1, b.x1);
    if (h <= 0 || w <= 0) return 0;
    float both = h * w, sum = (a.y2 - a.y1) * (a.x2 - a.x1) + (b.y2 - b.y1) * (b.x2 - b.x1);
    return sum - both > 0 ? both / (sum - both) : 0;
}

/* A box that may be chosen. */
struct scored_box {
    float score;
    int64_t i;
};

/* Best first, of equal ones the first. */
static int compare(const void *a, const void *b) {
    const struct scored_box *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (x->i > y->i) - (x->i < y->i);
}

/* Boxes that are chosen, side by side: what a box is compared with is eight of them at a time. */
enum { EIGHT = 8 };
struct eight_boxes {
    float y1[EIGHT], x1[EIGHT], y2[EIGHT], x2[EIGHT];
};

/* Which of eight do not lie beside the box; a constant number of steps without branches is vectors. */
static bool any_meets(const struct eight_boxes *c, struct box box, int32_t meets[EIGHT]) {
    int32_t any = 0;
    for (int k = 0; k < EIGHT; k++)
        meets[k] = -(int32_t)(!(c->y2[k] <= box.y1) & !(c->y1[k] >= box.y2) & !(c->x2[k] <= box.x1) &
                              !(c->x1[k] >= box.x2));
    for (int k = 0; k < EIGHT; k++)
        any |= meets[k];
    return any;
}

/* Most boxes lie beside one another: whether they do is seen without computing how much they share. */
static bool overlaps(const struct nms *s, struct box box, const struct eight_boxes *chosen, int64_t n) {
    const bool beside_passes = s->overlap >= 0;
    for (int64_t first = 0; first < n; first += EIGHT) {
        const struct eight_boxes *c = &chosen[first / EIGHT];
        int32_t meets[EIGHT];
        if (!any_meets(c, box, meets) && beside_passes) continue;
        for (int64_t k = 0; k < EIGHT && first + k < n; k++)
            if ((meets[k] || !beside_passes) &&
                iou((struct box){c->y1[k], c->x1[k], c->y2[k], c->x2[k]}, box) > s->overlap)
                return true;
    }
    return false;
}

static void choose(struct eight_boxes *chosen, int64_t n, struct box box) {
    struct eight_boxes *c = &chosen[n / EIGHT];
    c->y1[n % EIGHT] = box.y1;
    c->x1[n % EIGHT] = box.x1;
    c->y2[n % EIGHT] = box.y2;
    c->x2[n % EIGHT] = box.x2;
}

/* What choosing needs: room for all boxes. */
struct choice {
    struct scored_box *candidate;
    struct eight_boxes *box; /* those that are chosen, */
    int64_t *chosen;         /* and their numbers */
};

/* Chosen boxes of one class, best first; how many. */
static int64_t nms_class(const struct nms *s, int64_t batch, int64_t cls, const struct choice *c) {
    const float *score = s->scores + (batch * s->classes + cls) * s->n;
    int64_t n = 0, count = 0;
    for (int64_t i = 0; i < s->n; i++)
        if (score[i] > s->threshold) c->candidate[n++] = (struct scored_box){score[i], i};
    qsort(c->candidate, (size_t)n, sizeof *c->candidate, compare);
    for (int64_t k = 0; k < n && count < s->limit; k++) {
        const struct box box = box_at(s, batch, c->candidate[k].i);
        if (overlaps(s, box, c->box, count)) continue;
        choose(c->box, count, box);
        c->chosen[count++] = c->candidate[k].i;
    }
    return count;
}

/* Triples (batch, class, box) of a class. */
static int add_triples(const struct mo_op_ctx *ctx, int64_t batch, int64_t cls, const int64_t *chosen,
                       int64_t n, struct mo_number_list *all) {
    int rc = MOIRE_OK;
    for (int64_t i = 0; i < n && !rc; i++)
        rc = mo_number_list_add(ctx, all, (const int64_t[]){batch, cls, chosen[i]}, 3);
    return rc;
}

/* Those of all classes.  0 or an error; the list is to be freed in any case. */
static int nms_all(const struct mo_op_ctx *ctx, const struct nms *s, struct mo_number_list *all) {
    struct choice choice = {.candidate = mo_scratch(ctx, s->n, sizeof *choice.candidate),
                            .box = mo_scratch(ctx, s->n / EIGHT + 1, sizeof *choice.box),
                            .chosen = mo_scratch(ctx, s->n, sizeof *choice.chosen)};
    int rc = choice.candidate && choice.box && choice.chosen ? mo_number_list_add(ctx, all, NULL, 0)
                                                             : MOIRE_ENOMEM;
    for (int64_t b = 0; !rc && b < s->batches; b++)
        for (int64_t c = 0; !rc && c < s->classes; c++)
            rc = add_triples(ctx, b, c, choice.chosen, nms_class(s, b, c, &choice), all);
    mo_free(ctx->env, choice.candidate);
    mo_free(ctx->env, choice.box);
    mo_free(ctx->env, choice.chosen);
    return rc;
}

static int infer_nms(const struct mo_op_ctx *ctx) {
    struct nms s = {0};
    struct mo_number_list all = {0};
    int rc = nms_of(ctx, &s);
    if (!rc) rc = nms_all(ctx, &s, &all);
    struct mo_shape y = {.rank = 2, .d = {all.n / 3, 3}};
    if (!rc) rc = mo_set_out(ctx, 0, MOIRE_I64, &y);
    if (rc)
        mo_free(ctx->env, all.at);
    else
        mo_keep_work(ctx, all.at);
    return rc;
}

static int run_nms(const struct mo_op_ctx *ctx) {
    struct nms s = {0};
    struct mo_number_list all = {.at = mo_kept_work(ctx)};
    int rc = all.at ? MOIRE_OK : nms_of(ctx, &s);
    if (!rc && !all.at) rc = nms_all(ctx, &s, &all);
    if (!rc && mo_wanted(ctx, 0))
        memcpy(ctx->out[0].data, all.at, (size_t)mo_count(&ctx->out[0]) * sizeof *all.at);
    mo_free(ctx->env, all.at);
    return rc;
}

/* --- GridSample: x [N][C][H][W], grid [N][h][w][2] --- */
static int infer_grid(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_FLOATS);
    if (rc || (rc = mo_check_rank(ctx, 0, 4, 4)) || (rc = mo_check_rank(ctx, 1, 4, 4))) return rc;
    const int64_t *x = ctx->in[0].shape.d, *g = ctx->in[1].shape.d;
    if (g[3] != 2 || g[0] != x[0]) return mo_op_fail(ctx, MOIRE_ESHAPE, "the grid does not fit the input");
    struct mo_shape y = {.rank = 4, .d = {x[0], x[1], g[1], g[2]}};
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &y);
}

struct grid {
    const struct mo_value *x;
    bool align;
    char padding; /* z, b, r */
};

/* Coordinate of the grid ([-1, 1]) in pixels. */
static double denormalize(double g, int64_t n, bool align) {
    return align ? (g + 1) / 2 * (double)(n - 1) : ((g + 1) * (double)n - 1) / 2;
}

static double reflect(double x, int64_t n, bool align) {
    double low = align ? 0 : -0.5, span = align ? (double)(n - 1) : (double)n;
    if (span <= 0) return 0;
    x = fmod(fabs(x - low), 2 * span);
    return (x > span ? 2 * span - x : x) + low;
}

/* Pixel (row, col) of a plane under the padding rule. */
static double pixel(const struct grid *g, int64_t plane, double row, double col) {
    int64_t h = g->x->shape.d[2], w = g->x->shape.d[3];
    if (g->padding == 'r') row = reflect(row, h, g->align), col = reflect(col, w, g->align);
    bool inside = row >= 0 && row <= (double)(h - 1) && col >= 0 && col <= (double)(w - 1);
    if (!inside && g->padding == 'z') return 0;
    int64_t r = mo_saturate(row, 0, h - 1), c = mo_saturate(col, 0, w - 1);
    return mo_load(g->x, (plane * h + r) * w + c);
}

static double cubic_weight(double x) {
    x = fabs(x);
    const double a = -0.75;
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* mode: n nearest, l linear, c cubic */
static double sample(const struct grid *g, int64_t plane, double row, double col, char mode) {
    if (mode == 'n') return pixel(g, plane, nearbyint(row), nearbyint(col));
    int taps = mode == 'l' ? 2 : 4, before = taps / 2 - 1;
    double sum = 0, r0 = floor(row) - before, c0 = floor(col) - before;
    for (int i = 0; i < taps; i++)
        for (int j = 0; j < taps; j++) {
            double dy = row - (r0 + i), dx = col - (c0 + j);
            double weight =
                mode == 'l' ? (1 - fabs(dy)) * (1 - fabs(dx)) : cubic_weight(dy) * cubic_weight(dx);
            sum += weight * pixel(g, plane, r0 + i, c0 + j);
        }
    return sum;
}

static int run_grid(const struct mo_op_ctx *ctx) {
    if (!mo_wanted(ctx, 0) || !mo_count(&ctx->out[0])) return MOIRE_OK;
    const int64_t *y = ctx->out[0].shape.d, *x = ctx->in[0].shape.d;
    const char *mode = mo_attr_string(ctx->node, "mode", "bilinear");
    char kind = !strcmp(mode, "nearest")                             ? 'n'
                : !strcmp(mode, "bicubic") || !strcmp(mode, "cubic") ? 'c'
                                                                     : 'l';
    struct grid g = {.x = &ctx->in[0],
                     .align = mo_attr_int(ctx->node, "align_corners", 0) != 0,
                     .padding = *mo_attr_string(ctx->node, "padding_mode", "zeros")};
    if (!mo_count(g.x)) return mo_op_fail(ctx, MOIRE_ESHAPE, "the input is empty");
    for (int64_t i = 0; i < mo_count(&ctx->out[0]); i++) {
        int64_t plane = i / (y[2] * y[3]), at = (plane / y[1] * y[2] * y[3] + i % (y[2] * y[3])) * 2;
        double col = denormalize(mo_load(&ctx->in[1], at), x[3], g.align);
        double row = denormalize(mo_load(&ctx->in[1], at + 1), x[2], g.align);
        if (g.padding == 'b' && kind != 'c') { /* cubic taps are bounded one by one */
            row = fmin(fmax(row, 0), (double)(x[2] - 1));
            col = fmin(fmax(col, 0), (double)(x[3] - 1));
        } else if (g.padding == 'r' && kind != 'c') {
            row = reflect(row, x[2], g.align);
            col = reflect(col, x[3], g.align);
        }
        mo_store(&ctx->out[0], i, sample(&g, plane, row, col, kind));
    }
    return MOIRE_OK;
}

const struct mo_op mo_ops_vision[] = {
    {"NonMaxSuppression", "", 10, 2, 5, 1, 1, infer_nms, run_nms, 0},
    {"GridSample", "", 16, 2, 2, 1, 1, infer_grid, run_grid, 0},
    {0},
};
