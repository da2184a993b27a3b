/* SPDX-License-Identifier: Apache-2.0
 * others.c - processor time of other programs; see others.h. */
#define _GNU_SOURCE
#include "bench/trust/others.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "bench/trust/process_group.h"

enum { MAX_LINE = 512, MAX_CPUS = CPU_SETSIZE };

/* Columns of a line "cpuN user nice system idle iowait irq softirq steal ...". */
enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, COLUMNS };

/* A busy processor is seen at its clock ticks only, so the counts may be off by one at each end of a span. */
static const double tick_s = 0.03;

bool mo_cpu_time_parse(FILE *stat, const bool *allowed, int room, double ticks_a_second,
                       struct mo_cpu_time *out) {
    char line[MAX_LINE];
    *out = (struct mo_cpu_time){0};
    while (fgets(line, sizeof line, stat) && !strncmp(line, "cpu", 3)) {
        char *at, *end;
        long cpu = strtol(line + 3, &at, 10);
        if (at == line + 3 || cpu < 0 || cpu >= room || !allowed[cpu]) continue; /* the sum, or not ours */
        double column[COLUMNS];
        for (int i = 0; i < COLUMNS; i++, at = end) {
            column[i] = strtod(at, &end) / ticks_a_second;
            if (end == at) return false;
        }
        out->busy_s += column[USER] + column[NICE] + column[SYSTEM] + column[IRQ] + column[SOFTIRQ];
        out->stolen_s += column[STEAL];
        out->cpus++;
    }
    return out->cpus > 0;
}

bool mo_cpu_time_read(struct mo_cpu_time *out) {
    bool allowed[MAX_CPUS];
    cpu_set_t set;
    FILE *stat = fopen("/proc/stat", "re");
    if (!stat) return false;
    bool every = sched_getaffinity(0, sizeof set, &set) != 0;
    for (int i = 0; i < MAX_CPUS; i++)
        allowed[i] = every || CPU_ISSET(i, &set);
    bool known = mo_cpu_time_parse(stat, allowed, MAX_CPUS, (double)sysconf(_SC_CLK_TCK), out);
    fclose(stat);
    return known;
}

static double seconds_of(clockid_t clock) {
    struct timespec t;
    return clock_gettime(clock, &t) ? 0 : (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Processes that have ended and were not awaited are not among them. */
static double group_time(pid_t group) {
    pid_t pid[MO_GROUP_MOST];
    double sum = 0;
    for (int i = mo_process_group(group, pid) - 1; i >= 0; i--)
        sum += mo_cpu_time_of(pid[i]);
    return sum;
}

double mo_cpu_time_of(pid_t pid) {
    clockid_t clock;
    if (pid < 0) return group_time(-pid);
    return clock_getcpuclockid(pid, &clock) ? 0 : seconds_of(clock);
}

struct mo_cpu_moment mo_cpu_moment_now(pid_t pid) {
    struct mo_cpu_moment m = {.now_s = seconds_of(CLOCK_MONOTONIC),
                              .own_s = seconds_of(CLOCK_PROCESS_CPUTIME_ID)};
    if (pid) m.own_s += mo_cpu_time_of(pid);
    m.known = mo_cpu_time_read(&m.all);
    return m;
}

void mo_others_add(struct mo_others *sum, const struct mo_cpu_moment *from, const struct mo_cpu_moment *to) {
    if (!from->known || !to->known || to->now_s <= from->now_s) return;
    sum->seconds += to->now_s - from->now_s;
    sum->used_s += to->all.busy_s - from->all.busy_s - (to->own_s - from->own_s);
    sum->stolen_s += to->all.stolen_s - from->all.stolen_s;
    sum->cpus = to->all.cpus;
}

void mo_others_sum(struct mo_others *sum, const struct mo_others *more) {
    if (!(more->seconds > 0)) return;
    sum->seconds += more->seconds;
    sum->used_s += more->used_s;
    sum->stolen_s += more->stolen_s;
    sum->cpus = more->cpus;
}

/* Together they cannot be negative; apart they may, as some kernels count stolen time as the program's. */
static double taken_s(const struct mo_others *o) {
    double taken = o->used_s + o->stolen_s;
    return taken > 0 ? taken : 0;
}

double mo_others_cores(const struct mo_others *others) {
    return others->seconds > 0 ? taken_s(others) / others->seconds : -1;
}

double mo_others_limit(int cpus) {
    return 0.1 + 0.01 * cpus;
}

bool mo_others_busy(const struct mo_others *others) {
    return others->seconds > 0 && taken_s(others) > mo_others_limit(others->cpus) * others->seconds + tick_s;
}

struct mo_others mo_others_watch(int ms) {
    struct mo_others others = {0};
    const struct mo_cpu_moment from = mo_cpu_moment_now(0);
    poll(NULL, 0, ms);
    const struct mo_cpu_moment to = mo_cpu_moment_now(0);
    mo_others_add(&others, &from, &to);
    return others;
}
