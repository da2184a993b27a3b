/* SPDX-License-Identifier: Apache-2.0
 * move.c - kernels that only move data: change of layout, boxes between strided places. */
#include "variants/simd/math.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"
#include "variants/simd/transpose.h"

/* `x` is the plain side: channel c of pixel i at x[c * area + i]; `y` the blocked one.  The last 16 pixels
 * may overlap the 16 before them: the same bytes are written twice. */
static void to_blocked(const float *x, float *y, int64_t area, int64_t n, int64_t valid) {
    for (int64_t i = 0; n >= 16 && i < n; i += 16) {
        int64_t at = n - i < 16 ? n - 16 : i;
        if (valid == 16)
            transpose16(x + at, area, y + at * 16, 16);
        else
            transpose16_from(x + at, area, y + at * 16, 16, (int)valid);
    }
    for (int64_t i = 0; n < 16 && i < n; i++)
        for (int64_t c = 0; c < 16; c++)
            y[i * 16 + c] = c < valid ? x[c * area + i] : 0.0f;
}

static void to_plain(const float *y, float *x, int64_t area, int64_t n, int64_t valid) {
    for (int64_t i = 0; n >= 16 && i < n; i += 16) {
        int64_t at = n - i < 16 ? n - 16 : i;
        if (valid == 16)
            transpose16(y + at * 16, 16, x + at, area);
        else
            transpose16_to(y + at * 16, 16, x + at, area, (int)valid);
    }
    for (int64_t c = 0; n < 16 && c < valid; c++)
        for (int64_t i = 0; i < n; i++)
            x[c * area + i] = y[i * 16 + c];
}

/* The same for bytes, which are few. */
static void bytes_to_blocked(const uint8_t *x, uint8_t *restrict y, int64_t area, int64_t n, int64_t valid) {
    const uint8_t *g = x + area, *b = g + area;
    for (int64_t i = 0; valid == 3 && i < n; i++) { /* an image */
        const uint32_t lanes[4] = {x[i] | (uint32_t)g[i] << 8 | (uint32_t)b[i] << 16};
        memcpy(y + i * 16, lanes, 16);
    }
    if (valid == 3) return;
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < 16; c++)
            y[i * 16 + c] = c < valid ? x[c * area + i] : 0;
}

static void bytes_to_plain(const uint8_t *y, uint8_t *restrict x, int64_t area, int64_t n, int64_t valid) {
    for (int64_t c = 0; c < valid; c++)
        for (int64_t i = 0; i < n; i++)
            x[c * area + i] = y[i * 16 + c];
}

void MO_SIMD(reorder)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_reorder_params *p = args->params;
    (void)scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t first = unit % p->chunks * p->chunk, block = unit / p->chunks % p->blocks;
        int64_t image = unit / p->chunks / p->blocks,
                n = p->area - first < p->chunk ? p->area - first : p->chunk;
        int64_t valid = p->channels - block * 16 < 16 ? p->channels - block * 16 : 16;
        const void *in = (const char *)args->in[0] + image * args->in_image[0];
        void *out = (char *)args->out[0] + image * args->out_image[0];
        int64_t plain = block * 16 * p->area + first, blocked = (block * p->area + first) * 16;
        if (p->bytes && p->to_blocked)
            bytes_to_blocked((const uint8_t *)in + plain, (uint8_t *)out + blocked, p->area, n, valid);
        else if (p->bytes)
            bytes_to_plain((const uint8_t *)in + blocked, (uint8_t *)out + plain, p->area, n, valid);
        else if (p->to_blocked)
            to_blocked((const float *)in + plain, (float *)out + blocked, p->area, n, valid);
        else
            to_plain((const float *)in + blocked, (float *)out + plain, p->area, n, valid);
    }
}

static inline __attribute__((always_inline)) void copy_strided(const char *from, char *to, int64_t n,
                                                               int64_t stride, const size_t element) {
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * (int64_t)element, from + i * stride, element);
}

