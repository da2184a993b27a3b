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

/* --- what stands between the networks (ocr_steps.c), for mo_ocr_read() and for the functions of a server */
/* Lines read with less are dropped. */
#define MO_OCR_TEXT_SCORE 0.5
enum { MO_OCR_LINE_HEIGHT = 48, MO_OCR_ORIENT_WIDTH = 192, MO_OCR_MAX_BOXES = 1000 };
/* The detector's input. */
int mo_ocr_detector_input(struct mo_region *region, const struct mo_image *image, moire_tensor *in,
                          moire_error *err);
/* Cuts the boxes out, in their order; a degenerate one holds no text and leaves the list.  MOIRE_ELIMIT: they
 * hold more than four times the image's pixels. */
int mo_ocr_cut(struct mo_region *region, const struct mo_image *image, struct mo_quad *boxes, int *n,
               struct mo_image **lines, moire_error *err);
/* The line at the networks' height, as a tensor of `width` with the rest of it empty. */
int mo_ocr_line_input(struct mo_region *region, const struct mo_image *line, int width, moire_tensor *in,
                      moire_error *err);
/* Whether a line is upside down, by the classifier's probabilities of upright and upside down. */
bool mo_ocr_is_flipped(const float probability[2]);
/* width[i]: of the recogniser's input for line i; order[0..n): the lines from the least width to the most.
 * Lines of similar shape share one width, so that few shapes of the network are in use.  MOIRE_ENOMEM. */
int mo_ocr_widths(struct mo_region *region, const struct mo_image *lines, int n, int *width, int *order,
                  moire_error *err);

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
/* The best path through probabilities [1, steps, classes]: the most probable class of each step, and how
 * probable it is. */
void mo_ocr_best_path(const moire_tensor *probabilities, int32_t *class, float *probability);
/* Its text: repeats merged, blanks dropped.  MOIRE_ESHAPE: a class that the dictionary lacks. */
int mo_ocr_spell(struct mo_region *region, const struct mo_ocr_dictionary *dictionary, const int32_t *class,
                 const float *probability, size_t steps, const char **text, double *score, moire_error *err);
/* Both. */
int mo_ocr_decode(struct mo_region *region, const struct mo_ocr_dictionary *dictionary,
                  const moire_tensor *probabilities, const char **text, double *score, moire_error *err);
#endif
