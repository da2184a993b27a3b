/* SPDX-License-Identifier: Apache-2.0
 * symbols.h - fills a table of functions from a shared object that may not be there.
 *
 * The plugin links no CUDA library: the driver, NVML, cuDNN, cuBLASLt and NVRTC are opened at run time, so
 * that one build serves every machine and the absence of each is a message and not a failure to start. */
#ifndef MO_CUDA_SYMBOLS_H
#define MO_CUDA_SYMBOLS_H
#include "runtime/base/env.h"

struct mo_cuda_symbol {
    const char *name; /* as exported, version suffix and all: "cuMemAlloc_v2" */
    size_t at;        /* offset of the function pointer in the table */
};

struct mo_cuda_object {
    const struct mo_env *env;
    void *handle;
    char file[256]; /* what was opened */
};

/* A library: its names, best first (NULL after the last), what moire needs (one phrase: "CUDA driver 12.4 or
 * newer"), and its functions. */
enum { MO_CUDA_NAMES = 2 };
struct mo_cuda_wanted {
    const char *file[MO_CUDA_NAMES];
    const char *needs;
    const struct mo_cuda_symbol *symbols;
    int n_symbols;
};

/* The one way in which libraries are found: in each folder of `path` (separated by colons; NULL or "": none),
 * then by the loader's search, the first that opens and has all functions.  Fills `table`. MOIRE_EUNSUPPORTED
 * names every file that was tried, with the reason, and what is needed.  What is found in spite of a file
 * that would not do is a line in the log.  On failure nothing stays open. */
int mo_cuda_object_open(struct mo_cuda_object *object, const struct mo_env *env, const char *path,
                        const struct mo_cuda_wanted *wanted, void *table, moire_error *err);
/* Nothing from it may be called any more.  Fine on a zeroed object. */
void mo_cuda_object_close(struct mo_cuda_object *object);
#endif
