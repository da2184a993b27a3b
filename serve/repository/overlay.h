/* SPDX-License-Identifier: Apache-2.0
 * overlay.h - entries of models in the file of --config (serve/config_file.h) as config.pbtxt has it: they
 * override what stands there. */
#ifndef MS_OVERLAY_H
#define MS_OVERLAY_H
#include <jansson.h>

struct ms_functions;

/* Where models come from. */
struct ms_source {
    const char *folder;                   /* the repository; NULL: none */
    const char *models_folder;            /* paths of entries are from there */
    const json_t *models;                 /* entries; NULL: none */
    const struct ms_functions *functions; /* that its models may name; NULL: none */
};

/* The entry of that name; NULL: there is none. */
const json_t *ms_overlay_entry(const json_t *models, const char *name);
/* Merges an entry (NULL: none) into a configuration, which is taken over; NULL: an empty one.
 * Returns: the caller's; NULL: no memory. */
json_t *ms_overlay_apply(const json_t *entry, json_t *config);
#endif
