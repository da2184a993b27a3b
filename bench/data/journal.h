/* SPDX-License-Identifier: Apache-2.0
 * journal.h - a result document that grows by finished pieces: written after each one, and taken up again by
 * a later run.
 *
 * Pieces of several runs stand beside each other, so a run takes up only what it would have made alike.
 * Measured times depend on the machine, its cores, the peers and all of moire's code; simulated results on
 * the code of the simulator and the policies alone (tools/make/commit.mk). */
#ifndef MO_BENCH_JOURNAL_H
#define MO_BENCH_JOURNAL_H
#include "bench/load/session.h"

enum mo_bench_basis { MO_BENCH_MEASURED, MO_BENCH_SIMULATED };

struct mo_bench_journal {
    const struct mo_bench_session *session;
    const char *path; /* NULL: kept in memory only */
    bool keeps;       /* written after each piece; not to a pipe, which would get every state of it */
    json_t *document; /* {"kind", "experiment", "results", "left_out", "done", "complete"}; owned */
    int reused;       /* pieces that an earlier run had done */
};

/* kind: "latency", "kernels".  resume: take up what `path` holds, if it is there; MOIRE_EINVAL when that is
 * another kind of document, or made with another of what its basis depends on. */
int mo_bench_journal_open(const struct mo_bench_session *session, const char *kind, enum mo_bench_basis basis,
                          const char *path, bool resume, struct mo_bench_journal *out, moire_error *err);
/* The list of results, and of what was left out and why; owned by the document. */
json_t *mo_bench_journal_results(const struct mo_bench_journal *journal);
json_t *mo_bench_journal_left_out(const struct mo_bench_journal *journal);
/* The result whose "piece" it is; NULL = there is none. */
json_t *mo_bench_journal_result(const struct mo_bench_journal *journal, const char *piece);
/* True when the piece is done; counted. */
bool mo_bench_journal_has(struct mo_bench_journal *journal, const char *piece);
/* The piece's results are in the document: notes so, and writes the file. */
int mo_bench_journal_note(struct mo_bench_journal *journal, const char *piece, moire_error *err);
/* Gives the document away, marked as complete or not. */
json_t *mo_bench_journal_finish(struct mo_bench_journal *journal, bool complete);
/* In place of that: there is no document, and the file stays as it is. */
void mo_bench_journal_drop(struct mo_bench_journal *journal);

/* A simulated document from its beginning to its end. */
struct mo_bench_journal_work {
    const char *kind, *output; /* as of open() */
    bool resume;
    /* Checks the pieces that are there; and (plays) makes those that are not. */
    int (*pieces)(void *self, bool plays, moire_error *err);
    /* Adds to the document what follows from its results. */
    int (*conclude)(void *self, json_t *document, moire_error *err);
    void *self;
};
/* It takes up what is there only if all of it was made alike.  *out stays as it is where nothing was begun;
 * with an error it has what was done until then. */
int mo_bench_journal_make(const struct mo_bench_session *session, const struct mo_bench_journal_work *work,
                          struct mo_bench_journal *journal, json_t **out, moire_error *err);
#endif
