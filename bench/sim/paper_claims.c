/* SPDX-License-Identifier: Apache-2.0
 * paper_claims.c - the paper's numbers; see paper_claims.h.  The text says 44 % of the heavy workload where
 * abstract and introduction say 45 %. */
#include "bench/sim/paper_claims.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *scenario; /* NULL = all of them */
    const char *policy, *key;
    double value;
} claims[] = {{"veltair-light", "veltair", "over_layerwise", 1.71},
              {"veltair-medium", "veltair", "over_layerwise", 1.62},
              {"veltair-heavy", "veltair", "over_layerwise", 1.45},
              {"veltair-mix", "veltair", "over_layerwise", 1.68},
              {"veltair-mix", "veltair-ac", "over_layerwise", 1.50},
              {NULL, "veltair", "latency_over_solo", 1.1},
              {NULL, "veltair-ac", "latency_over_solo", 1.17},
              {NULL, "veltair-as", "latency_over_solo", 1.6}};

double mo_bench_claim(const char *scenario, const char *policy, const char *key) {
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++)
        if ((!claims[i].scenario || !strcmp(claims[i].scenario, scenario)) &&
            !strcmp(claims[i].policy, policy) && !strcmp(claims[i].key, key))
            return claims[i].value;
    return 0;
}
