/* SPDX-License-Identifier: Apache-2.0
 * programs.h - the folder of compiled GPU programs and choices of kernels (runtime/gpu/cuda/cache.h) as
 * `moire store` shows it: what it holds, whether it is whole, and taking out what nothing can use.
 *
 * A name is the digest of all that the contents depend on, so a file cannot be out of date, and nobody can
 * tell from it whether its model will come again: files of this format are *needed*.  *Stale* is another
 * format, *unneeded* what a writer that died has left, *damaged* what fails its checksum. */
#ifndef MO_PROGRAMS_H
#define MO_PROGRAMS_H
#include "codegen/search/upkeep.h"

enum mo_program_kind { MO_PROGRAM_CODE, MO_PROGRAM_CHOICE, MO_PROGRAM_LEFT, MO_PROGRAM_KINDS };
const char *mo_program_kind_name(enum mo_program_kind kind);

struct mo_program_file {
    char path[160]; /* below the folder */
    char name[MO_SHA256_HEX];
    enum mo_program_kind kind;
    enum mo_stored_state state;
    int64_t bytes;
    const char *why; /* not needed: the reason */
};

struct mo_programs {
    const struct mo_env *env;
    char folder[4096]; /* "": none */
    int n, cap;
    struct mo_program_file *file;
};

/* Lists a folder; "" or one that is not there is an empty one.  MOIRE_ESTORE: it breaks the trust rule. */
int mo_programs_open(const struct mo_env *env, const char *folder, struct mo_programs *out, moire_error *err);
void mo_programs_close(struct mo_programs *programs);
/* Reads all that is needed and compares the checksums.  MOIRE_ENOMEM. */
int mo_programs_check(struct mo_programs *programs, moire_error *err);
/* What mo_programs_clean() would take out. */
int64_t mo_programs_surplus(const struct mo_programs *programs, int *files);
/* Checks, and takes out what is not needed; who has a file open keeps it.  MOIRE_EBUSY: a file is being
 * written. */
int mo_programs_clean(struct mo_programs *programs, int *files, int64_t *bytes, moire_error *err);
#endif
