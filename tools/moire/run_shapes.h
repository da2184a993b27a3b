/* SPDX-License-Identifier: Apache-2.0
 * run_shapes.h - the input shapes of `moire run`: those of --shape, and those that the files of --input
 * state.
 *
 * A file that is given for an input says how long the input is, so nobody needs to say it twice.  --shape for
 * the same input comes first; a file that does not fit it is refused when it is read. */
#ifndef MO_RUN_SHAPES_H
#define MO_RUN_SHAPES_H
#include "tools/moire/command_line/options.h"

struct mo_run_shapes {
    moire_shape shape[2 * MO_OPTION_ROOM];
    char name[MO_OPTION_ROOM][256]; /* inputs that have a file */
    int n;
};

/* Looks into the files.  MOIRE_EINVAL: an --input is not NAME=FILE; MOIRE_EIO, MOIRE_EFORMAT, ...: a file. */
int mo_run_shapes(const struct mo_env *env, const struct mo_options *options, struct mo_run_shapes *out,
                  moire_error *err);
#endif
