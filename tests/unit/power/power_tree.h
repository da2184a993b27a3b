/* SPDX-License-Identifier: Apache-2.0
 * power_tree.h - for tests: a folder that stands for /, with the kernel's files of power in it, on a sys
 * table whose clock stands still, whose performance counters are the test's, and on which files can be
 * forbidden.
 *
 *   struct power_tree t;
 *   power_tree_open(&t);            config.env = &t.env; config.root = t.root;
 *   power_zone(&t, "intel-rapl:0", "package-0", "1000", "262143328850");
 *   power_put(&t, "/sys/...", "text\n");      NULL takes the file away
 *   power_tree_close(&t);           checks that nothing is left open */
#ifndef POWER_TREE_H
#define POWER_TREE_H
#include "tests/unit/base/fault_sys.h"

enum { POWER_COUNTERS = 8, POWER_FD = 5000 };

struct power_tree {
    struct fault_sys fault;
    struct mo_sys table;
    struct mo_env env;
    char root[64];
    const char *forbidden;  /* opening a path that has this in it: -EACCES */
    const char *unwritable; /* likewise, for writing */
    int64_t now;
    /* count_on_cpu(): what it returns when not 0, and the counters that it gave out */
    int refuses, opened, cpu[POWER_COUNTERS], closed;
    uint32_t type;
    uint64_t event[POWER_COUNTERS], value[POWER_COUNTERS];
    int lost; /* this counter cannot be read; -1 = none */
    char log[2000];
    int warnings;
};

void power_tree_open(struct power_tree *tree);
void power_tree_close(struct power_tree *tree);
void power_put(const struct power_tree *tree, const char *path, const char *text);
/* Text of a file; fails the test where there is none. */
const char *power_text(const struct power_tree *tree, const char *path);
/* A zone of powercap; a NULL takes that file away. */
void power_zone(const struct power_tree *tree, const char *folder, const char *name, const char *energy,
                const char *range);
/* The clock of a CPU: 800 to 3500 MHz, with that ceiling ("3000000\n"). */
void power_clock(const struct power_tree *tree, int cpu, const char *ceiling);
#endif
