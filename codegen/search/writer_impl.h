/* SPDX-License-Identifier: Apache-2.0
 * writer_impl.h - what the parts of the store's writer share: files (writer.c) and descriptions
 * (writer_json.c). */
#ifndef MO_WRITER_IMPL_H
#define MO_WRITER_IMPL_H
#include "codegen/search/writer.h"

enum { MO_WRITER_PATH = 4096 };

struct mo_writer {
    const struct mo_env *env;
    char base[MO_WRITER_PATH]; /* <store>/v1/<cpu> */
    char work[MO_WRITER_PATH + 16];
    int work_fd; /* of work/lock */
};

/* Takes the store's lock on a descriptor of its own (released by closing it); -1 and an error otherwise. */
int mo_writer_lock(const struct mo_writer *writer, moire_error *err);
void mo_writer_unlock(const struct mo_writer *writer, int lock);
/* Creates the folder of a name. */
int mo_writer_subfolder(const struct mo_writer *writer, const char *name, char subfolder[MO_WRITER_PATH + 8],
                        moire_error *err);
/* Writes a file in the work folder and renames it to <hh>/<name><suffix>; the store is locked. */
int mo_writer_place(const struct mo_writer *writer, const char *name, const char *suffix, const void *bytes,
                    size_t n, moire_error *err);
/* The description of a variant as <hh>/<key>.json; the store is locked. */
int mo_writer_place_entry(const struct mo_writer *writer, const char *key, const struct mo_store_entry *entry,
                          moire_error *err);
#endif
