/* SPDX-License-Identifier: Apache-2.0
 * simulate_bed.c - see simulate_bed.h. */
#define _GNU_SOURCE
#include "tests/unit/bench/simulate_bed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/unit/base/put_file.h"

void simulate_bed_put(const struct simulate_bed *p, const char *name, const char *text) {
    put_file(p->folder, name, text, 0644);
}

void simulate_bed_open(struct simulate_bed *p, const char *machine, const char *scenario) {
    *p = (struct simulate_bed){.env = mo_env_default()};
    strcpy(p->folder, "/tmp/moire-simulate-XXXXXX");
    assert_non_null(mkdtemp(p->folder));
    snprintf(p->machine, sizeof p->machine, "%s/m.json", p->folder);
    snprintf(p->scenario, sizeof p->scenario, "%s/s.json", p->folder);
    simulate_bed_put(p, "m.json", machine);
    simulate_bed_put(p, "s.json", scenario);
    simulate_bed_put(
        p, "a.csv",
        "# moire-profile 1\nlayer,name,variant,batch,pressure,kib,1,2\n0,x,0,1,0,1000,1000,520\n");
    simulate_bed_put(
        p, "b.csv",
        "# moire-profile "
        "1\nlayer,name,variant,batch,pressure,kib,1,4\n0,x,0,1,0,0,500,130\n1,y,0,1,0,0,400,300\n");
}

void simulate_bed_close(const struct simulate_bed *p) {
    static const char *const names[] = {"m.json", "s.json", "a.csv", "b.csv"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", p->folder, names[i]);
        unlink(path);
    }
    rmdir(p->folder);
}

struct mo_bench_simulate_options simulate_bed_options(const struct simulate_bed *p) {
    return (struct mo_bench_simulate_options){.machine = p->machine,
                                              .serve = {.scenario = p->scenario,
                                                        .policies = {"moire", "fcfs-1"},
                                                        .n_policies = 2,
                                                        .loads = {0.4, 0.7},
                                                        .n_loads = 2,
                                                        .step = 0.1,
                                                        .max_load = 1,
                                                        .seconds = 2,
                                                        .warmup = 0.2,
                                                        .seeds = {1, 2, 3},
                                                        .n_seeds = 3}};
}
