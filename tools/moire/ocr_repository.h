/* SPDX-License-Identifier: Apache-2.0
 * ocr_repository.h - the reading pipeline as a folder for `moire serve` (docs/pipelines.md), and the
 * characters that a recogniser carries in its metadata. */
#ifndef MO_OCR_REPOSITORY_H
#define MO_OCR_REPOSITORY_H
#include <jansson.h>
#include "runtime/base/env.h"

struct mo_ocr_networks {
    const char *detector, *classifier, *recogniser; /* files */
};

/* The recogniser's characters, one a line, in the region.  MOIRE_EFORMAT: its metadata have none. */
int mo_ocr_characters(const struct mo_env *env, struct mo_region *region, const char *path, const char **out,
                      moire_error *err);
/* Writes the folder, made where it is not there; files of the networks are copied.  all: not NULL: an array,
 * which gets an object for each file. */
int mo_ocr_repository(const struct mo_env *env, const char *folder, const struct mo_ocr_networks *networks,
                      json_t *all, moire_error *err);
#endif
