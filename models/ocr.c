/* SPDX-License-Identifier: Apache-2.0
 * ocr.c - the reading pipeline: detect boxes, cut each out, turn the upside-down ones, recognise the text. */
#include "models/ocr.h"
#include <math.h>
#include <stdlib.h>

#define FLIP_SCORE 0.9 /* certainty at which a line is turned */
#define TEXT_SCORE 0.5 /* lines read with less are dropped */
enum {
    DETECT_SIDE = 736, /* the shorter side is brought to at least this */
    DETECT_LONGEST = 2000,
    DETECT_STEP = 32, /* sizes are multiples of it */
    LINE_HEIGHT = 48,
    ORIENT_WIDTH = 192,
    LINE_WIDTH = 320, /* narrowest input of the recogniser */
    LINE_WIDEST = 3200,
    GROUP = 6 /* lines that share a width */
};

struct reader {
    struct mo_region *region;
    const struct mo_image *image;
    const struct mo_ocr_dictionary *dictionary;
    const struct mo_ocr_runner *runner;
    moire_error *err;
};

/* One line on its way. */
struct work {
    struct mo_ocr_line line;
    struct mo_image image;
    double ratio; /* width / height */
    int position; /* in reading order */
};

static int out_of_memory(const struct reader *r) {
    mo_fail(r->err, MOIRE_ENOMEM, "reading text: out of memory");
    return MOIRE_ENOMEM;
}

static int whole_steps(double size) {
    int n = (int)rint(floor(size) / DETECT_STEP) * DETECT_STEP;
    return n < DETECT_STEP ? DETECT_STEP : n;
}

static int detect(const struct reader *r, struct mo_quad **boxes, int *n) {
    const struct mo_image *image = r->image;
    int shorter = image->w < image->h ? image->w : image->h, longer = image->w + image->h - shorter;
    double ratio = shorter < DETECT_SIDE ? (double)DETECT_SIDE / shorter : 1;
    if (longer * ratio > DETECT_LONGEST) ratio = (double)DETECT_LONGEST / longer;
    struct mo_image scaled;
    moire_tensor in, map;
    if (mo_image_resize(r->region, image, whole_steps(image->w * ratio), whole_steps(image->h * ratio),
                        &scaled) ||
        mo_image_tensor(r->region, &scaled, scaled.w, &in))
        return out_of_memory(r);
    int code = r->runner->run(r->runner->self, MO_OCR_DETECT, &in, &map, r->err);
    return code ? code : mo_ocr_boxes(r->region, &map, image->w, image->h, boxes, n, r->err);
}

/* The line at the networks' height, as a tensor of `width` with the rest of it empty. */
static int line_tensor(const struct reader *r, const struct mo_image *line, int width, moire_tensor *out) {
    double w = ceil((double)LINE_HEIGHT * line->w / line->h);
    struct mo_image scaled;
    if (mo_image_resize(r->region, line, w < width ? (int)w : width, LINE_HEIGHT, &scaled) ||
        mo_image_tensor(r->region, &scaled, width, out))
        return out_of_memory(r);
    return MOIRE_OK;
}

static int orient(const struct reader *r, struct work *work) {
    moire_tensor in, out;
    int code = line_tensor(r, &work->image, ORIENT_WIDTH, &in);
    if (!code) code = r->runner->run(r->runner->self, MO_OCR_ORIENT, &in, &out, r->err);
    if (code) return code;
    if (out.dtype != MOIRE_F32 || out.rank != 2 || out.shape[0] != 1 || out.shape[1] != 2)
        return mo_fail(r->err, MOIRE_ESHAPE, "classifier: the output is not [1,2]: upright, upside down");
    work->line.flipped = (double)((const float *)out.data)[1] > FLIP_SCORE;
    if (work->line.flipped) mo_image_turn(&work->image);
    return MOIRE_OK;
}

static int recognise(const struct reader *r, struct work *work, int width) {
    moire_tensor in, out;
    int code = line_tensor(r, &work->image, width, &in);
    if (!code) code = r->runner->run(r->runner->self, MO_OCR_RECOGNISE, &in, &out, r->err);
    if (code) return code;
    return mo_ocr_decode(r->region, r->dictionary, &out, &work->line.text, &work->line.score, r->err);
}

/* Cuts the lines out; a degenerate box holds no text and is dropped. */
static int cut_lines(const struct reader *r, const struct mo_quad *boxes, int n, struct work *work,
                     int *kept) {
    *kept = 0;
    for (int i = 0; i < n; i++) {
        struct work *w = &work[*kept];
        int code = mo_image_crop(r->region, r->image, &boxes[i], &w->image);
        if (code == MOIRE_ENOMEM) return out_of_memory(r);
        if (code) continue;
        w->line.box = boxes[i];
        w->position = i;
        w->ratio = (double)w->image.w / w->image.h;
        if ((code = orient(r, w))) return code;
        ++*kept;
    }
    return MOIRE_OK;
}

static int by_ratio(const void *a, const void *b) {
    const struct work *p = a, *q = b;
    if (p->ratio != q->ratio) return p->ratio < q->ratio ? -1 : 1;
    return p->position - q->position;
}

static int by_position(const void *a, const void *b) {
    return ((const struct work *)a)->position - ((const struct work *)b)->position;
}

/* Lines of similar shape share one width, so that few shapes of the network are in use. */
static int recognise_all(const struct reader *r, struct work *work, int n) {
    qsort(work, (size_t)n, sizeof *work, by_ratio);
    for (int begin = 0; begin < n; begin += GROUP) {
        int end = begin + GROUP < n ? begin + GROUP : n;
        double width = floor(LINE_HEIGHT * work[end - 1].ratio);
        int padded = width < LINE_WIDTH ? LINE_WIDTH : width > LINE_WIDEST ? LINE_WIDEST : (int)width;
        for (int i = begin; i < end; i++) {
            int code = recognise(r, &work[i], padded);
            if (code) return code;
        }
    }
    qsort(work, (size_t)n, sizeof *work, by_position);
    return MOIRE_OK;
}

int mo_ocr_read(struct mo_region *region, const struct mo_image *image,
                const struct mo_ocr_dictionary *dictionary, const struct mo_ocr_runner *runner,
                struct mo_ocr_page *page, moire_error *err) {
    struct reader r = {region, image, dictionary, runner, err};
    struct mo_quad *boxes = NULL;
    int n = 0;
    page->n = 0;
    int code = detect(&r, &boxes, &n);
    if (code) return code;
    page->lines = mo_region_array(region, (size_t)n, sizeof *page->lines);
    struct work *work = mo_region_array(region, (size_t)n, sizeof *work);
    if (!page->lines || !work) return out_of_memory(&r);
    if ((code = cut_lines(&r, boxes, n, work, &n)) || (code = recognise_all(&r, work, n))) return code;
    for (int i = 0; i < n; i++)
        if (work[i].line.score >= TEXT_SCORE) page->lines[page->n++] = work[i].line;
    return MOIRE_OK;
}
