/* SPDX-License-Identifier: Apache-2.0
 * ocr.c - the reading pipeline: detect boxes, cut each out, turn the upside-down ones, recognise the text. */
#include "models/ocr.h"

struct reader {
    struct mo_region *region;
    const struct mo_image *image;
    const struct mo_ocr_dictionary *dictionary;
    const struct mo_ocr_runner *runner;
    moire_error *err;
};

static int run(const struct reader *r, enum mo_ocr_stage stage, const moire_tensor *in, moire_tensor *out) {
    return r->runner->run(r->runner->self, stage, in, out, r->err);
}

static int detect(const struct reader *r, struct mo_quad **boxes, int *n) {
    const struct mo_image *image = r->image;
    moire_tensor in, map;
    int code = mo_ocr_detector_input(r->region, image, &in, r->err);
    if (!code) code = run(r, MO_OCR_DETECT, &in, &map);
    return code ? code : mo_ocr_boxes(r->region, &map, image->w, image->h, boxes, n, r->err);
}

static int orient(const struct reader *r, struct mo_image *image, bool *flipped) {
    moire_tensor in, out;
    int code = mo_ocr_line_input(r->region, image, MO_OCR_ORIENT_WIDTH, &in, r->err);
    if (!code) code = run(r, MO_OCR_ORIENT, &in, &out);
    if (code) return code;
    if (out.dtype != MOIRE_F32 || out.rank != 2 || out.shape[0] != 1 || out.shape[1] != 2)
        return mo_fail(r->err, MOIRE_ESHAPE, "classifier: the output is not [1,2]: upright, upside down");
    *flipped = mo_ocr_is_flipped(out.data);
    if (*flipped) mo_image_turn(image);
    return MOIRE_OK;
}

static int recognise(const struct reader *r, const struct mo_image *image, int width,
                     struct mo_ocr_line *line) {
    moire_tensor in, out;
    int code = mo_ocr_line_input(r->region, image, width, &in, r->err);
    if (!code) code = run(r, MO_OCR_RECOGNISE, &in, &out);
    if (code) return code;
    return mo_ocr_decode(r->region, r->dictionary, &out, &line->text, &line->score, r->err);
}

/* By width, so that the shape of the network changes seldom. */
static int recognise_all(const struct reader *r, const struct mo_image *images, struct mo_ocr_line *lines,
                         int n) {
    int *width = mo_region_array(r->region, (size_t)n, sizeof *width);
    int *order = mo_region_array(r->region, (size_t)n, sizeof *order);
    if (!width || !order) return mo_fail(r->err, MOIRE_ENOMEM, "reading text: out of memory");
    int code = mo_ocr_widths(r->region, images, n, width, order, r->err);
    for (int i = 0; i < n && !code; i++)
        code = recognise(r, &images[order[i]], width[order[i]], &lines[order[i]]);
    return code;
}

int mo_ocr_read(struct mo_region *region, const struct mo_image *image,
                const struct mo_ocr_dictionary *dictionary, const struct mo_ocr_runner *runner,
                struct mo_ocr_page *page, moire_error *err) {
    struct reader r = {region, image, dictionary, runner, err};
    struct mo_quad *boxes = NULL;
    struct mo_image *images = NULL;
    int n = 0;
    page->n = 0;
    int code = detect(&r, &boxes, &n);
    if (!code) code = mo_ocr_cut(region, image, boxes, &n, &images, err);
    if (code) return code;
    page->lines = mo_region_array(region, (size_t)n, sizeof *page->lines);
    if (!page->lines) return mo_fail(err, MOIRE_ENOMEM, "reading text: out of memory");
    for (int i = 0; i < n && !code; i++) {
        page->lines[i].box = boxes[i];
        code = orient(&r, &images[i], &page->lines[i].flipped);
    }
    if (!code) code = recognise_all(&r, images, page->lines, n);
    if (code) return code;
    for (int i = 0; i < n; i++)
        if (page->lines[i].score >= MO_OCR_TEXT_SCORE) page->lines[page->n++] = page->lines[i];
    return MOIRE_OK;
}
