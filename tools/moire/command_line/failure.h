/* SPDX-License-Identifier: Apache-2.0
 * failure.h - how a verb says that it failed: one line on standard error and an exit code, and with --json
 * one document on standard output too, so that who reads that always gets exactly one:
 *
 *   {"error": {"code": "MOIRE_EINVAL", "exit": 2, "message": "..."}}
 *
 * A verb that has a document already, in part or whole, puts the error into that instead of printing a
 * second. */
#ifndef MO_FAILURE_H
#define MO_FAILURE_H
#include <jansson.h>
#include "tools/moire/command_line/options.h"

/* Prints "moire VERB: message", and with --json the document above.  The exit code that suits the error. */
int mo_verb_fail(const struct mo_options *options, const moire_error *err);
/* The same when a result is there that has not been printed: with --json it is printed with "error" in it.  A
 * result that is no object becomes "results" beside it; NULL is none. */
int mo_verb_fail_with(const struct mo_options *options, const moire_error *err, json_t *result);
/* Puts "error" into a document, an object, that the caller prints. */
void mo_failure_put(json_t *document, const moire_error *err);
/* A document on standard output, ended with a line's end.  MOIRE_EIO: it could not be written. */
int mo_print_json(const json_t *document, moire_error *err);
/* Without options: where the words could not be read.  `verb` may be NULL. */
int mo_failure_say(const char *verb, bool json, const moire_error *err);
/* Whether a command line asks for JSON, even one that cannot be read. */
bool mo_wants_json(int argc, char *const *argv);
#endif
