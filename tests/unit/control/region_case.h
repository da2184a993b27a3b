/* SPDX-License-Identifier: Apache-2.0
 * region_case.h - models of layers whose shapes are known only at run time: they work on the rows of an input
 * "x", the second, for which the first one, "m" of 40 numbers, is not 0. */
#ifndef MO_REGION_CASE_H
#define MO_REGION_CASE_H
#include "tests/unit/codegen/onnx_build.h"

enum { REGION_ROWS = 40 };

/* Products, what is fused with them, and a shape that is computed from a shape. */
struct ob *region_products(void);
/* As behind the regions of a detector. */
struct ob *region_convolutions(void);
/* What a product makes is read behind a layer that no region takes, and joins what comes from there. */
struct ob *region_crossing(void);
/* A Reshape in the middle whose shape is a third input, "to": a region in a region. */
struct ob *region_told(void);
/* The rows do not fit the filter of a Conv that makes "y", which nobody can know before there are any. */
struct ob *region_unfit(void);
/* No region, but a layer of parts: RoiAlign; and one whose boxes are of an image that is not there. */
struct ob *region_rois(void);
struct ob *region_rois_of_no_image(void);
/* Rows put where an index says that an Expand repeats, behind a Cast to the type that they have. */
struct ob *region_scattered(void);
/* A product that is too small. */
struct ob *region_light(void);
#endif