static void copy_line(const char *from, char *to, int64_t n, int64_t stride, size_t element) {
    if (stride == (int64_t)element)
        memcpy(to, from, (size_t)n * element);
    else if (element == 4)
        copy_strided(from, to, n, stride, 4);
    else if (element == 8)
        copy_strided(from, to, n, stride, 8);
    else
        copy_strided(from, to, n, stride, element);
}

/* `n` lines whose beginnings are so many bytes apart; one of 16 floats is a channel block of a pixel. */
static void copy_lines(const struct mo_box *box, const char *from, char *to, int64_t n, size_t element) {
    int last = box->rank - 1;
    int64_t in_step = last ? box->in_stride[last - 1] : 0, out_step = last ? box->out_stride[last - 1] : 0;
    bool block = box->dims[last] * (int64_t)element == 64 && box->in_stride[last] == (int64_t)element;
    for (int64_t i = 0; i < n; i++, from += in_step, to += out_step)
        if (block)
            memcpy(to, from, 64);
        else
            copy_line(from, to, box->dims[last], box->in_stride[last], element);
}

static void copy_rows(const struct mo_box *box, const char *in, char *out, int64_t first, int64_t last,
                      size_t element) {
    int inner = box->rank - 2;
    int64_t lines = inner < 0 ? 1 : box->dims[inner];
    for (int64_t row = first, n; row < last; row += n) {
        int64_t at = row % lines, left = row / lines, from = box->in_at, to = box->out_at;
        n = lines - at < last - row ? lines - at : last - row;
        if (inner >= 0) {
            from += at * box->in_stride[inner];
            to += at * box->out_stride[inner];
        }
        for (int d = inner - 1; d >= 0; d--) {
            int64_t i = left % box->dims[d];
            left /= box->dims[d];
            from += i * box->in_stride[d];
            to += i * box->out_stride[d];
        }
        copy_lines(box, in + from, out + to, n, element);
    }
}

/* n x columns of a swapped copy in tiles of 16 x 16; the last tiles overlap the ones before them. */
static void swap_tiles(const float *x, int64_t step, float *y, int64_t line, int64_t n, int64_t columns) {
    if (n < 16 || columns < 16) {
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < columns; j++)
                y[i * line + j] = x[j * step + i];
        return;
    }
    for (int64_t i = 0; i < n; i += 16)
        for (int64_t j = 0; j < columns; j += 16) {
            int64_t a = n - i < 16 ? n - 16 : i, b = columns - j < 16 ? columns - 16 : j;
            transpose16(x + b * step + a, step, y + a * line + b, line);
        }
}

/* The last two dimensions swapped: the input is contiguous along the rows. */
static void copy_swapped(const struct mo_box *box, const char *in, char *out, int64_t first, int64_t last) {
    int r = box->rank;
    int64_t rows = box->dims[r - 2], columns = box->dims[r - 1];
    for (int64_t row = first; row < last;) {
        int64_t left = row / rows, at = row % rows, n = rows - at < last - row ? rows - at : last - row;
        int64_t from = box->in_at + at * 4, to = box->out_at + at * box->out_stride[r - 2];
        for (int d = r - 3; d >= 0; d--) {
            from += left % box->dims[d] * box->in_stride[d];
            to += left % box->dims[d] * box->out_stride[d];
            left /= box->dims[d];
        }
        swap_tiles((const float *)(in + from), box->in_stride[r - 1] / 4, (float *)(out + to),
                   box->out_stride[r - 2] / 4, n, columns);
        row += n;
    }
}

void MO_SIMD(copy)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_copy_params *p = args->params;
    int b = 0;
    (void)scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        while (b + 1 < p->n_boxes && unit >= p->boxes[b + 1].first_unit)
            b++;
        const struct mo_box *box = &p->boxes[b];
        int64_t first = (unit - box->first_unit) * box->group;
        int64_t last = first + box->group < box->rows ? first + box->group : box->rows;
        const char *in = box->in < 0 ? p->fill : args->in[box->in];
        char *out = args->out[box->out];
        if (p->element == 4 && box->rank >= 2 && box->in_stride[box->rank - 2] == 4 &&
            box->in_stride[box->rank - 1] != 4)
            copy_swapped(box, in, out, first, last);
        else
            copy_rows(box, in, out, first, last, (size_t)p->element);
    }
}
