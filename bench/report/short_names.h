/* SPDX-License-Identifier: Apache-2.0
 * short_names.h - names of models, short enough for tables and still distinct.
 *
 * A scenario names a user's own models by their files.  What is shown of a path is its last part without
 * ".onnx"; where two paths end alike, as many folders before it as tell them apart. */
#ifndef MO_BENCH_SHORT_NAMES_H
#define MO_BENCH_SHORT_NAMES_H
#include <jansson.h>

enum { MO_SHORT_NAME = 33 }; /* bytes, with the final 0 */

/* out[i] = a short form of names[i].  Different names get different forms; a long one loses its middle. */
void mo_short_names(const char *const *names, int n, char (*out)[MO_SHORT_NAME]);
/* A copy of a result document in which every tenant goes by its short name, also where a sentence begins with
 * it; each tenant of "calibration" keeps its own as "given_name".  NULL = out of memory. */
json_t *mo_short_document(const json_t *document);
#endif
