/* SPDX-License-Identifier: Apache-2.0
 * machine_lines.h - log lines that tell of the machine and not of what is tested: layers that were measured
 * to be slow, cores that stood still beside other programs. */
#ifndef MACHINE_LINES_H
#define MACHINE_LINES_H
#include <stdbool.h>
#include <string.h>

static inline bool is_of_the_machine(const char *line) {
    return strstr(line, "slow reference") || strncmp(line, "scheduler: ", 11) == 0;
}
#endif
