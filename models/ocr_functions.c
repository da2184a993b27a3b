/* SPDX-License-Identifier: Apache-2.0
 * ocr_functions.c - see ocr_functions.h.  What comes in is a client's or a network's answer: every size is
 * checked against the others before it is used. */
#include "models/ocr_functions.h"
#include <math.h>
#include <string.h>

/* Of an image, and of a list: 4,096 x 4,096 pixels are enough for a page at 300 dots an inch. */
enum { IMAGE_SIDE = 16384, IMAGE_PIXELS = 1 << 24, LIST_BYTES = 256 << 20 };

static int out_of_memory(moire_error *err) {
    return mo_fail(err, MOIRE_ENOMEM, "reading text: out of memory");
}

static int image_of(const moire_tensor *t, struct mo_image *out, moire_error *err) {
    const int64_t h = t->shape[0], w = t->shape[1];
    if (h < 1 || w < 1)
        return mo_fail(err, MOIRE_ESHAPE, "the image has no pixels: its shape is [height,width,3]");
    if (h > IMAGE_SIDE || w > IMAGE_SIDE || h * w > IMAGE_PIXELS)
        return mo_fail(err, MOIRE_ELIMIT,
                       "the image of %lld x %lld pixels is too large: at most %d in all and %d on a side",
                       (long long)w, (long long)h, IMAGE_PIXELS, IMAGE_SIDE);
    *out = (struct mo_image){.w = (int)w, .h = (int)h, .px = t->data};
    return MOIRE_OK;
}

static int new_tensor(struct mo_region *region, moire_dtype type, size_t size, int rank, const int64_t *shape,
                      moire_tensor *out, moire_error *err) {
    size_t count = 1;
    *out = (moire_tensor){.dtype = type, .rank = rank};
    for (int i = 0; i < rank; i++) {
        out->shape[i] = shape[i];
        count *= (size_t)shape[i];
    }
    out->bytes = count * size;
    out->data = mo_region_array(region, count, size);
    return out->data ? MOIRE_OK : out_of_memory(err);
}

/* --- boxes as tensors [n,4,2] --- */
static int put_boxes(struct mo_region *region, const struct mo_quad *boxes, int n, moire_tensor *out,
                     moire_error *err) {
    const int code = new_tensor(region, MOIRE_F32, sizeof(float), 3, (int64_t[]){n, 4, 2}, out, err);
    float *to = out->data;
    for (int i = 0; i < 4 * n && !code; i++) {
        *to++ = (float)boxes[i / 4].p[i % 4].x;
        *to++ = (float)boxes[i / 4].p[i % 4].y;
    }
    return code;
}

static int take_boxes(struct mo_region *region, const moire_tensor *t, const struct mo_image *image,
                      struct mo_quad **boxes, int *n, moire_error *err) {
    const float *from = t->data;
    if (t->shape[0] > MO_OCR_MAX_BOXES)
        return mo_fail(err, MOIRE_ELIMIT, "more than %d boxes", MO_OCR_MAX_BOXES);
    *n = (int)t->shape[0];
    *boxes = mo_region_array(region, (size_t)*n, sizeof **boxes);
    if (!*boxes) return out_of_memory(err);
    for (int i = 0; i < 4 * *n; i++, from += 2) {
        if (!(from[0] >= 0 && from[1] >= 0 && from[0] < (float)image->w && from[1] < (float)image->h))
            return mo_fail(err, MOIRE_ESHAPE, "box %d has a corner that is not in the image", i / 4);
        (*boxes)[i / 4].p[i % 4] = (struct mo_ocr_point){(double)from[0], (double)from[1]};
    }
    return MOIRE_OK;
}

/* The lines that the boxes mark; all of them, as boxes that mark nothing were left out. */
static int take_lines(struct mo_region *region, const struct mo_image *image, const moire_tensor *t,
                      struct mo_image **lines, int *n, moire_error *err) {
    struct mo_quad *boxes = NULL;
    *n = 0;
    int code = take_boxes(region, t, image, &boxes, n, err);
    const int given = *n;
    if (!code) code = mo_ocr_cut(region, image, boxes, n, lines, err);
    if (!code && *n != given) code = mo_fail(err, MOIRE_ESHAPE, "a box is empty");
    return code;
}

/* A list of inputs of a network, one for each line. */
static int put_inputs(struct mo_region *region, const struct mo_image *lines, const int *width, int n,
                      moire_tensor out[2], moire_error *err) {
    const size_t column = 3 * (size_t)MO_OCR_LINE_HEIGHT;
    size_t total = 0;
    for (int i = 0; i < n; i++)
        total += column * (size_t)width[i];
    if (total * sizeof(float) > LIST_BYTES)
        return mo_fail(err, MOIRE_ELIMIT, "the image has too much text: its lines need %zu bytes, at most %d",
                       total * sizeof(float), LIST_BYTES);
    int code = new_tensor(region, MOIRE_F32, sizeof(float), 1, (int64_t[]){(int64_t)total}, &out[0], err);
    if (!code) code = new_tensor(region, MOIRE_I64, sizeof(int64_t), 2, (int64_t[]){n, 4}, &out[1], err);
    char *to = out[0].data;
    for (int i = 0; i < n && !code; i++) {
        moire_tensor one;
        code = mo_ocr_line_input(region, &lines[i], width[i], &one, err);
        if (code) break;
        memcpy(to, one.data, one.bytes);
        memcpy((int64_t *)out[1].data + 4 * i, one.shape, 4 * sizeof *one.shape);
        to += one.bytes;
        mo_region_release(region, one.data);
    }
    return code;
}

