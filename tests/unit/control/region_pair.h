/* SPDX-License-Identifier: Apache-2.0
 * region_pair.h - a plan with regions beside one without, asked the same: queries of any number of rows. */
#ifndef MO_REGION_PAIR_H
#define MO_REGION_PAIR_H
#include "runtime/plan/plan.h"
#include "tests/unit/control/region_case.h"

struct region_query {
    float mask[REGION_ROWS];
    int64_t to[2];
};
/* So many rows, others for every seed. */
struct region_query region_query_of(int rows, int seed);

struct mo_plan *region_plan_of(struct ob *b, mo_plan_shaped_fn *shaped);
struct mo_instance *region_instance_of(const struct mo_plan *plan);
int region_set(struct mo_instance *instance, const struct mo_plan *plan, const struct region_query *q);
/* One query on one core; the instance has the answer. */
int region_answer(struct mo_instance *instance, const struct mo_plan *plan, const struct region_query *q);
typedef int region_ask_fn(struct mo_instance *instance, const struct mo_plan *plan,
                          const struct region_query *q);
/* Two queries, of so many rows and one more, on region_products(), with every allocation failing in turn. */
void region_sweep_memory(region_ask_fn *ask, int rows);
/* How many of the outputs. */
int region_differences(struct mo_instance *got, struct mo_instance *want, int outputs);

struct region_pair {
    struct mo_plan *plan, *plain;
    struct mo_instance *is, *should;
};
struct region_pair region_pair_of(struct ob *b);
void region_pair_end(struct region_pair *p, struct ob *b);
/* One query to both; the test fails where they differ. */
void region_pair_same(struct region_pair *p, const struct region_query *q);
#endif
