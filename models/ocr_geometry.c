/* SPDX-License-Identifier: Apache-2.0
 * ocr_geometry.c - convex hull, smallest enclosing rectangle, order of corners. */
#include <math.h>
#include <stdlib.h>
#include "models/ocr.h"

#define PI 3.14159265358979323846

double mo_distance(struct mo_ocr_point a, struct mo_ocr_point b) {
    return hypot(a.x - b.x, a.y - b.y);
}

static int by_x(const void *a, const void *b) {
    const struct mo_ocr_point *p = a, *q = b;
    if (p->x != q->x) return p->x < q->x ? -1 : 1;
    return p->y < q->y ? -1 : p->y > q->y;
}

static double cross(struct mo_ocr_point o, struct mo_ocr_point a, struct mo_ocr_point b) {
    return (a.x - o.x) * (b.y - o.y) - (a.y - o.y) * (b.x - o.x);
}

/* Monotone chain; writes the hull (at most n + 1 points, first repeated) and returns its size. */
static int convex_hull(struct mo_ocr_point *points, int n, struct mo_ocr_point *hull) {
    int k = 0;
    qsort(points, (size_t)n, sizeof *points, by_x);
    for (int i = 0; i < n; i++) {
        while (k > 1 && cross(hull[k - 2], hull[k - 1], points[i]) <= 0)
            k--;
        hull[k++] = points[i];
    }
    int lower = k + 1;
    for (int i = n - 2; i >= 0; i--) {
        while (k >= lower && cross(hull[k - 2], hull[k - 1], points[i]) <= 0)
            k--;
        hull[k++] = points[i];
    }
    return k > 1 ? k - 1 : k;
}

struct frame {
    double low_u, high_u, low_v, high_v, area; /* extent along (c, s) and (-s, c) */
    double c, s;
};

static struct frame extent(const struct mo_ocr_point *hull, int n, double c, double s) {
    struct frame f = {HUGE_VAL, -HUGE_VAL, HUGE_VAL, -HUGE_VAL, 0, c, s};
    for (int i = 0; i < n; i++) {
        double u = hull[i].x * c + hull[i].y * s, v = hull[i].y * c - hull[i].x * s;
        f.low_u = fmin(f.low_u, u);
        f.high_u = fmax(f.high_u, u);
        f.low_v = fmin(f.low_v, v);
        f.high_v = fmax(f.high_v, v);
    }
    f.area = (f.high_u - f.low_u) * (f.high_v - f.low_v);
    return f;
}

struct mo_quad mo_order_corners(const struct mo_ocr_point corners[4]) {
    struct mo_ocr_point p[4] = {corners[0], corners[1], corners[2], corners[3]};
    qsort(p, 4, sizeof *p, by_x);
    bool left = p[1].y > p[0].y, right = p[3].y > p[2].y;
    return (struct mo_quad){{p[left ? 0 : 1], p[right ? 2 : 3], p[right ? 3 : 2], p[left ? 1 : 0]}};
}

/* One side of the smallest rectangle lies on a side of the hull. */
struct mo_quad mo_min_rectangle(struct mo_ocr_point *points, int n, double *short_side) {
    struct mo_ocr_point *hull = points + n;
    int k = convex_hull(points, n, hull);
    struct frame best = extent(hull, k, 1, 0);
    for (int i = 0; i < k; i++) {
        struct mo_ocr_point a = hull[i], b = hull[(i + 1) % k];
        double length = mo_distance(a, b);
        if (length <= 0) continue;
        struct frame f = extent(hull, k, (b.x - a.x) / length, (b.y - a.y) / length);
        if (f.area < best.area) best = f;
    }
    struct mo_ocr_point corner[4];
    for (int i = 0; i < 4; i++) {
        double u = i & 1 ? best.high_u : best.low_u, v = i & 2 ? best.high_v : best.low_v;
        corner[i] = (struct mo_ocr_point){u * best.c - v * best.s, u * best.s + v * best.c};
    }
    *short_side = fmin(best.high_u - best.low_u, best.high_v - best.low_v);
    return mo_order_corners(corner);
}

struct mo_quad mo_grow_quad(const struct mo_quad *q, double d, double *short_side) {
    enum { ARC = 8, POINTS = 4 * (ARC + 1) };
    struct mo_ocr_point points[2 * POINTS + 1];
    int n = 0;
    for (int i = 0; i < 4; i++) {
        struct mo_ocr_point before = q->p[(i + 3) % 4], at = q->p[i], after = q->p[(i + 1) % 4];
        double from = atan2(at.y - before.y, at.x - before.x),
               turn = atan2(after.y - at.y, after.x - at.x) - from;
        while (turn < 0)
            turn += 2 * PI;
        for (int k = 0; k <= ARC; k++) {
            double angle = from + turn * k / ARC - PI / 2; /* outwards: left of a clockwise walk */
            points[n++] = (struct mo_ocr_point){rint(at.x + d * cos(angle)), rint(at.y + d * sin(angle))};
        }
    }
    return mo_min_rectangle(points, n, short_side);
}
