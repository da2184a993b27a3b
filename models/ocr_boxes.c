/* SPDX-License-Identifier: Apache-2.0
 * ocr_boxes.c - from the detector's probability map to boxes of text lines: threshold, thicken, connected
 * components, smallest rectangle of each, mean probability inside, growth back to the size of the text
 * (the network marks a shrunken core of every line). */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "models/ocr.h"

#define THRESHOLD 0.3f
#define MIN_SCORE 0.5
#define UNCLIP    1.6
enum { MIN_SIDE = 3, SAME_LINE = 10 };

struct map {
    const float *p;
    int w, h;
    uint8_t *mask;
    int *stack;                  /* of the flood fill: w h entries */
    struct mo_ocr_point *points; /* leftmost and rightmost pixels of each row, and room for a hull */
    int *left, *right;           /* of each row; left > right: none */
};

/* Pixels over the threshold, each spread to its right and lower neighbours. */
static void make_mask(struct map *m) {
    for (int y = 0; y < m->h; y++)
        for (int x = 0; x < m->w; x++) {
            if (m->p[y * m->w + x] <= THRESHOLD) continue;
            for (int dy = 0; dy < 2 && y + dy < m->h; dy++)
                for (int dx = 0; dx < 2 && x + dx < m->w; dx++)
                    m->mask[(y + dy) * m->w + x + dx] = 1;
        }
}

/* Clears the component of (x, y) and returns how many points m->points got: the ends of its rows. */
static int take_component(struct map *m, int x, int y) {
    int top = 0, first = y, last = y, n = 0;
    m->stack[top++] = y * m->w + x;
    m->mask[y * m->w + x] = 0;
    while (top) {
        int at = m->stack[--top], cx = at % m->w, cy = at / m->w;
        if (cx < m->left[cy]) m->left[cy] = cx;
        if (cx > m->right[cy]) m->right[cy] = cx;
        if (cy > last) last = cy;
        if (cy < first) first = cy;
        for (int k = 0; k < 9; k++) {
            int nx = cx + k % 3 - 1, ny = cy + k / 3 - 1;
            if (nx < 0 || ny < 0 || nx >= m->w || ny >= m->h || !m->mask[ny * m->w + nx]) continue;
            m->mask[ny * m->w + nx] = 0;
            m->stack[top++] = ny * m->w + nx;
        }
    }
    for (int r = first; r <= last; r++) {
        m->points[n++] = (struct mo_ocr_point){m->left[r], r};
        m->points[n++] = (struct mo_ocr_point){m->right[r], r};
        m->left[r] = m->w;
        m->right[r] = -1;
    }
    return n;
}

/* Is (x, y) inside the convex quadrilateral or on its border? */
static bool inside(const struct mo_quad *q, double x, double y) {
    for (int i = 0; i < 4; i++) {
        struct mo_ocr_point a = q->p[i], b = q->p[(i + 1) % 4];
        if ((b.x - a.x) * (y - a.y) - (b.y - a.y) * (x - a.x) < -1e-9) return false;
    }
    return true;
}

static int clamp(double v, int low, int high) {
    return v < low ? low : v > high ? high : (int)v;
}

/* Corners at whole pixels, which is how score and growth of a box are defined. */
static struct mo_quad whole_pixels(const struct mo_quad *q) {
    struct mo_quad out;
    for (int i = 0; i < 4; i++)
        out.p[i] = (struct mo_ocr_point){floor(q->p[i].x), floor(q->p[i].y)};
    return out;
}

static double mean_inside(const struct map *m, const struct mo_quad *q) {
    double x0 = HUGE_VAL, x1 = -HUGE_VAL, y0 = HUGE_VAL, y1 = -HUGE_VAL, sum = 0;
    long n = 0;
    for (int i = 0; i < 4; i++) {
        x0 = fmin(x0, q->p[i].x);
        x1 = fmax(x1, q->p[i].x);
        y0 = fmin(y0, q->p[i].y);
        y1 = fmax(y1, q->p[i].y);
    }
    for (int y = clamp(y0, 0, m->h - 1); y <= clamp(y1, 0, m->h - 1); y++)
        for (int x = clamp(x0, 0, m->w - 1); x <= clamp(x1, 0, m->w - 1); x++) {
            if (!inside(q, x, y)) continue;
            sum += (double)m->p[y * m->w + x];
            n++;
        }
    return n ? sum / (double)n : 0;
}

