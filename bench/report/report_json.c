/* SPDX-License-Identifier: Apache-2.0
 * report_json.c - a result document as a file. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "bench/report/report.h"
#include "runtime/base/output.h"

int mo_bench_write_json(const struct mo_env *env, const json_t *document, const char *path,
                        moire_error *err) {
    char *text = json_dumps(document, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    if (!text) return mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path);
    int code = mo_output_write(env, path, text, strlen(text), err);
    free(text);
    return code;
}
