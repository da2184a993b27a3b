/* SPDX-License-Identifier: Apache-2.0
 * cover.h - what the graphs have exercised: operators of the table, kernels of every kind, families of the
 * generator; and what of them never. */
#ifndef MO_DT_COVER_H
#define MO_DT_COVER_H
#include "codegen/family/family.h"

enum { DT_COVER_ROWS = 512 };
struct dt_cover_row {
    char group[32], name[48];
    int64_t n;
};
struct dt_cover {
    int n;
    struct dt_cover_row row[DT_COVER_ROWS];
};
void dt_cover_add(struct dt_cover *cover, const char *group, const char *name);
/* Operators in all rows of the operator table, families of the generator: with the ones that were never met.
 */
void dt_cover_print(const struct dt_cover *cover);
/* One group of rows as it is: reasons. */
void dt_cover_print_group(const struct dt_cover *cover, const char *group);
int64_t dt_cover_sum(const struct dt_cover *cover, const char *group);
#endif
