/* SPDX-License-Identifier: Apache-2.0
 * share_table.h - profiles of models on shares of a GPU as data: profile files
 * (runtime/profile/profile_table.h) of a second kind, told by the header line.
 *
 *   # moire-profile 1
 *   # model resnet50                     also machine, source, note: text for readers
 *   # memory_mib 1820                    what the loaded model holds on the GPU
 *   # copy_bytes 602112 4000             what a query brings in and takes out
 *   batch,what,100,200,500,1000
 *   1,us,7682.4,4197.5,2873.4,2402.5
 *   1,l2,,5.05,7.28,
 *   2,us,,6921.3,3714.8,
 *
 * The header's numbers are shares in permille of the GPU, rising.  A line gives for one batch `us`, the
 * microseconds on the GPU without copies, or `sm`, `l2` or `dram`, the percent of the GPU's SMs, L2 and
 * memory bandwidth in use meanwhile.  Batches rise; of a batch `us` comes first and the others at most once,
 * in that order.  A cell may be empty: not measured there; `us` needs one at least.  Refused, with file and
 * line: whatever breaks that, cells missing or too many, numbers out of range. */
#ifndef MO_SHARE_TABLE_H
#define MO_SHARE_TABLE_H
#include "runtime/profile/share_profile.h"

/* The most that a file may say. */
#define MO_SHARE_US    1e9
#define MO_SHARE_MIB   1e7
#define MO_SHARE_BYTES 1e12

struct mo_share_table {
    const char *model, *machine, *source, *note; /* "" = not said */
    struct mo_share_profile *profile;            /* finished */
    struct mo_region *region;                    /* owns the strings */
};

/* On success *out must be freed before `env` goes; `path` is for messages. */
int mo_share_table_parse(const struct mo_env *env, const char *path, const char *text, size_t n,
                         struct mo_share_table *out, moire_error *err);
int mo_share_table_read(const struct mo_env *env, const char *path, struct mo_share_table *out,
                        moire_error *err);
void mo_share_table_free(struct mo_share_table *table);

/* The file of a table: what was recorded in its profile, a hole where nothing was, in the form that parse()
 * reads, whatever was measured: numbers stay in range, a use without a time is left out, as is a batch
 * without one; *n bytes that lie in table->region, which must be there.  NULL: out of memory. */
char *mo_share_table_text(const struct mo_share_table *table, size_t *n);
#endif
