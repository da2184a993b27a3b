/* SPDX-License-Identifier: Apache-2.0
 * matrix_walk_plan.c - plans the work of a layer on a matrix unit: bands, steps, units. */
#include "variants/generic/bind.h"
#include "variants/matrix/matrix_walk.h"

enum {
    /* packed input of a band: it stays in a private cache beside the weights; or, where these do not, is as
     * large as the cache allows, since every band reads all of them */
    BAND_BYTES = 192 << 10,
    LARGE_BAND_BYTES = 1280 << 10,
    NEAR_WEIGHTS = 512 << 10,
    MIN_UNITS = 32,
    MIN_POSITIONS = 64, /* of a band, where there are more to make */
    MAX_BAND_BYTES = 64 << 20,
    SLAB_ROWS = 256,
    SLAB_BYTES = 1 << 20,
    SLAB_SUM_BYTES = 1 << 20,
    /* of pairs of tiles of weights, 2 KiB each, and of triples of them */
    WHOLE_STEPS = 20,
    PART_STEPS = 10,
    WHOLE_TERM_STEPS = 50,
    PART_TERM_STEPS = 25,
    TOGETHER = 7
};

/* Tensors of bfloat16 take half the room. */
static void halve(const struct mo_tensor *t, struct mo_matrix_place *place) {
    place->halves = t && t->layout == MO_C16_HALVES;
    if (place->halves) place->plane /= 2, place->row /= 2, place->pixel /= 2;
}

static void set_halves(const struct mo_conv *c, struct mo_matrix_walk *p) {
    halve(c->x, &p->x);
    halve(c->y, &p->y);
    halve(c->residual, &p->residual);
    p->gather = p->x.halves       ? p->unit->gather_small
                : p->shape.narrow ? p->unit->gather_narrow[p->shape.type]
                                  : p->unit->gather[p->shape.type];
}

/* One long row of pixels or of a matrix. */
static bool is_line(const struct mo_conv *c, const struct mo_matrix_shape *s) {
    return c->kh == 1 && c->kw == 1 && c->sh == 1 && c->sw == 1 && c->h == c->oh && c->w == c->ow &&
           !s->narrow;
}

static void set_places(const struct mo_conv *c, const struct mo_conv_small *small, struct mo_matrix_walk *p) {
    const int64_t in = small ? 1 : 4, out = (int64_t)mo_dtype_bytes(c->y->dtype);
    const bool plain = p->shape.narrow && !small; /* channels in planes */
    const int64_t pixel = plain ? in : 16 * in;
    p->x = (struct mo_matrix_place){c->h * c->w * pixel, c->w * pixel, pixel, false};
    p->y = (struct mo_matrix_place){c->oh * c->ow * 16 * out, c->ow * 16 * out, 16 * out, false};
    p->residual = p->y;
    set_halves(c, p);
    p->x_planes = plain ? (int)c->c : 1;
    p->x_lanes = p->y_lanes = 16;
    p->line = is_line(c, &p->shape);
    p->gated = c->gate;
    if (p->line) {
        p->h = p->oh = c->h * c->w, p->w = p->ow = 1;
        p->x.row = p->x.pixel, p->y.row = p->y.pixel, p->residual.row = p->residual.pixel;
    }
    if (!c->rows) return;
    p->x = (struct mo_matrix_place){16 * in, c->c * in, c->c * in, false};
    p->y = (struct mo_matrix_place){16 * out, c->o * out, c->o * out, false};
    p->residual = p->y;
    p->x_lanes = (int)(c->c - (c->icb - 1) * 16), p->y_lanes = (int)(c->o - (c->ocb - 1) * 16);
}

/* Rows of floats that lie apart. */
static void set_rows(const struct mo_product *r, struct mo_matrix_walk *p) {
    p->x.row = p->x.pixel = r->x_row * 4;
    p->y.row = p->y.pixel = r->y_row * 4;
    p->residual.row = p->residual.pixel = r->residual_row * 4;
}

static void set_columns(const struct mo_conv *c, struct mo_matrix_walk *p) {
    const struct mo_matrix_shape *s = &p->shape;
    p->columns = p->line ? 1 : ((c->ow - 1) * c->sw + (c->kw - 1) * c->dw) / s->column_step + 1;
    p->dense = p->line;
    if (p->line || c->sw != s->column_step || c->sh != s->row_step) return;
    const int64_t rows = c->oh * ((c->ow + 15) / 16), run = (c->oh * p->columns + 15) / 16;
    p->dense = run < rows;
}

int64_t mo_matrix_walk_tiles(const struct mo_matrix_walk *p, int64_t rows) {
    if (!p->dense) return rows * ((p->ow + 15) / 16);
    const int64_t positions = p->line ? rows : (rows - 1) * p->columns + p->ow;
    return (positions + MO_MATRIX_POSITIONS - 1) / MO_MATRIX_POSITIONS;
}

