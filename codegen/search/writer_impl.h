/* SPDX-License-Identifier: Apache-2.0
 * writer_impl.h - what the parts of the store's writer share: files (writer.c) and descriptions
 * (writer_json.c). */
#ifndef MO_WRITER_IMPL_H
#define MO_WRITER_IMPL_H
#include <jansson.h>
#include "codegen/search/writer.h"

enum { MO_WRITER_PATH = 4096, MO_WRITER_FILE = MO_WRITER_PATH + 128 };

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
/* <hh>/<name><suffix> below the processor's folder. */
void mo_writer_path(const struct mo_writer *writer, const char *name, const char *suffix,
                    char to[MO_WRITER_FILE]);
/* Writes a file in the work folder and renames it to that path; where others write too, the store is locked.
 */
int mo_writer_place(const struct mo_writer *writer, const char *to, const void *bytes, size_t n,
                    moire_error *err);
/* The same of an envelope with this body. */
int mo_writer_place_json(const struct mo_writer *writer, const char *to, const json_t *body,
                         moire_error *err);
/* The description of a variant as <hh>/<key>.json; the store is locked. */
int mo_writer_place_entry(const struct mo_writer *writer, const char *key, const struct mo_store_entry *entry,
                          moire_error *err);
#endif
