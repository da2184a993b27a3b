/* SPDX-License-Identifier: Apache-2.0
 * shrink.h - from a model with a wrong answer to the smallest part of it that still has one: nodes and
 * outputs are taken away as long as the same way of running it goes wrong.  What a taken node made becomes an
 * input. */
#ifndef MO_DT_SHRINK_H
#define MO_DT_SHRINK_H
#include "tests/differential/net.h"

/* Bytes that live as long as the case; result: what the small model does. */
const uint8_t *dt_shrink(struct dt_net *net, const struct dt_case *failing, struct dt_result *result,
                         size_t *n);
#endif
