/* SPDX-License-Identifier: Apache-2.0
 * pbtxt.h - reads protocol buffers' text format (config.pbtxt) into the JSON that Triton shows of it.
 *
 * The reader knows no schema but two lists of names: fields that are repeated become arrays even where they
 * stand once, and maps become objects by key.  Input is hostile: size and depth are bounded, and a fault
 * names its line. */
#ifndef MS_PBTXT_H
#define MS_PBTXT_H
#include <jansson.h>
#include "moire.h"

enum { MS_PBTXT_BYTES = 1 << 20, MS_PBTXT_DEPTH = 32 };

/* Returns: MOIRE_OK and an object in *out, the caller's; MOIRE_EFORMAT; MOIRE_ELIMIT; MOIRE_ENOMEM. */
int ms_pbtxt_parse(const char *text, size_t n, json_t **out, moire_error *err);
#endif
