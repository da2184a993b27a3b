/* SPDX-License-Identifier: Apache-2.0
 * fuzz_machine.c - libFuzzer target: any bytes as a machine file are read or refused, with a place; what is
 * read of GPUs is a machine that lets can be planned for. */
#include <stdlib.h>
#include <string.h>
#include "bench/data/machine.h"
#include "tests/fuzz/memory_file.h"

static void check_gpus(const struct mo_bench_machine *m) {
    for (int g = 0; g < m->n_gpus; g++) {
        const struct mo_plan_kind *k = &m->gpus[g].kind;
        if (m->gpus[g].count < 1 || k->units < 1 || k->units > MO_PLAN_UNITS || k->n_sizes < 1) abort();
        if (k->max_lets < 1 || k->memory_bytes < 0 || m->gpus[g].reorganise_ns < 0) abort();
        for (int s = 0; s < k->n_sizes; s++)
            if (k->sizes[s] < 1 || k->sizes[s] > k->units || (s && k->sizes[s] <= k->sizes[s - 1])) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    struct memory_file memory;
    struct mo_env env = memory_file_env(&memory, bytes, n);
    struct mo_bench_machine *m = malloc(sizeof *m);
    moire_error err = {0};
    if (!m) return 0;
    if (mo_bench_machine_open(&env, "fuzz.json", m, &err)) {
        if (!strstr(err.message, "fuzz.json")) abort();
    } else {
        check_gpus(m);
        mo_bench_machine_close(m);
    }
    free(m);
    return 0;
}
