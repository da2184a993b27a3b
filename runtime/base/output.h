/* SPDX-License-Identifier: Apache-2.0
 * output.h - the one writer of what a user asked for by a path: results, traces, models, pictures.
 *
 * What is at the path decides how it is written:
 *   nothing, or a regular file  a new file in the same folder under a name that nobody else has, which then
 *                               takes the place of the old one: a reader finds the old file or the new one,
 *                               whole, also when two processes write to one path at once.  Permission bits
 *                               of the old file are kept (its owner, further links and attributes are not);
 *                               a new file has those of the umask.  A file that we may not write to is not
 *                               replaced, even if its folder would allow it.
 *   a symbolic link             its target is written as above and the link stays; a link to nothing makes
 *                               the file it names
 *   a device, FIFO, socket      opened and written to; it stays what it is
 *   /dev/stdout, /dev/fd/N      the open descriptor itself, so that what is there already stays
 *
 * Every error of opening, writing, closing and renaming is MOIRE_EIO and names the path as it was given. */
#ifndef MO_OUTPUT_H
#define MO_OUTPUT_H
#include "runtime/base/env.h"

enum { MO_OUTPUT_PATH = 4096 };

struct mo_output {
    const struct mo_env *env;
    const char *name; /* as the user gave it; lives as long as the output */
    enum { MO_OUTPUT_REPLACE, MO_OUTPUT_THROUGH, MO_OUTPUT_LENT } way;
    int fd, rc;                /* fd: -1 when closed; rc: the first error, -errno */
    int mode;                  /* of the file that is replaced; -1: there is none */
    char path[MO_OUTPUT_PATH]; /* behind the symbolic links */
    char part[MO_OUTPUT_PATH]; /* MO_OUTPUT_REPLACE: what is renamed to `path` */
};

/* Whether `path` could be written now.  Nothing is made, opened for writing or truncated: for the beginning
 * of a command that writes only at its end. */
int mo_output_check(const struct mo_env *env, const char *path, moire_error *err);
/* False for devices, pipes and open descriptors: what is written to them cannot be taken back, so a document
 * that grows goes there once, at the end. */
bool mo_output_replaces(const struct mo_env *env, const char *path);

int mo_output_open(const struct mo_env *env, const char *path, struct mo_output *out, moire_error *err);
/* After the first failure nothing more is written; mo_output_close() tells. */
void mo_output_put(struct mo_output *out, const void *bytes, size_t n);
/* Puts the file in its place. On failure what was there before stays. */
int mo_output_close(struct mo_output *out, moire_error *err);
/* In place of mo_output_close(): what was put is not wanted.  Fine for an output that is closed. */
void mo_output_drop(struct mo_output *out);

/* Open, put, close. */
int mo_output_write(const struct mo_env *env, const char *path, const void *bytes, size_t n,
                    moire_error *err);
#endif
