/* SPDX-License-Identifier: Apache-2.0
 * ocr.h - reading text in an image with three networks: detector, orientation classifier, recogniser.
 *
 * The pipeline knows the networks only through a runner, so the same code runs on any engine: the
 * command gives it loaded tenants, tests give it recorded answers.  All memory comes from the caller's
 * region.  Pixels are 8-bit R, G, B; the networks see B, G, R planes in [-1, 1], as they were trained. */
#ifndef MO_OCR_H
#define MO_OCR_H
#include <stdbool.h>
#include "runtime/base/env.h"

struct mo_image {
    int w, h;
    uint8_t *px; /* 3 w h bytes, rows from the top */
};

struct mo_ocr_point {
    double x, y;
};

/* Corners clockwise from the top left. */
struct mo_quad {
    struct mo_ocr_point p[4];
};

enum mo_ocr_stage { MO_OCR_DETECT, MO_OCR_ORIENT, MO_OCR_RECOGNISE };

/* Runs one network on one input; *out (the only output) stays valid until the stage is run again. */
struct mo_ocr_runner {
    void *self;
    int (*run)(void *self, enum mo_ocr_stage stage, const moire_tensor *in, moire_tensor *out,
               moire_error *err);
};

/* What the recogniser's classes stand for: class 0 is "no character". */
struct mo_ocr_dictionary {
    int n; /* classes, the blank included */
    const char **text;
};

struct mo_ocr_line {
    struct mo_quad box; /* in the image */
    const char *text;   /* UTF-8 */
    double score;       /* mean probability of its characters */
    bool flipped;       /* was upside down */
};

struct mo_ocr_page {
    int n;
    struct mo_ocr_line *lines; /* in reading order */
};

/* Reads the lines of text in `image`. */
int mo_ocr_read(struct mo_region *region, const struct mo_image *image,
                const struct mo_ocr_dictionary *dictionary, const struct mo_ocr_runner *runner,
                struct mo_ocr_page *page, moire_error *err);

/* --- image (ocr_image.c) --- */
/* A binary PPM (P6, 8 bits). */
int mo_image_read(const struct mo_env *env, struct mo_region *region, const char *path, struct mo_image *out,
                  moire_error *err);
/* Bilinear, with pixel centres aligned and 11-bit weights. */
int mo_image_resize(struct mo_region *region, const struct mo_image *in, int w, int h, struct mo_image *out);
/* Cuts out the quadrilateral and straightens it (bicubic); a tall one is turned to lie. */
int mo_image_crop(struct mo_region *region, const struct mo_image *in, const struct mo_quad *quad,
                  struct mo_image *out);
void mo_image_turn(struct mo_image *image); /* by 180 degrees, in place */
/* [1, 3, image->h, width] in [-1, 1]; zero right of the image when width is larger. */
int mo_image_tensor(struct mo_region *region, const struct mo_image *image, int width, moire_tensor *out);

/* --- boxes (ocr_boxes.c) --- */
/* From the detector's probability map [1, 1, h, w] to boxes in an image of the given size, in reading order.
 */
int mo_ocr_boxes(struct mo_region *region, const moire_tensor *map, int image_w, int image_h,
                 struct mo_quad **boxes, int *n, moire_error *err);

/* --- geometry (ocr_geometry.c) --- */
/* Smallest rectangle around n points (n >= 1; sorts them), corners clockwise from the top left; *short_side
 * is its smaller side.  The points are reused as scratch; room for n + 1 more must follow them. */
struct mo_quad mo_min_rectangle(struct mo_ocr_point *points, int n, double *short_side);
/* Smallest rectangle around everything within `distance` of a convex quadrilateral, at whole pixels. */
struct mo_quad mo_grow_quad(const struct mo_quad *q, double distance, double *short_side);
struct mo_quad mo_order_corners(const struct mo_ocr_point corners[4]);
double mo_distance(struct mo_ocr_point a, struct mo_ocr_point b);

/* --- text (ocr_text.c) --- */
/* Dictionary from one character a line; the blank goes in front, a space at the end. */
int mo_ocr_dictionary(struct mo_region *region, const char *lines, struct mo_ocr_dictionary *out);
/* Best path through probabilities [1, steps, classes]: repeats merged, blanks dropped. */
int mo_ocr_decode(struct mo_region *region, const struct mo_ocr_dictionary *dictionary,
                  const moire_tensor *probabilities, const char **text, double *score, moire_error *err);
#endif