int64_t mo_matrix_image_tiles(const struct mo_conv *c, const struct mo_matrix_shape *shape) {
    struct mo_matrix_walk p = {.shape = *shape, .ow = c->ow, .line = is_line(c, shape)};
    set_columns(c, &p);
    return mo_matrix_walk_tiles(&p, p.line ? c->oh * c->ow : c->oh);
}

static int64_t packed_rows(const struct mo_matrix_walk *p, int64_t rows) {
    if (p->line) return rows;
    const struct mo_matrix_shape *s = &p->shape;
    return ((rows - 1) * p->sh + (s->filter_rows - 1) * s->fold * p->dh) / s->row_step + 1;
}

static int64_t packed_bytes(const struct mo_matrix_walk *p, int64_t rows) {
    return packed_rows(p, rows) * p->columns * p->shape.width * p->shape.chunks * p->shape.terms;
}

static void set_bands(struct mo_matrix_walk *p, int64_t bands) {
    p->band_rows = (p->oh + bands - 1) / bands;
    if (p->line && p->band_rows % 32) p->band_rows += 32 - p->band_rows % 32;
    if (p->band_rows > p->oh) p->band_rows = p->oh;
    p->bands = (p->oh + p->band_rows - 1) / p->band_rows;
}

/* A band of all channels would leave its weights no room in a private cache, or be of few rows, so that these
 * are read often: terms are three times the bytes. */
static bool cuts_slabs(const struct mo_matrix_walk *p, int64_t weights) {
    return p->line && p->shape.terms > 1 && weights > NEAR_WEIGHTS;
}

/* Of a line: pairs of tiles in a band. */
static int64_t band_jobs(const struct mo_matrix_walk *p) {
    return (mo_matrix_walk_tiles(p, p->band_rows) + 1) / 2;
}

static void choose_slabs(struct mo_matrix_walk *p, bool cuts) {
    const int64_t chunk = p->band_rows * p->shape.width * p->shape.terms;
    p->slabs = cuts ? (p->shape.chunks * chunk + SLAB_BYTES - 1) / SLAB_BYTES : 1;
    p->slab_steps = p->slabs > 1 ? (p->shape.chunks + p->slabs - 1) / p->slabs : p->shape.steps;
    p->slabs = (p->shape.steps + p->slab_steps - 1) / p->slab_steps;
    if (p->slabs == 1) return;
    p->slab_sets = SLAB_SUM_BYTES / (band_jobs(p) * MO_MATRIX_SUMS);
    if (p->slab_sets > p->sets) p->slab_sets = p->sets;
    const int64_t parts = (p->sets + p->slab_sets - 1) / p->slab_sets;
    if (p->set_parts < parts) p->set_parts = parts;
}

/* Bands are as large as a private cache allows.  Where the weights are small, there are enough of them for
 * many cores; else output channels are divided, so that no core reads all the weights. */
static void choose_units(struct mo_matrix_walk *p) {
    const int64_t weights = p->ocb * p->shape.steps * p->shape.terms * MO_MATRIX_TILE;
    const int64_t positions = p->oh * p->ow, images = p->n * p->groups;
    p->sets = (p->ocb + 1) / 2;
    const int64_t room = weights <= NEAR_WEIGHTS ? BAND_BYTES : LARGE_BAND_BYTES;
    int64_t bands = (packed_bytes(p, p->oh) + room - 1) / room;
    int64_t most = positions / MIN_POSITIONS < p->oh ? positions / MIN_POSITIONS : p->oh;
    if (weights <= NEAR_WEIGHTS && bands * images < MIN_UNITS) bands = (MIN_UNITS + images - 1) / images;
    if (bands > most) bands = most;
    if (cuts_slabs(p, weights)) bands = (p->oh + SLAB_ROWS - 1) / SLAB_ROWS;
    set_bands(p, bands < 1 ? 1 : bands);
    p->set_parts = (MIN_UNITS + p->bands * images - 1) / (p->bands * images);
    if (p->set_parts > p->sets) p->set_parts = p->sets;
    choose_slabs(p, cuts_slabs(p, weights));
    p->packed_rows = packed_rows(p, p->band_rows);
}

/* Places of steps, as the weights are in order: chunk, filter row, run, step. */
static bool fill_steps(struct mo_region *region, const struct mo_conv *c, struct mo_matrix_walk *p) {
    const struct mo_matrix_shape *s = &p->shape;
    int32_t *steps = mo_region_array(region, (size_t)s->steps, sizeof *steps);
    const int64_t in_slab = p->slabs > 1 ? p->slab_steps : s->chunks;
    int64_t i = 0, row = p->columns * s->width;
    for (int64_t chunk = 0; steps && chunk < s->chunks; chunk++)
        for (int64_t k = 0; k < s->filter_rows; k++)
            for (int64_t run = 0; run < s->runs; run++)
                for (int64_t step = 0; step < s->run_steps; step++)
                    steps[i++] =
                        (int32_t)(chunk % in_slab * p->chunk_bytes + k * s->fold * c->dh / s->row_step * row +
                                  run * c->dw * s->width + step * MO_MATRIX_STEP);
    p->steps = steps;
    return steps;
}

