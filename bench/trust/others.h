/* SPDX-License-Identifier: Apache-2.0
 * others.h - how much of the processors other programs, and other guests of the same host, take.
 *
 * The kernel counts the time in which each processor was busy, or was stolen by the host; what the measured
 * programs used themselves is subtracted.  Unlike the load average, this does not remember the minute before.
 */
#ifndef MO_TRUST_OTHERS_H
#define MO_TRUST_OTHERS_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Seconds since the boot, of all processors that this process may use. */
struct mo_cpu_time {
    double busy_s, stolen_s;
    int cpus;
};
/* Reads the text of /proc/stat; allowed[] has `room` processors, true where they count.  False: not such a
 * text, or it has none of them. */
bool mo_cpu_time_parse(FILE *stat, const bool *allowed, int room, double ticks_a_second,
                       struct mo_cpu_time *out);
/* Of this machine now; false where the kernel does not tell. */
bool mo_cpu_time_read(struct mo_cpu_time *out);
/* Processor time of a process and all its threads, in seconds; 0 when there is no such process.  Below 0: of
 * all processes of that group, as kill(2) has it. */
double mo_cpu_time_of(pid_t pid);

/* One moment: what was used until then. */
struct mo_cpu_moment {
    bool known;
    double now_s, own_s; /* own: of this process and the one that it measures */
    struct mo_cpu_time all;
};
/* pid: the measured process, or group as above; 0 = none. */
struct mo_cpu_moment mo_cpu_moment_now(pid_t pid);

/* What others took between moments; spans add up. */
struct mo_others {
    double seconds;          /* of the clock; 0 = nothing known */
    double used_s, stolen_s; /* processor time */
    int cpus;
};
void mo_others_add(struct mo_others *sum, const struct mo_cpu_moment *from, const struct mo_cpu_moment *to);
void mo_others_sum(struct mo_others *sum, const struct mo_others *more);
/* Processors that others kept busy on average, stolen time included; -1 = not known. */
double mo_others_cores(const struct mo_others *others);
/* So many are taken for a quiet machine: a tenth of a core, and a hundredth of all. */
double mo_others_limit(int cpus);
/* Over that limit, by more than the kernel's clock ticks explain.  False when nothing is known. */
bool mo_others_busy(const struct mo_others *others);
/* What others take in the next so many milliseconds, while this process sleeps. */
struct mo_others mo_others_watch(int ms);
#endif
