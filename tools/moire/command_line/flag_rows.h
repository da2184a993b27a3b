/* SPDX-License-Identifier: Apache-2.0
 * flag_rows.h - what rows of the table of flags are written with; see flags.h. */
#ifndef MO_FLAG_ROWS_H
#define MO_FLAG_ROWS_H
#include "tools/moire/command_line/flags.h"

/* The field, and the kind of value that its type asks for. */
#define TO(target)                                                                                           \
    .kind = _Generic(((struct mo_options *)0)->target, bool                                                  \
                     : MO_FLAG_SWITCH, int                                                                   \
                     : MO_FLAG_INT, int64_t                                                                  \
                     : MO_FLAG_INT64, double                                                                 \
                     : MO_FLAG_REAL, const char *                                                            \
                     : MO_FLAG_TEXT, struct mo_words                                                         \
                     : MO_FLAG_WORDS, struct mo_wholes                                                       \
                     : MO_FLAG_WHOLES, struct mo_numbers                                                     \
                     : MO_FLAG_NUMBERS, struct mo_shapes                                                     \
                     : MO_FLAG_SHAPES),                                                                      \
    .to = offsetof(struct mo_options, target), .field = #target
#define ON(command) (UINT64_C(1) << MO_DO_##command)

/* A part of the table. */
struct mo_flag_rows {
    const struct mo_flag *row;
    int n;
};
extern const struct mo_flag_rows mo_flag_rows, mo_flag_rows_serve, mo_flag_rows_scale, mo_flag_rows_loadgen;
#endif
