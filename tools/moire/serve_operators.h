/* SPDX-License-Identifier: Apache-2.0
 * serve_operators.h - the operators of models/ as those of a server (serve/repository/operators.h). */
#ifndef MO_SERVE_OPERATORS_H
#define MO_SERVE_OPERATORS_H
#include "serve/repository/operators.h"

enum { MO_SERVE_OPERATORS = 16 };
/* Fills the table, which lives as long as `row`. */
struct ms_operators mo_serve_operators(struct ms_operator row[MO_SERVE_OPERATORS]);
#endif