/* --- the functions --- */
static int run_page(struct mo_region *region, const struct mo_ocr_dictionary *dictionary,
                    const moire_tensor *in, moire_tensor *out, moire_error *err) {
    struct mo_image image;
    const int code = image_of(&in[0], &image, err);
    (void)dictionary;
    return code ? code : mo_ocr_detector_input(region, &image, &out[0], err);
}

static int run_boxes(struct mo_region *region, const struct mo_ocr_dictionary *dictionary,
                     const moire_tensor *in, moire_tensor *out, moire_error *err) {
    struct mo_image image, *lines;
    struct mo_quad *boxes;
    int n, *width;
    int code = image_of(&in[0], &image, err);
    (void)dictionary;
    if (!code) code = mo_ocr_boxes(region, &in[1], image.w, image.h, &boxes, &n, err);
    if (!code) code = mo_ocr_cut(region, &image, boxes, &n, &lines, err);
    if (!code) code = put_boxes(region, boxes, n, &out[0], err);
    if (code) return code;
    width = mo_region_array(region, (size_t)n, sizeof *width);
    if (!width) return out_of_memory(err);
    for (int i = 0; i < n; i++)
        width[i] = MO_OCR_ORIENT_WIDTH;
    return put_inputs(region, lines, width, n, &out[1], err);
}

static int check_directions(const moire_tensor *boxes, const moire_tensor *directions, moire_error *err) {
    if (directions->shape[0] == 2 * boxes->shape[0]) return MOIRE_OK;
    return mo_fail(err, MOIRE_ESHAPE, "directions are %lld numbers, not two for each of %lld boxes",
                   (long long)directions->shape[0], (long long)boxes->shape[0]);
}

static int run_lines(struct mo_region *region, const struct mo_ocr_dictionary *dictionary,
                     const moire_tensor *in, moire_tensor *out, moire_error *err) {
    struct mo_image image, *lines;
    int n;
    int code = image_of(&in[0], &image, err);
    (void)dictionary;
    if (!code) code = check_directions(&in[1], &in[2], err);
    if (!code) code = take_lines(region, &image, &in[1], &lines, &n, err);
    if (code) return code;
    int *width = mo_region_array(region, (size_t)n, sizeof *width);
    int *order = mo_region_array(region, (size_t)n, sizeof *order);
    if (!width || !order) return out_of_memory(err);
    for (int i = 0; i < n; i++)
        if (mo_ocr_is_flipped((const float *)in[2].data + 2 * i)) mo_image_turn(&lines[i]);
    code = mo_ocr_widths(region, lines, n, width, order, err);
    return code ? code : put_inputs(region, lines, width, n, out, err);
}

static int run_best(struct mo_region *region, const struct mo_ocr_dictionary *dictionary,
                    const moire_tensor *in, moire_tensor *out, moire_error *err) {
    const int64_t steps = in[0].shape[1], classes = in[0].shape[2];
    (void)dictionary;
    if (classes < 1 || classes > INT32_MAX) return mo_fail(err, MOIRE_ESHAPE, "recogniser: no classes");
    int code = new_tensor(region, MOIRE_I32, sizeof(int32_t), 2, (int64_t[]){1, steps}, &out[0], err);
    if (!code) code = new_tensor(region, MOIRE_F32, sizeof(float), 2, (int64_t[]){1, steps}, &out[1], err);
    if (!code) mo_ocr_best_path(&in[0], out[0].data, out[1].data);
    return code;
}

/* The lines of a page, from paths of classes one behind the other. */
static int spell_all(struct mo_region *region, const struct mo_ocr_dictionary *dictionary,
                     const moire_tensor *in, struct mo_ocr_line *line, int n, moire_error *err) {
    const int64_t *shape = in[4].data;
    int64_t at = 0;
    int code = MOIRE_OK;
    for (int i = 0; i < n && !code; i++) {
        const int64_t left = in[2].shape[0] - at, steps = shape[2 * i + 1];
        if (shape[2 * i] != 1 || steps < 0 || steps > left)
            return mo_fail(err, MOIRE_ESHAPE, "the shape of line %d does not fit its classes", i);
        line[i].flipped = mo_ocr_is_flipped((const float *)in[1].data + 2 * i);
        code =
            mo_ocr_spell(region, dictionary, (const int32_t *)in[2].data + at, (const float *)in[3].data + at,
                         (size_t)steps, &line[i].text, &line[i].score, err);
        at += steps;
    }
    return code;
}

