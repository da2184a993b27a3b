/* SPDX-License-Identifier: Apache-2.0
 * matrix_walk.c - runs layers on a matrix unit: packs bands of the input, multiplies, writes outputs. */
#include "variants/matrix/matrix_walk.h"

#include <math.h>
#include <string.h>

/* Of a sum, from which on it pays to write other sums meanwhile; and up to which it pays, if all of them are
 * written before the sum is stored. */
enum { MANY_STEPS = 18, FEW_STEPS = 2 };

/* What a unit of work is. */
struct spot {
    int64_t image, group;
    int64_t row, rows;    /* of the output */
    int64_t set, end_set; /* pairs of output blocks, in the group */
    const char *x, *residual, *gate;
    char *y;
};

/* In the copies of every term. */
static void blank(const struct mo_matrix_walk *p, char *to, int with, int64_t bytes) {
    for (int term = 0; term < p->shape.terms; term++)
        memset(to + term * p->term_bytes, with, (size_t)bytes);
}

/* A packed row of one chunk; `iy` may lie outside the image. */
static void pack_row(const struct mo_matrix_walk *p, const struct spot *s, int64_t chunk, int64_t iy,
                     char *to, int fold_at) {
    const struct mo_matrix_shape *shape = &p->shape;
    const int fill = p->small && p->small->dot ? p->small->zero : 0;
    const int64_t step = shape->column_step, width = shape->width;
    const bool narrow = shape->narrow;
    const int64_t each = narrow ? 4 * shape->element : width;
    to += fold_at * each;
    /* columns before the image, in it, and behind it */
    int64_t before = (p->pl + step - 1) / step, inside = (p->w - 1 + p->pl) / step + 1;
    if (before > p->columns) before = p->columns;
    if (inside > p->columns) inside = p->columns;
    if (iy < 0 || iy >= p->h || inside < before) before = inside = p->columns;
    if (narrow) {
        for (int64_t i = 0; i < before; i++)
            blank(p, to + i * width, fill, each);
        for (int64_t i = inside; i < p->columns; i++)
            blank(p, to + i * width, fill, each);
    } else {
        blank(p, to, fill, before * width);
        blank(p, to + inside * width, fill, (p->columns - inside) * width);
    }
    if (inside == before) return;
    const int64_t first = chunk * shape->planes, left = p->icb - first;
    struct mo_gather g = {.from = s->x + first * p->x.plane + iy * p->x.row +
                                  (before * step - p->pl) * p->x.pixel,
                          .plane = p->x.plane,
                          .pixel = step * p->x.pixel,
                          .planes = narrow ? p->x_planes : (int)(left < shape->planes ? left : shape->planes),
                          .lanes = left <= shape->planes ? p->x_lanes : 16,
                          .n = inside - before,
                          .to = to + before * width,
                          .width = width,
                          .term = p->term_bytes};
    p->gather(&g);
}

/* All rows of a line are one, and a chunk is a step. */
static void pack_line(const struct mo_matrix_walk *p, const struct spot *s, int64_t slab, char *to) {
    const int64_t begin = slab * p->slab_steps, end = begin + p->slab_steps;
    for (int64_t chunk = begin; chunk < end && chunk < p->shape.chunks; chunk++, to += p->chunk_bytes) {
        const int64_t first = chunk * p->shape.planes, left = p->icb - first;
        struct mo_gather g = {.from = s->x + first * p->x.plane + s->row * p->x.row,
                              .plane = p->x.plane,
                              .pixel = p->x.row,
                              .planes = (int)(left < p->shape.planes ? left : p->shape.planes),
                              .lanes = left <= p->shape.planes ? p->x_lanes : 16,
                              .gate = s->gate ? (const float *)s->gate + first * 16 : NULL,
                              .n = s->rows,
                              .to = to,
                              .width = p->shape.width,
                              .term = p->term_bytes};
        p->gather(&g);
        blank(p, to + s->rows * p->shape.width, 0, MO_MATRIX_STEP); /* what the last step may read */
    }
}

static void pack_band(const struct mo_matrix_walk *p, const struct spot *s, char *to) {
    const struct mo_matrix_shape *shape = &p->shape;
    if (p->line) {
        pack_line(p, s, 0, to);
        return;
    }
    const int64_t row_bytes = p->columns * shape->width, top = s->row * p->sh - p->pt;
    const int64_t last = (s->rows - 1) * p->sh + (shape->filter_rows - 1) * shape->fold * p->dh;
    for (int64_t chunk = 0; chunk < shape->chunks; chunk++) {
        char *at = to + chunk * p->chunk_bytes;
        for (int64_t row = 0; row <= last; row += shape->row_step, at += row_bytes)
            for (int fold = 0; fold < shape->fold; fold++)
                pack_row(p, s, chunk, top + row + fold, at, fold);
        blank(p, at, 0, MO_MATRIX_STEP); /* what the last step of a run may read */
    }
}

