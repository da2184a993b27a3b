/* SPDX-License-Identifier: Apache-2.0
 * serve_functions.h - the functions of models/ as those of a server (serve/pipeline/functions.h). */
#ifndef MO_SERVE_FUNCTIONS_H
#define MO_SERVE_FUNCTIONS_H
#include "serve/pipeline/functions.h"

enum { MO_SERVE_FUNCTIONS = 16 };
/* Fills the table, which lives as long as `row`. */
struct ms_functions mo_serve_functions(struct ms_function row[MO_SERVE_FUNCTIONS]);
#endif