/* Strings as the protocol has them: each with its length of four bytes before it. */
static int put_texts(struct mo_region *region, const struct mo_ocr_line *line, int n, moire_tensor *out,
                     moire_error *err) {
    *out = (moire_tensor){.dtype = MOIRE_STRING, .rank = 1, .shape = {n}};
    for (int i = 0; i < n; i++)
        out->bytes += sizeof(uint32_t) + strlen(line[i].text);
    char *to = out->data = mo_region_array(region, out->bytes, 1);
    if (!to) return out_of_memory(err);
    for (int i = 0; i < n; i++) {
        const uint32_t length = (uint32_t)strlen(line[i].text);
        memcpy(to, &length, sizeof length);
        memcpy(to + sizeof length, line[i].text, length);
        to += sizeof length + length;
    }
    return MOIRE_OK;
}

static int run_text(struct mo_region *region, const struct mo_ocr_dictionary *dictionary,
                    const moire_tensor *in, moire_tensor *out, moire_error *err) {
    const int n = in[0].shape[0] > MO_OCR_MAX_BOXES ? MO_OCR_MAX_BOXES : (int)in[0].shape[0];
    const int64_t boxes = in[0].shape[0];
    struct mo_ocr_line *line = mo_region_array(region, (size_t)n, sizeof *line);
    int kept = 0;
    if (!line) return out_of_memory(err);
    if (in[4].shape[0] != boxes || boxes != n || in[2].shape[0] != in[3].shape[0])
        return mo_fail(err, MOIRE_ESHAPE, "%lld boxes, but %lld lines", (long long)boxes,
                       (long long)in[4].shape[0]);
    int code = check_directions(&in[0], &in[1], err);
    if (!code) code = spell_all(region, dictionary, in, line, n, err);
    if (!code) code = new_tensor(region, MOIRE_F32, sizeof(float), 3, (int64_t[]){n, 4, 2}, &out[2], err);
    for (int i = 0; i < n && !code; i++) {
        if (line[i].score < MO_OCR_TEXT_SCORE) continue;
        memcpy((float *)out[2].data + 8 * kept, (const float *)in[0].data + 8 * i, 8 * sizeof(float));
        line[kept++] = line[i];
    }
    if (!code) code = put_texts(region, line, kept, &out[0], err);
    if (!code) code = new_tensor(region, MOIRE_F32, sizeof(float), 1, (int64_t[]){kept}, &out[1], err);
    if (!code) code = new_tensor(region, MOIRE_BOOL, 1, 1, (int64_t[]){kept}, &out[3], err);
    if (code) return code;
    out[2].shape[0] = kept;
    out[2].bytes = (size_t)kept * 8 * sizeof(float);
    for (int i = 0; i < kept; i++) {
        ((float *)out[1].data)[i] = (float)line[i].score;
        ((uint8_t *)out[3].data)[i] = line[i].flipped;
    }
    return MOIRE_OK;
}

/* --- the table --- */
/* clang-format off */ /* a line a port */
#define IMAGE            {"image", MOIRE_U8, 3, {-1, -1, 3}}
#define BOXES(name)      {name, MOIRE_F32, 3, {-1, 4, 2}}
#define LIST(name, type) {name, type, 1, {-1}}
static const struct mo_function functions[] = {
    {"ocr_page", NULL,
     {IMAGE},
     {{"page", MOIRE_F32, 4, {1, 3, -1, -1}}},
     1, 1, run_page},
    {"ocr_boxes", NULL,
     {IMAGE,
      {"map", MOIRE_F32, 4, {1, 1, -1, -1}}},
     {BOXES("boxes"),
      LIST("lines", MOIRE_F32),
      {"shapes", MOIRE_I64, 2, {-1, 4}}},
     2, 3, run_boxes},
    {"ocr_lines", NULL,
     {IMAGE,
      BOXES("boxes"),
      LIST("directions", MOIRE_F32)},
     {LIST("lines", MOIRE_F32),
      {"shapes", MOIRE_I64, 2, {-1, 4}}},
     3, 2, run_lines},
    {"ocr_best", NULL,
     {{"probabilities", MOIRE_F32, 3, {1, -1, -1}}},
     {{"classes", MOIRE_I32, 2, {1, -1}},
      {"scores", MOIRE_F32, 2, {1, -1}}},
     1, 2, run_best},
    {"ocr_text", "the recogniser's characters, one a line",
     {BOXES("boxes"),
      LIST("directions", MOIRE_F32),
      LIST("classes", MOIRE_I32),
      LIST("scores", MOIRE_F32),
      {"shapes", MOIRE_I64, 2, {-1, 2}}},
     {LIST("text", MOIRE_STRING),
      LIST("score", MOIRE_F32),
      BOXES("box"),
      LIST("flipped", MOIRE_BOOL)},
     5, 4, run_text},
};
/* clang-format on */

const struct mo_function *mo_ocr_functions(int *n) {
    *n = sizeof functions / sizeof *functions;
    return functions;
}