/* Where weights of all steps are too many for the first cache; of terms, for a part of the second: sums of
 * few steps would wait for their loads and stores. */
static void choose_parts(struct mo_matrix_walk *p) {
    const bool terms = p->shape.terms > 1;
    const int64_t whole = terms ? WHOLE_TERM_STEPS : WHOLE_STEPS, part = terms ? PART_TERM_STEPS : PART_STEPS;
    p->parts = p->slab_steps > whole ? (p->slab_steps + part - 1) / part : 1;
    p->together = p->parts > 1 ? TOGETHER : 1;
    p->unwritten = p->together + 1;
}

static void describe(const struct mo_conv *c, const struct mo_matrix_walk *p, struct mo_step *step) {
    const int64_t in = p->small ? 1 : 4, out = (int64_t)mo_dtype_bytes(c->y->dtype), taps = c->kh * c->kw;
    const int64_t cg = c->cg / c->merge;
    step->run = mo_matrix_walk_run;
    step->kind = "generic";
    step->params = p;
    step->units = p->n * p->groups * p->bands * p->set_parts;
    step->joint = p->set_parts > 1;
    step->flops = 2 * c->n * c->o * c->oh * c->ow * taps * cg;
    step->bytes = c->n * (in * c->c * c->h * c->w + out * c->o * c->oh * c->ow * (c->residual ? 2 : 1)) +
                  p->shape.element * p->shape.terms * c->o * cg * taps;
    /* of sums small_pixels() reads on for three pixels: into the tiles of the jobs behind them */
    step->scratch_bytes = p->ring_at + p->unwritten * (int64_t)sizeof(struct mo_matrix_tiles) + 3 * 64;
}

/* Lines are cut anywhere.  Else a band has a row at least: other kernels copy less where that would be
 * absurd, and steps are 32 bits. */
bool mo_matrix_walk_fits(const struct mo_conv *c, const struct mo_matrix_shape *s) {
    if (is_line(c, s)) return true;
    const double rows = (double)s->filter_rows * (double)(s->fold * c->dh);
    const double columns = (double)((c->ow - 1) * c->sw + c->kw * c->dw);
    return !c->gate && rows * columns * (double)(s->width * s->chunks * s->terms) < MAX_BAND_BYTES;
}

int mo_matrix_walk_plan(const struct mo_binder *binder, const struct mo_node *node, const struct mo_conv *c,
                        const struct mo_product *product, const struct mo_matrix_shape *shape,
                        const struct mo_matrix_unit *unit, const struct mo_conv_small *small,
                        struct mo_step *step, moire_error *err) {
    if (!mo_matrix_walk_fits(c, shape)) return MOIRE_EUNSUPPORTED;
    struct mo_matrix_walk *p = mo_region_alloc(binder->region, sizeof *p);
    if (!p) return mo_fail(err, MOIRE_ENOMEM, "node '%s': out of memory", node->name);
    *p = (struct mo_matrix_walk){.unit = unit,
                                 .shape = *shape,
                                 .n = c->n,
                                 .groups = c->groups,
                                 .ocb = c->ocb,
                                 .icb = c->icb,
                                 .h = c->h,
                                 .w = c->w,
                                 .oh = c->oh,
                                 .ow = c->ow,
                                 .kh = c->kh,
                                 .sh = c->sh,
                                 .sw = c->sw,
                                 .dh = c->dh,
                                 .pt = c->pt,
                                 .pl = c->pl,
                                 .small = small,
                                 .fuse = node->fuse,
                                 .write_floats = mo_simd_of(binder->isa)->write_floats};
    set_places(c, small, p);
    if (product) set_rows(product, p);
    set_columns(c, p);
    p->bounds = mo_fuse_bounds(&p->fuse, &p->lo, &p->hi);
    choose_units(p);
    choose_parts(p);
    /* the last tile of a band reads positions behind it, and steps of those */
    p->chunk_bytes = p->packed_rows * p->columns * shape->width + MO_MATRIX_STEP;
    p->chunk_bytes = (p->chunk_bytes + 63) / 64 * 64;
    const int64_t beyond =
        MO_MATRIX_POSITIONS * shape->width * (c->sw / shape->column_step) + c->kw * c->dw * shape->width;
    p->term_bytes = (p->slabs > 1 ? p->slab_steps : shape->chunks) * p->chunk_bytes;
    p->sums_at = (shape->terms * p->term_bytes + beyond + MO_MATRIX_STEP + 63) / 64 * 64;
    p->ring_at = p->sums_at + (p->slabs > 1 ? p->slab_sets * band_jobs(p) : p->unwritten) * MO_MATRIX_SUMS;
    if (p->sums_at > INT32_MAX) return MOIRE_EUNSUPPORTED;
    if (!fill_steps(binder->region, c, p))
        return mo_fail(err, MOIRE_ENOMEM, "node '%s': out of memory", node->name);
    describe(c, p, step);
    return MOIRE_OK;
}
