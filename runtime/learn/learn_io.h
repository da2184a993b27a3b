/* SPDX-License-Identifier: Apache-2.0
 * learn_io.h - files of what was learned: policies (weights to decide with) and checkpoints (all that
 * training needs to go on).
 *
 *   8 bytes "moLearn\n", version (4), kind (4), bytes of the whole file (8), the body,
 *   SHA-256 of all before (32)
 *
 * Numbers are little-endian, floats and doubles IEEE 754.  Nobody but this code reads a body, so it has no
 * names: it is what one walk over the data says, and the same walk writes and reads it.  A file is refused
 * whole: of another version or kind, cut, damaged, with a number that is none or out of its range, or with
 * something left behind the last value.  A file takes the place of an older one by rename. */
#ifndef MO_LEARN_IO_H
#define MO_LEARN_IO_H
#include "runtime/base/output.h"
#include "runtime/base/sha256.h"

/* Versions count by kind. */
enum { MO_LEARN_POLICY_VERSION = 2, MO_LEARN_CHECKPOINT_VERSION = 2, MO_LEARN_HEADER = 24 };
enum mo_learn_kind { MO_LEARN_POLICY = 1, MO_LEARN_CHECKPOINT = 2 };

/* One way over a body.  After the first failure every call does nothing. */
struct mo_learn_io {
    enum mo_learn_way { MO_LEARN_MEASURE, MO_LEARN_WRITE, MO_LEARN_READ } way;
    const char *path;
    moire_error *err;
    int code;
    uint64_t bytes; /* passed so far */
    struct mo_output *out;
    struct mo_sha256 hash;
    const unsigned char *at, *end;
};
typedef void mo_learn_walk(void *data, struct mo_learn_io *io);

/* MOIRE_EIO. */
int mo_learn_write(const struct mo_env *env, const char *path, enum mo_learn_kind kind, mo_learn_walk *walk,
                   void *data, moire_error *err);
/* MOIRE_EFORMAT: the file is not one of that kind, or is not whole; MOIRE_EIO, MOIRE_ELIMIT, MOIRE_ENOMEM,
 * each with the file's name; or what the walk refused.  The data may have been overwritten in part. */
int mo_learn_read(const struct mo_env *env, const char *path, enum mo_learn_kind kind, mo_learn_walk *walk,
                  void *data, moire_error *err);

/* For walks.  `what` names the value to a user. */
void mo_learn_int(struct mo_learn_io *io, const char *what, int *v, int least, int most);
void mo_learn_long(struct mo_learn_io *io, int64_t *v);
void mo_learn_word(struct mo_learn_io *io, uint64_t *v);
void mo_learn_real(struct mo_learn_io *io, const char *what, double *v);            /* finite */
void mo_learn_floats(struct mo_learn_io *io, const char *what, float *v, size_t n); /* finite */
/* A text without NUL inside, of fewer than `room` bytes; at least one. */
void mo_learn_text(struct mo_learn_io *io, const char *what, char *text, size_t room);
/* Must read what it would write: a setting that the file was made with. */
void mo_learn_same(struct mo_learn_io *io, const char *what, double v);
/* Whether so many floats can still follow: before memory is taken for them.  Refuses if not. */
bool mo_learn_room(struct mo_learn_io *io, size_t floats);
/* Ends the way with `code`, file and reason. */
void mo_learn_refuse(struct mo_learn_io *io, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#endif
