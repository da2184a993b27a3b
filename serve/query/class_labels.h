/* SPDX-License-Identifier: Apache-2.0
 * class_labels.h - names of classes: the file that an output's `label_filename` in config.pbtxt names, a line
 * for each class, in the model's folder. */
#ifndef MS_CLASS_LABELS_H
#define MS_CLASS_LABELS_H
#include <jansson.h>
#include "moire.h"

enum { MS_LABEL_BYTES = 4 << 20 }; /* of a file */

struct ms_labels {
    char *text; /* NULL: the output has none */
    const char **line;
    size_t n;
};

/* Those of the output `name` by the configuration; `folder` is the model's.
 * Returns: MOIRE_OK (there may be none), and *out is to be closed; MOIRE_EINVAL: no name of a file in that
 * folder, or text that is not UTF-8; MOIRE_EIO; MOIRE_ELIMIT: the file is too large; MOIRE_ENOMEM. */
int ms_labels_open(const char *folder, const json_t *config, const char *name, struct ms_labels *out,
                   moire_error *err);
void ms_labels_close(struct ms_labels *labels);
/* Returns: "": class `index` has no name. */
const char *ms_label(const struct ms_labels *labels, size_t index);
#endif
