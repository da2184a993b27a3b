/* SPDX-License-Identifier: Apache-2.0
 * scale.h - what `moire scale` writes of a plan for engines that spread queries over machines.  One file an
 * engine; scale_files.c puts texts into files of the folder.
 *
 * Invariants.  A file is there whole or not at all.  A plan gives the same files each time. */
#ifndef MO_SCALE_H
#define MO_SCALE_H
#include "tools/moire/scale/scale_plan.h"

struct mo_scale_options {
    const char *listen; /* ADDRESS:PORT of HAProxy; ADDRESS may be '*' */
    int agent_step;     /* of a node the agent's port is its port and so much; 0: none */
    const char *image;  /* of containers */
};

/* Where files go, and which were written. */
struct mo_scale_folder {
    const struct mo_env *env;
    const char *path;
    json_t *written; /* names, in order */
    FILE *to;        /* the file that is being put together */
    char *text;
    size_t n;
};

/* scale_files.c.  Makes the folder where it is missing. */
int mo_scale_folder_open(const struct mo_env *env, const char *path, struct mo_scale_folder *out,
                         moire_error *err);
void mo_scale_folder_close(struct mo_scale_folder *folder);
/* A text to be written with fprintf(); NULL: no memory, which the end tells. */
FILE *mo_scale_file(struct mo_scale_folder *folder);
/* Writes it under that name, which may have one folder in front, made where it is missing. */
int mo_scale_file_end(struct mo_scale_folder *folder, const char *name, moire_error *err);
/* A text between double quotes, as JSON and YAML have it; it has no control characters. */
void mo_scale_quote(FILE *to, const char *text);

/* An engine: all of its files.  MOIRE_EINVAL: an option; MOIRE_EFORMAT: a name that the engine cannot take;
 * MOIRE_EIO; MOIRE_ENOMEM. */
int mo_scale_haproxy(const struct mo_scale_plan *plan, const struct mo_scale_options *options,
                     struct mo_scale_folder *folder, moire_error *err);
int mo_scale_kserve(const struct mo_scale_plan *plan, const struct mo_scale_options *options,
                    struct mo_scale_folder *folder, moire_error *err);
int mo_scale_ray(const struct mo_scale_plan *plan, const struct mo_scale_options *options,
                 struct mo_scale_folder *folder, moire_error *err);
#endif
