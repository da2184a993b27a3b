/* SPDX-License-Identifier: Apache-2.0
 * ocr_image.c - images: reading PPM, resizing, cutting out quadrilaterals, turning into network input. */
#include <math.h>
#include <string.h>
#include "models/ocr.h"
#include "runtime/base/file.h"

enum { MAX_SIDE = 16384, WEIGHT_BITS = 11, WEIGHT_ONE = 1 << WEIGHT_BITS };

static int new_image(struct mo_region *region, int w, int h, struct mo_image *out) {
    *out = (struct mo_image){.w = w, .h = h, .px = mo_region_array(region, (size_t)w * 3, (size_t)h)};
    return out->px ? MOIRE_OK : MOIRE_ENOMEM;
}

/* --- PPM --- */

/* Next number of the header; -1 when there is none.  A '#' comments out the rest of its line. */
static int header_number(const uint8_t *s, size_t n, size_t *at) {
    while (*at < n && (s[*at] == '#' || strchr(" \t\r\n", s[*at]))) {
        if (s[*at] == '#')
            while (*at < n && s[*at] != '\n')
                ++*at;
        else
            ++*at;
    }
    int value = -1;
    for (; *at < n && s[*at] >= '0' && s[*at] <= '9' && value <= MAX_SIDE; ++*at)
        value = (value < 0 ? 0 : value) * 10 + s[*at] - '0';
    return value;
}

static int parse_ppm(struct mo_region *region, const char *path, const uint8_t *s, size_t n,
                     struct mo_image *out, moire_error *err) {
    size_t at = 2;
    if (n < 2 || s[0] != 'P' || s[1] != '6')
        return mo_fail(err, MOIRE_EFORMAT, "%s: not a binary PPM (P6); convert the image to PPM first", path);
    int w = header_number(s, n, &at), h = header_number(s, n, &at), top = header_number(s, n, &at);
    at++;
    if (w < 1 || h < 1 || w > MAX_SIDE || h > MAX_SIDE || top != 255)
        return mo_fail(err, MOIRE_EFORMAT, "%s: bad PPM header; sizes up to %d and 8 bits are read", path,
                       MAX_SIDE);
    size_t bytes = (size_t)w * 3 * (size_t)h;
    if (at > n || n - at < bytes)
        return mo_fail(err, MOIRE_EFORMAT, "%s: the file ends before the last pixel", path);
    if (new_image(region, w, h, out)) return mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path);
    memcpy(out->px, s + at, bytes);
    return MOIRE_OK;
}

int mo_image_read(const struct mo_env *env, struct mo_region *region, const char *path, struct mo_image *out,
                  moire_error *err) {
    char *bytes;
    size_t n;
    int code = mo_file_read(env, path, env->limits.image_bytes, "image_bytes", &bytes, &n, err);
    if (!code) code = parse_ppm(region, path, (const uint8_t *)bytes, n, out, err);
    mo_free(env, bytes);
    return code;
}

/* --- resize --- */

struct tap {
    int at, next, weight; /* pixel, its neighbour, weight of the neighbour */
};

static struct tap *make_taps(struct mo_region *region, int in, int out) {
    struct tap *taps = mo_region_array(region, (size_t)out, sizeof *taps);
    for (int i = 0; taps && i < out; i++) {
        double f = (i + 0.5) * in / out - 0.5;
        int at = (int)floor(f);
        double t = f - at;
        if (at < 0) at = 0, t = 0;
        if (at >= in - 1) at = in - 1, t = 0;
        taps[i] = (struct tap){at, at + 1 < in ? at + 1 : at, (int)lrint(t * WEIGHT_ONE)};
    }
    return taps;
}

static void blend_row(const uint8_t *src, const struct tap *taps, int w, int *out) {
    for (int x = 0; x < w; x++)
        for (int c = 0; c < 3; c++)
            out[3 * x + c] = src[3 * taps[x].at + c] * (WEIGHT_ONE - taps[x].weight) +
                             src[3 * taps[x].next + c] * taps[x].weight;
}

int mo_image_resize(struct mo_region *region, const struct mo_image *in, int w, int h, struct mo_image *out) {
    struct tap *tx = make_taps(region, in->w, w), *ty = make_taps(region, in->h, h);
    int *rows = mo_region_array(region, (size_t)w * 6, sizeof *rows);
    if (!tx || !ty || !rows || new_image(region, w, h, out)) return MOIRE_ENOMEM;
    for (int y = 0; y < h; y++) {
        int *a = rows, *b = rows + 3 * w, weight = ty[y].weight;
        blend_row(in->px + (size_t)ty[y].at * 3 * (size_t)in->w, tx, w, a);
        blend_row(in->px + (size_t)ty[y].next * 3 * (size_t)in->w, tx, w, b);
        uint8_t *dst = out->px + (size_t)y * 3 * (size_t)w;
        for (int x = 0; x < 3 * w; x++)
            dst[x] =
                (uint8_t)((((WEIGHT_ONE - weight) * (a[x] >> 4) >> 16) + (weight * (b[x] >> 4) >> 16) + 2) >>
                          2);
    }
    return MOIRE_OK;
}

/* --- crop --- */