/* The core's rectangle grown to the text, in pixels of the image; false when it is no text. */
static bool text_box(const struct map *m, int n, int image_w, int image_h, struct mo_quad *out) {
    double side;
    struct mo_quad core = mo_min_rectangle(m->points, n, &side), whole = whole_pixels(&core);
    if (side < MIN_SIDE || mean_inside(m, &whole) < MIN_SCORE) return false;
    double a = mo_distance(core.p[0], core.p[1]), b = mo_distance(core.p[0], core.p[3]);
    double d = a * b * UNCLIP / (2 * (a + b));
    struct mo_quad grown = mo_grow_quad(&whole, d, &side);
    if (side < MIN_SIDE + 2) return false;
    for (int i = 0; i < 4; i++) {
        grown.p[i].x = clamp(rint(grown.p[i].x / m->w * image_w), 0, image_w - 1);
        grown.p[i].y = clamp(rint(grown.p[i].y / m->h * image_h), 0, image_h - 1);
    }
    *out = mo_order_corners(grown.p);
    return mo_distance(out->p[0], out->p[1]) >= MIN_SIDE + 1 &&
           mo_distance(out->p[0], out->p[3]) >= MIN_SIDE + 1;
}

static int by_row(const void *a, const void *b) {
    struct mo_ocr_point p = ((const struct mo_quad *)a)->p[0], q = ((const struct mo_quad *)b)->p[0];
    if (p.y != q.y) return p.y < q.y ? -1 : 1;
    return p.x < q.x ? -1 : p.x > q.x;
}

/* From top to bottom; boxes whose tops differ by a few pixels are one line, read from the left. */
static void reading_order(struct mo_quad *box, int n) {
    qsort(box, (size_t)n, sizeof *box, by_row);
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0; j--) {
            struct mo_ocr_point a = box[j - 1].p[0], b = box[j].p[0];
            if (fabs(a.y - b.y) >= SAME_LINE || b.x >= a.x) break;
            struct mo_quad swap = box[j];
            box[j] = box[j - 1];
            box[j - 1] = swap;
        }
}

static bool make_room(struct mo_region *region, struct map *m) {
    size_t pixels = (size_t)m->w * (size_t)m->h, rows = (size_t)m->h;
    m->mask = mo_region_alloc(region, pixels);
    m->stack = mo_region_array(region, pixels, sizeof *m->stack);
    m->points = mo_region_array(region, 4 * rows + 2, sizeof *m->points);
    m->left = mo_region_array(region, rows, sizeof *m->left);
    m->right = mo_region_array(region, rows, sizeof *m->right);
    if (!m->mask || !m->stack || !m->points || !m->left || !m->right) return false;
    for (int y = 0; y < m->h; y++) {
        m->left[y] = m->w;
        m->right[y] = -1;
    }
    return true;
}

int mo_ocr_boxes(struct mo_region *region, const moire_tensor *map, int image_w, int image_h,
                 struct mo_quad **boxes, int *n, moire_error *err) {
    *n = 0;
    if (map->dtype != MOIRE_F32 || map->rank != 4 || map->shape[0] != 1 || map->shape[1] != 1 ||
        map->shape[2] < 1 || map->shape[3] < 1 || map->shape[2] > 16384 || map->shape[3] > 16384)
        return mo_fail(err, MOIRE_ESHAPE, "detector: the output is no probability map [1,1,h,w]");
    struct map m = {.p = map->data, .w = (int)map->shape[3], .h = (int)map->shape[2]};
    *boxes = mo_region_array(region, MO_OCR_MAX_BOXES, sizeof **boxes);
    if (!*boxes || !make_room(region, &m)) return mo_fail(err, MOIRE_ENOMEM, "detector: out of memory");
    make_mask(&m);
    for (int at = 0; at < m.w * m.h && *n < MO_OCR_MAX_BOXES; at++)
        if (m.mask[at] &&
            text_box(&m, take_component(&m, at % m.w, at / m.w), image_w, image_h, &(*boxes)[*n]))
            ++*n;
    reading_order(*boxes, *n);
    return MOIRE_OK;
}
