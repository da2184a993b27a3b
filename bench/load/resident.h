/* SPDX-License-Identifier: Apache-2.0
 * resident.h - what the resident memory of a process consists of, from its smaps. */
#ifndef MO_BENCH_RESIDENT_H
#define MO_BENCH_RESIDENT_H
#include <stdio.h>

/* Every mapping belongs to one kind. */
enum mo_resident_kind {
    MO_RESIDENT_MODELS,  /* compiled models of a store: pages of the page cache */
    MO_RESIDENT_KERNELS, /* compiled kernels: of a store's folder or of sealed memory files */
    MO_RESIDENT_FILES,   /* the program, libraries and other files */
    MO_RESIDENT_HEAP,    /* of malloc() */
    MO_RESIDENT_PAGES,   /* other anonymous memory: activations, inputs, scratch, threads' stacks */
    MO_RESIDENT_KINDS
};
/* "models", "kernels", "files", "heap", "pages" */
const char *mo_resident_name(enum mo_resident_kind kind);

struct mo_resident {
    double mib[MO_RESIDENT_KINDS];
    double file_mib; /* of them: unchanged pages of files, which other processes may map, too */
};
/* Reads the text of /proc/PID/smaps. */
void mo_resident_read(FILE *smaps, struct mo_resident *out);
#endif
