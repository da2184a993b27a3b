/* SPDX-License-Identifier: Apache-2.0
 * config_file.h - the file of `moire serve --config`: what flags say, and what config.pbtxt says of models,
 * in one JSON document.  A key that is not known is a fault that names its path. */
#ifndef MS_CONFIG_FILE_H
#define MS_CONFIG_FILE_H
#include <jansson.h>
#include <stdbool.h>
#include "moire.h"

struct ms_config_file {
    json_t *document;
    char folder[1024]; /* the file's: paths of models are from there */
};

/* Returns: MOIRE_OK, and it is to be closed; MOIRE_EIO: it cannot be read; MOIRE_EFORMAT: no JSON, with line
 * and column; MOIRE_EINVAL: a key or a value. */
int ms_config_file_open(const char *path, struct ms_config_file *out, moire_error *err);
void ms_config_file_close(struct ms_config_file *file);
/* Members of the document; `standard` where they are not there. */
const char *ms_config_file_text(const struct ms_config_file *file, const char *key, const char *standard);
int ms_config_file_whole(const struct ms_config_file *file, const char *key, int standard);
bool ms_config_file_switch(const struct ms_config_file *file, const char *key, bool standard);
/* Entries of models, each with a name; borrowed; NULL: none. */
const json_t *ms_config_file_models(const struct ms_config_file *file);
#endif
