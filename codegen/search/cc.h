/* SPDX-License-Identifier: Apache-2.0
 * cc.h - the C compiler that turns emitted C into shared objects, found and asked at run time. */
#ifndef MO_CC_H
#define MO_CC_H
#include "variants/store_format.h"

struct mo_cc {
    char program[256];
    char id[MO_STORE_TEXT]; /* first line of --version: part of every variant's key */
};

/* Finds `wanted`, or gcc, clang, cc in that order when NULL; asks its version through a file in `work`.
 * MOIRE_ECOMPILER when there is none. */
int mo_cc_find(const struct mo_env *env, const char *wanted, const char *work, struct mo_cc *out,
               moire_error *err);
/* The flags for an ISA level as one text (part of the key).  Explicit levels, never -march=native. */
void mo_cc_flags(enum mo_isa isa, char out[MO_STORE_TEXT]);
/* Compiles <stem>.c to <stem>.so; MOIRE_ECOMPILER with the compiler's first line when it fails, or when it
 * had to be stopped after limit_ns (0 = no limit). */
int mo_cc_compile(const struct mo_env *env, const struct mo_cc *cc, enum mo_isa isa, const char *stem,
                  int64_t limit_ns, moire_error *err);
#endif