/* Solves the 8 equations of the projective map that takes (0,0) (w,0) (w,h) (0,h) to the corners. */
static bool projective(const struct mo_quad *q, double w, double h, double m[9]) {
    const double from[4][2] = {{0, 0}, {w, 0}, {w, h}, {0, h}};
    double a[8][9] = {{0}};
    for (int i = 0; i < 4; i++) {
        double u = from[i][0], v = from[i][1], x = q->p[i].x, y = q->p[i].y;
        const double row[2][9] = {{u, v, 1, 0, 0, 0, -u * x, -v * x, x},
                                  {0, 0, 0, u, v, 1, -u * y, -v * y, y}};
        memcpy(a[2 * i], row, sizeof row);
    }
    for (int k = 0; k < 8; k++) {
        int pivot = k;
        for (int i = k + 1; i < 8; i++)
            if (fabs(a[i][k]) > fabs(a[pivot][k])) pivot = i;
        if (fabs(a[pivot][k]) < 1e-12) return false;
        for (int j = 0; j < 9; j++) {
            double swap = a[k][j];
            a[k][j] = a[pivot][j];
            a[pivot][j] = swap;
        }
        for (int i = 0; i < 8; i++) {
            double f = i == k ? 0 : a[i][k] / a[k][k];
            for (int j = k; j < 9; j++)
                a[i][j] -= f * a[k][j];
        }
    }
    for (int k = 0; k < 8; k++)
        m[k] = a[k][8] / a[k][k];
    m[8] = 1;
    return true;
}

/* Weights of the cubic convolution with a = -0.75 for taps -1 .. 2. */
static void cubic(double t, double w[4]) {
    const double a = -0.75;
    w[0] = ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a;
    w[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
    w[2] = ((a + 2) * (1 - t) - (a + 3)) * (1 - t) * (1 - t) + 1;
    w[3] = 1 - w[0] - w[1] - w[2];
}

static int clamp(int v, int high) {
    return v < 0 ? 0 : v > high ? high : v;
}

static void sample(const struct mo_image *in, double x, double y, uint8_t *out) {
    int x0 = (int)floor(x), y0 = (int)floor(y);
    double wx[4], wy[4], sum[3] = {0};
    cubic(x - x0, wx);
    cubic(y - y0, wy);
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < 4; i++) {
            size_t at =
                (size_t)clamp(y0 + j - 1, in->h - 1) * (size_t)in->w + (size_t)clamp(x0 + i - 1, in->w - 1);
            for (int c = 0; c < 3; c++)
                sum[c] += wy[j] * wx[i] * in->px[3 * at + (size_t)c];
        }
    for (int c = 0; c < 3; c++)
        out[c] = (uint8_t)clamp((int)lrint(sum[c]), 255);
}

/* A quarter turn to the left. */
static int lay_down(struct mo_region *region, struct mo_image *image) {
    struct mo_image out;
    if (new_image(region, image->h, image->w, &out)) return MOIRE_ENOMEM;
    for (int y = 0; y < out.h; y++)
        for (int x = 0; x < out.w; x++)
            memcpy(out.px + 3 * ((size_t)y * (size_t)out.w + (size_t)x),
                   image->px + 3 * ((size_t)x * (size_t)image->w + (size_t)(image->w - 1 - y)), 3);
    *image = out;
    return MOIRE_OK;
}

int mo_image_crop(struct mo_region *region, const struct mo_image *in, const struct mo_quad *q,
                  struct mo_image *out) {
    int w = (int)fmax(mo_distance(q->p[0], q->p[1]), mo_distance(q->p[2], q->p[3]));
    int h = (int)fmax(mo_distance(q->p[0], q->p[3]), mo_distance(q->p[1], q->p[2]));
    double m[9];
    if (w < 1 || h < 1 || w > MAX_SIDE || h > MAX_SIDE || !projective(q, w, h, m)) return MOIRE_EINVAL;
    if (new_image(region, w, h, out)) return MOIRE_ENOMEM;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            double d = m[6] * x + m[7] * y + m[8];
            double sx = d ? (m[0] * x + m[1] * y + m[2]) / d : 0,
                   sy = d ? (m[3] * x + m[4] * y + m[5]) / d : 0;
            sx = fmin(fmax(sx, -1), in->w);
            sy = fmin(fmax(sy, -1), in->h);
            sample(in, sx, sy, out->px + 3 * ((size_t)y * (size_t)w + (size_t)x));
        }
    return 2 * h >= 3 * w ? lay_down(region, out) : MOIRE_OK;
}

void mo_image_turn(struct mo_image *image) {
    size_t n = (size_t)image->w * (size_t)image->h;
    for (size_t i = 0; i < n / 2; i++) {
        uint8_t *a = image->px + 3 * i, *b = image->px + 3 * (n - 1 - i), swap[3];
        memcpy(swap, a, 3);
        memcpy(a, b, 3);
        memcpy(b, swap, 3);
    }
}

int mo_image_tensor(struct mo_region *region, const struct mo_image *image, int width, moire_tensor *out) {
    size_t plane = (size_t)width * (size_t)image->h;
    float *data = mo_region_array(region, plane, 3 * sizeof *data);
    if (!data || width < image->w) return data ? MOIRE_EINVAL : MOIRE_ENOMEM;
    for (int y = 0; y < image->h; y++)
        for (int x = 0; x < image->w; x++) {
            const uint8_t *px = image->px + 3 * ((size_t)y * (size_t)image->w + (size_t)x);
            for (size_t c = 0; c < 3; c++)
                data[c * plane + (size_t)y * (size_t)width + (size_t)x] =
                    ((float)px[2 - c] / 255.0f - 0.5f) / 0.5f;
        }
    *out = (moire_tensor){.dtype = MOIRE_F32, .rank = 4, .shape = {1, 3, image->h, width}, .data = data};
    out->bytes = plane * 3 * sizeof *data;
    return MOIRE_OK;
}
