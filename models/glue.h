/* SPDX-License-Identifier: Apache-2.0
 * glue.h - small models of standard operators that cut out of a picture what the next model of a pipeline
 * takes: they make applications of the zoo's networks. */
#ifndef MO_GLUE_H
#define MO_GLUE_H
#include "models/zoo.h"

struct mo_glue {
    const char *name;
    void (*build)(struct mo_build *b);
};
/* The table; *n rows. */
const struct mo_glue *mo_glue_table(int *n);
int mo_glue_write(const struct mo_env *env, const struct mo_glue *glue, const char *path, moire_error *err);

#endif
