/* SPDX-License-Identifier: Apache-2.0
 * report.h - what is made of a result document: terminal tables, JSON, an HTML page, a Chrome trace.
 *
 * The JSON document is the one source; `moire bench report` draws an old one again.  All text from it (tenant
 * and file names) is escaped.  Files appear under their name only when complete. */
#ifndef MO_BENCH_REPORT_H
#define MO_BENCH_REPORT_H
#include <jansson.h>
#include "runtime/base/env.h"

void mo_bench_serve_print(const json_t *document);
int mo_bench_write_json(const struct mo_env *env, const json_t *document, const char *path, moire_error *err);
int mo_bench_write_html(const struct mo_env *env, const json_t *document, const char *path, moire_error *err);
int mo_bench_write_trace(const struct mo_env *env, const json_t *document, const char *path,
                         moire_error *err);
#endif