/* Floats to float32 or bfloat16.  Whatever is no plain bound goes by way of the sums' place. */
static void write_pixels(const struct mo_matrix_walk *p, float *sums, int64_t pixels, int lanes,
                         const char *residual, char *y) {
    const int64_t y_pixel = p->line ? p->y.row : p->y.pixel;
    int64_t residual_pixel = p->line ? p->residual.row : p->residual.pixel;
    float wide[MO_MATRIX_PAIR * MO_MATRIX_POSITIONS * 16];
    if (p->y.halves && p->bounds && (!residual || (p->residual.halves && !p->fuse.residual_last))) {
        p->unit->narrow(p->lo, p->hi, sums, pixels, residual, y);
        return;
    }
    if (residual && p->residual.halves) {
        for (int64_t i = 0; i < pixels * 16; i++)
            wide[i] = mo_bfloat16_wide(((const uint16_t *)residual)[i]);
        residual = (const char *)wide, residual_pixel = 64;
    }
    char *to = p->y.halves ? (char *)sums : y;
    p->write_floats(&p->fuse, sums, pixels, lanes, residual, residual_pixel, to, p->y.halves ? 64 : y_pixel);
    if (p->y.halves) p->unit->narrow(-INFINITY, INFINITY, sums, pixels, NULL, y);
}

/* Sums of `pixels` positions of one output block to the output, from the pixel at (row, column) on. */
static void write_out(const struct mo_matrix_walk *p, const struct spot *s, int64_t block, char *sums,
                      int64_t pixels, int64_t row, int64_t column) {
    char *y = s->y + block * p->y.plane + row * p->y.row + column * p->y.pixel;
    const int64_t channel = (s->group * p->ocb + block) * 16, y_pixel = p->line ? p->y.row : p->y.pixel;
    const int lanes = block + 1 == p->ocb ? p->y_lanes : 16;
    if (!p->small) {
        const char *residual = s->residual;
        if (residual)
            residual += block * p->residual.plane + row * p->residual.row + column * p->residual.pixel;
        write_pixels(p, (float *)sums, pixels, lanes, residual, y);
        return;
    }
    const struct mo_conv_small *small = p->small;
    if (lanes == 16 && small->pack && y_pixel == 16) {
        p->unit->small_pixels(small->pack, sums, small->factor + channel, small->bias + channel, pixels, y);
        return;
    }
    if (lanes == 16) {
        small->requantize(&small->requant, sums, small->factor + channel, small->bias + channel, pixels, y,
                          y_pixel);
        return;
    }
    const int64_t size = small->requant.to == MOIRE_F32 ? 4 : 1;
    char all[MO_MATRIX_PAIR * MO_MATRIX_POSITIONS * 64];
    small->requantize(&small->requant, sums, small->factor + channel, small->bias + channel, pixels, all,
                      16 * size);
    for (int64_t i = 0; i < pixels; i++)
        memcpy(y + i * y_pixel, all + i * 16 * size, (size_t)(lanes * size));
}

/* Positions are pixels of a row, of some rows and what lies between them, or of a line. */
static void write_positions(const struct mo_matrix_walk *p, const struct spot *s, int64_t block, char *sums,
                            int64_t left, int64_t row, int64_t column) {
    if (p->line) {
        int64_t n = s->rows - row < left ? s->rows - row : left;
        write_out(p, s, block, sums, n, row, 0);
        return;
    }
    while (left > 0 && row < s->rows) {
        const bool gapless = p->dense && p->columns == p->ow;
        const int64_t most = (gapless ? (s->rows - row) * p->ow : p->ow) - column;
        int64_t n = most < left ? most : left;
        if (n > 0) write_out(p, s, block, sums, n, row, column);
        if (!p->dense || gapless) return;
        n = p->columns - column < left ? p->columns - column : left;
        sums += n * 64, left -= n;
        column = 0, row++;
    }
}

/* What sums of these blocks start from, with this query's zero point where the layer has none. */
static const void *start_of(const struct mo_matrix_walk *p, const struct mo_kargs *args, int64_t first,
                            int64_t blocks, int32_t *own) {
    if (!p->small || !p->small->sums) return args->bias + first * 16;
    const int32_t zero = *(const uint8_t *)args->in[MO_QCONV_X_ZERO], *sums = p->small->sums + first * 16;
    for (int64_t i = 0; i < blocks * 16; i++)
        own[i] = -zero * sums[i];
    return own;
}

/* Jobs of a pair of output blocks. */
struct set {
    const struct mo_matrix_walk *walk;
    const struct spot *spot;
    int blocks;
    int64_t block;
    const char *packed;
    char *sums;
    int64_t tiles, along, down; /* bytes from a position to the next, and to the next row of outputs */
    int64_t row, column;        /* where the next tile begins */
    struct mo_matrix_tiles *ring;
    struct mo_matrix_tiles *done; /* whose sums are complete and not written, or NULL */
};

