/* SPDX-License-Identifier: Apache-2.0
 * ocr_steps.c - what stands between the networks of the reading pipeline: the detector's input, lines cut out
 * of the image, their inputs for classifier and recogniser.
 *
 * `moire ocr` calls these in turn (ocr.c); a server runs each as a step of a pipeline (ocr_functions.c). */
#include <math.h>
#include <stdlib.h>
#include "models/ocr.h"

#define FLIP_SCORE 0.9 /* certainty at which a line is turned */
enum {
    DETECT_SIDE = 736, /* the shorter side is brought to at least this */
    DETECT_LONGEST = 2000,
    DETECT_STEP = 32, /* sizes are multiples of it */
    LINE_WIDTH = 320, /* narrowest input of the recogniser */
    LINE_WIDEST = 3200,
    GROUP = 6,     /* lines that share a width */
    CUT_PIXELS = 4 /* that lines hold together, for each pixel of the image */
};

static int out_of_memory(moire_error *err) {
    return mo_fail(err, MOIRE_ENOMEM, "reading text: out of memory");
}

static int whole_steps(double size) {
    int n = (int)rint(floor(size) / DETECT_STEP) * DETECT_STEP;
    return n < DETECT_STEP ? DETECT_STEP : n;
}

int mo_ocr_detector_input(struct mo_region *region, const struct mo_image *image, moire_tensor *in,
                          moire_error *err) {
    int shorter = image->w < image->h ? image->w : image->h, longer = image->w + image->h - shorter;
    double ratio = shorter < DETECT_SIDE ? (double)DETECT_SIDE / shorter : 1;
    if (longer * ratio > DETECT_LONGEST) ratio = (double)DETECT_LONGEST / longer;
    struct mo_image scaled;
    if (mo_image_resize(region, image, whole_steps(image->w * ratio), whole_steps(image->h * ratio),
                        &scaled) ||
        mo_image_tensor(region, &scaled, scaled.w, in))
        return out_of_memory(err);
    return MOIRE_OK;
}

int mo_ocr_cut(struct mo_region *region, const struct mo_image *image, struct mo_quad *boxes, int *n,
               struct mo_image **lines, moire_error *err) {
    const int64_t most = CUT_PIXELS * (int64_t)image->w * image->h;
    int64_t pixels = 0;
    int kept = 0;
    *lines = mo_region_array(region, (size_t)*n, sizeof **lines);
    if (!*lines) return out_of_memory(err);
    for (int i = 0; i < *n; i++) {
        struct mo_image *line = &(*lines)[kept];
        const int code = mo_image_crop(region, image, &boxes[i], line);
        if (code == MOIRE_ENOMEM) return out_of_memory(err);
        if (code) continue;
        pixels += (int64_t)line->w * line->h;
        if (pixels > most)
            return mo_fail(err, MOIRE_ELIMIT, "lines of text overlap: they hold more than %d times the image",
                           CUT_PIXELS);
        boxes[kept++] = boxes[i];
    }
    *n = kept;
    return MOIRE_OK;
}

int mo_ocr_line_input(struct mo_region *region, const struct mo_image *line, int width, moire_tensor *in,
                      moire_error *err) {
    double w = ceil((double)MO_OCR_LINE_HEIGHT * line->w / line->h);
    struct mo_image scaled;
    if (mo_image_resize(region, line, w < width ? (int)w : width, MO_OCR_LINE_HEIGHT, &scaled) ||
        mo_image_tensor(region, &scaled, width, in))
        return out_of_memory(err);
    return MOIRE_OK;
}

bool mo_ocr_is_flipped(const float probability[2]) {
    return (double)probability[1] > FLIP_SCORE;
}

/* A line's width for each pixel of its height, and where it stands. */
struct shape {
    double ratio;
    int position;
};

static int by_ratio(const void *a, const void *b) {
    const struct shape *p = a, *q = b;
    if (p->ratio != q->ratio) return p->ratio < q->ratio ? -1 : 1;
    return p->position - q->position;
}

int mo_ocr_widths(struct mo_region *region, const struct mo_image *lines, int n, int *width, int *order,
                  moire_error *err) {
    struct shape *shape = mo_region_array(region, (size_t)n, sizeof *shape);
    if (!shape) return out_of_memory(err);
    for (int i = 0; i < n; i++)
        shape[i] = (struct shape){(double)lines[i].w / lines[i].h, i};
    qsort(shape, (size_t)n, sizeof *shape, by_ratio);
    for (int begin = 0; begin < n; begin += GROUP) {
        const int end = begin + GROUP < n ? begin + GROUP : n;
        const double widest = floor(MO_OCR_LINE_HEIGHT * shape[end - 1].ratio);
        for (int i = begin; i < end; i++) {
            order[i] = shape[i].position;
            width[order[i]] = widest < LINE_WIDTH    ? LINE_WIDTH
                              : widest > LINE_WIDEST ? LINE_WIDEST
                                                     : (int)widest;
        }
    }
    return MOIRE_OK;
}
