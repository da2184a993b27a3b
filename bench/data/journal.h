/* SPDX-License-Identifier: Apache-2.0
 * journal.h - a result document that grows by finished pieces: written after each one, and taken up again by
 * a later run of the same build on the same machine. */
#ifndef MO_BENCH_JOURNAL_H
#define MO_BENCH_JOURNAL_H
#include "bench/load/session.h"

struct mo_bench_journal {
    const struct mo_bench_session *session;
    const char *path; /* NULL: kept in memory only */
    bool keeps;       /* written after each piece; not to a pipe, which would get every state of it */
    json_t *document; /* {"kind", "experiment", "results", "left_out", "done", "complete"}; owned */
    int reused;       /* pieces that an earlier run had done */
};

/* kind: "latency", "kernels".  resume: take up what `path` holds, if it is there; MOIRE_EINVAL when that is
 * another kind of document, or from another build, machine or number of cores. */
int mo_bench_journal_open(const struct mo_bench_session *session, const char *kind, const char *path,
                          bool resume, struct mo_bench_journal *out, moire_error *err);
/* The list of results, and of what was left out and why; owned by the document. */
json_t *mo_bench_journal_results(const struct mo_bench_journal *journal);
json_t *mo_bench_journal_left_out(const struct mo_bench_journal *journal);
/* True when the piece is done; counted. */
bool mo_bench_journal_has(struct mo_bench_journal *journal, const char *piece);
/* The piece's results are in the document: notes so, and writes the file. */
int mo_bench_journal_note(struct mo_bench_journal *journal, const char *piece, moire_error *err);
/* Gives the document away, marked as complete or not. */
json_t *mo_bench_journal_finish(struct mo_bench_journal *journal, bool complete);
#endif