/* Both blocks of a product, if that is possible. */
static bool write_rows(const struct set *set, const struct mo_matrix_tiles *t) {
    const struct mo_matrix_walk *p = set->walk;
    const struct mo_conv_small *small = p->small;
    if (!p->line || p->y.plane != 16 || !small || !small->pack || set->blocks != 2) return false;
    if (p->y_lanes != 16 && set->block + 2 == p->ocb) return false;
    const int64_t channel = (set->spot->group * p->ocb + set->block) * 16, row = t->row[0];
    const int64_t left = set->spot->rows - row, most = (int64_t)t->n * MO_MATRIX_POSITIONS;
    p->unit->small_rows(small->pack, t->sums, small->factor + channel, small->bias + channel,
                        left < most ? left : most, set->spot->y + set->block * 16 + row * p->y.row, p->y.row);
    return true;
}

/* Of one block: where positions run on, all tiles are one. */
static void write_next(void *of) {
    struct mo_matrix_tiles *t = of;
    const struct set *set = t->of;
    if (t->written == set->blocks) return;
    if (t->written == 0 && write_rows(set, t)) {
        t->written = set->blocks;
        return;
    }
    const int runs = set->walk->dense ? 1 : t->n, b = t->written++;
    char *sums = t->sums + b * MO_MATRIX_PAIR * MO_MATRIX_TILE;
    for (int i = 0; i < runs; i++)
        write_positions(set->walk, set->spot, set->block + b, sums + i * MO_MATRIX_TILE,
                        (int64_t)(t->n / runs) * MO_MATRIX_POSITIONS, t->row[i], t->column[i]);
}

static void write_done(struct set *set) {
    while (set->done && set->done->written < set->blocks)
        write_next(set->done);
    set->done = NULL;
}

/* The n-th job. */
static struct mo_matrix_tiles *tiles_at(struct set *set, int64_t n) {
    return &set->ring[n & (set->walk->unwritten - 1)];
}

static void go_on(const struct mo_matrix_walk *p, int64_t *row, int64_t *column) {
    if (p->line) {
        *row += MO_MATRIX_POSITIONS;
        return;
    }
    *column += MO_MATRIX_POSITIONS;
    if (p->dense)
        for (; *column >= p->columns; ++*row)
            *column -= p->columns;
    else if (*column >= p->ow)
        *column = 0, ++*row;
}

/* Jobs are placed in order. */
static void place_tiles(struct set *set, struct mo_matrix_tiles *t, int64_t n) {
    const int64_t first = n * MO_MATRIX_PAIR;
    t->of = set;
    t->n = set->tiles - first < MO_MATRIX_PAIR ? 1 : MO_MATRIX_PAIR;
    t->sums = set->sums + (set->walk->slabs > 1 ? n : n & (set->walk->unwritten - 1)) * MO_MATRIX_SUMS;
    for (int i = 0; i < t->n; i++) {
        t->row[i] = set->row, t->column[i] = set->column;
        t->packed[i] = set->packed + set->row * set->down + set->column * set->along;
        go_on(set->walk, &set->row, &set->column);
    }
    if (t->n == 1) t->packed[1] = t->packed[0];
}

/* One part of the steps of jobs [begin, end).  Sums of one job are written while the unit works at another.
 */
static void multiply_part(struct set *set, struct mo_matrix_job *job, int64_t begin, int64_t end, bool first,
                          bool last) {
    const struct mo_matrix_walk *p = set->walk;
    for (int64_t n = begin; n < end; n++) {
        struct mo_matrix_tiles *t = tiles_at(set, n);
        if (first) place_tiles(set, t, n);
        job->a[0] = t->packed[0], job->a[1] = t->packed[1];
        job->sums = t->sums;
        job->of = set->done;
        job->asides = set->done && (job->brief || p->shape.steps >= MANY_STEPS) ? set->blocks : 0;
        p->unit->run[p->shape.type](job, t->n, set->blocks);
        job->next += job->next_bytes * job->n_steps;
        write_done(set);
        if (last) t->written = 0, set->done = t;
    }
}

