/* SPDX-License-Identifier: Apache-2.0
 * batch_rows_rules.h - inside batch_rows.c: what a rule sees, and the rule of an operator. */
#ifndef MO_BATCH_ROWS_RULES_H
#define MO_BATCH_ROWS_RULES_H
#include "runtime/ops/op.h"

/* Where a tensor has its rows: an axis from 0, or one of these. */
enum { MO_ROWS_SAME = -1, /* a constant */ MO_ROWS_UNKNOWN = -2 };

struct mo_rows {
    const struct mo_graph *one, *many;
    int64_t n;
    int *axis; /* by tensor of `many` */
    int in;    /* axis of the inputs */
};

/* A node of `many` with at least one operand that has rows, and none that is unknown. */
struct mo_rows_node {
    const struct mo_rows *rows;
    const struct mo_node *node;
    int *out; /* what the rule finds out, by output; all MO_ROWS_UNKNOWN before */
};

/* Constant `id` is, bit by bit, the same for one row and for n. */
bool mo_rows_const_same(const struct mo_rows *rows, int id);
/* It is, and has one element along `axis` (or too few axes to have it); or it repeats along it, for n rows,
 * what it is for one.  axis may be negative. */
bool mo_rows_const_fits(const struct mo_rows *rows, int id, int axis);

typedef void (*mo_rows_rule)(const struct mo_rows_node *node);
/* NULL: there is none. */
mo_rows_rule mo_rows_rule_of(const struct mo_node *node);
#endif
