/* SPDX-License-Identifier: Apache-2.0
 * fuzz_scenario.c - libFuzzer target: any bytes as a scenario file are read or refused, with a place. */
#include <stdlib.h>
#include <string.h>
#include "bench/data/scenario.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct mo_env env = mo_env_default();
    struct mo_bench_scenario *s = malloc(sizeof *s);
    moire_error err = {0};
    if (!s) return 0;
    if (mo_bench_scenario_parse(&env, "fuzz.json", (const char *)data, size, s, &err)) {
        if (!strstr(err.message, "fuzz.json")) abort();
    } else {
        if (s->n_tenants < 1) abort();
        mo_bench_scenario_close(s);
    }
    free(s);
    return 0;
}