static void multiply_set(const struct mo_matrix_walk *p, const struct mo_kargs *args, const struct spot *s,
                         int64_t number, int64_t slab, char *packed, char *sums) {
    const int64_t block = number * 2, left = p->ocb - block;
    struct set set = {.walk = p, .spot = s, .block = block, .packed = packed, .sums = sums};
    set.ring = (struct mo_matrix_tiles *)(packed + p->ring_at);
    set.blocks = left < 2 ? 1 : 2;
    set.tiles = mo_matrix_walk_tiles(p, s->rows);
    set.along = p->shape.width * (p->sw / p->shape.column_step);
    set.down = p->line ? set.along : p->columns * p->shape.width * (p->sh / p->shape.row_step);
    int32_t own[32];
    const void *start = start_of(p, args, s->group * p->ocb + block, set.blocks, own);
    const int64_t before = slab * p->slab_steps, left_steps = p->shape.steps - before;
    const int64_t steps = left_steps < p->slab_steps ? left_steps : p->slab_steps;
    const int64_t jobs = (set.tiles + 1) / 2;
    const int64_t tile = p->shape.terms * set.blocks * MO_MATRIX_TILE;
    const int64_t others = left < 4 ? left - 2 : 2,
                  next = others > 0 ? others * p->shape.terms * MO_MATRIX_TILE : 0;
    const char *b = (const char *)args->weights + mo_matrix_block_at(&p->shape, p->ocb, s->group, block);
    struct mo_matrix_job job = {.a_row = set.along, .a_term = p->term_bytes, .aside = write_next};
    job.next = b + p->shape.steps * tile + before * next, job.next_bytes = next / jobs;
    job.brief = steps <= FEW_STEPS;
    job.zero = p->small && !p->small->sums && p->small->zero == 0;
    for (int64_t n = 0, end; n < jobs; n = end) {
        end = p->parts > 1 && n + p->together < jobs ? n + p->together : jobs;
        for (int64_t part = 0; part < p->parts; part++) {
            const int64_t first = before + steps * part / p->parts;
            job.steps = p->steps + first, job.n_steps = before + steps * (part + 1) / p->parts - first;
            job.b = b + first * tile;
            job.start = first ? NULL : start;
            multiply_part(&set, &job, n, end, part == 0, part + 1 == p->parts && slab + 1 == p->slabs);
        }
    }
    write_done(&set);
}

/* Units go through sets of blocks, then bands, groups and images. */
static struct spot spot_of(const struct mo_matrix_walk *p, const struct mo_kargs *args, int64_t unit) {
    struct spot s = {0};
    int64_t part = unit % p->set_parts, band = unit / p->set_parts;
    s.group = band / p->bands % p->groups;
    s.image = band / p->bands / p->groups;
    s.row = band % p->bands * p->band_rows;
    s.rows = p->oh - s.row < p->band_rows ? p->oh - s.row : p->band_rows;
    s.set = p->sets * part / p->set_parts, s.end_set = p->sets * (part + 1) / p->set_parts;
    const int64_t top = s.row, in_planes = s.group * p->icb, out_planes = s.group * p->ocb;
    s.x = (const char *)args->in[0] + s.image * args->in_image[0] + in_planes * p->x.plane;
    s.y = (char *)args->out[0] + s.image * args->out_image[0] + out_planes * p->y.plane + top * p->y.row;
    if (p->gated) s.gate = (const char *)args->in[MO_GATE_IN] + s.image * args->in_image[MO_GATE_IN];
    if (args->residual)
        s.residual = (const char *)args->residual + s.image * args->residual_image +
                     out_planes * p->residual.plane + top * p->residual.row;
    return s;
}

/* Units of one band together, as many as sums have room for; gives the first that is not among them. */
static int64_t run_slabs(const struct mo_matrix_walk *p, const struct mo_kargs *args, int64_t unit,
                         int64_t end, char *packed, char *sums) {
    struct spot s = spot_of(p, args, unit);
    const int64_t band = unit / p->set_parts, jobs = (mo_matrix_walk_tiles(p, s.rows) + 1) / 2;
    for (unit++; unit < end && unit / p->set_parts == band; unit++) {
        const int64_t end_set = spot_of(p, args, unit).end_set;
        if (end_set - s.set > p->slab_sets) break;
        s.end_set = end_set;
    }
    for (int64_t slab = 0; slab < p->slabs; slab++) {
        pack_line(p, &s, slab, packed);
        for (int64_t set = s.set; set < s.end_set; set++)
            multiply_set(p, args, &s, set, slab, packed, sums + (set - s.set) * jobs * MO_MATRIX_SUMS);
    }
    return unit;
}

void mo_matrix_walk_run(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_matrix_walk *p = args->params;
    char *packed = scratch, *sums = packed + p->sums_at;
    int64_t is_packed = -1;
    p->unit->begin();
    for (int64_t unit = begin; p->slabs > 1 && unit < end;)
        unit = run_slabs(p, args, unit, end, packed, sums);
    for (int64_t unit = begin; p->slabs == 1 && unit < end; unit++) {
        const struct spot s = spot_of(p, args, unit);
        if (unit / p->set_parts != is_packed) pack_band(p, &s, packed);
        is_packed = unit / p->set_parts;
        for (int64_t set = s.set; set < s.end_set; set++)
            multiply_set(p, args, &s, set, 0, packed, sums);
    }
    p->unit->end();
}
